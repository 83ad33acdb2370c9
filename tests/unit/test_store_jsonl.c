#include "jsonl_fixture.h"

#include <jansson.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>

#define LINE "{\"a\":1}" /* 8 bytes with its newline */

static mode_t mode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void test_a_new_file_is_private(void **state)
{
	static const mode_t masks[] = { 0, 0077, 0777 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
		mode_t old = umask(masks[i]);

		must_append(log, LINE);
		umask(old);
		assert_int_equal(mode_of(log_path(f, "")), 0600);
		assert_file(log_path(f, ""), LINE "\n");
		assert_int_equal(unlink(log_path(f, "")), 0);
	}
}

/* A mode that somebody gave it stays; it is the new file that is private. */
static void test_new_touches_nothing(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 8);

	assert_file(log_path(f, ""), NULL);
	must_append(log, LINE);
	assert_int_equal(chmod(log_path(f, ""), 0640), 0);
	must_append(log, LINE);
	assert_int_equal(mode_of(log_path(f, ".1")), 0640);
	assert_int_equal(mode_of(log_path(f, "")), 0600);
}

static void test_rotation_keeps_two(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 20);
	static const char *const files[][3] = {
		{ "{\"n\":0}\n", NULL, NULL },
		{ "{\"n\":0}\n{\"n\":1}\n", NULL, NULL },
		{ "{\"n\":2}\n", "{\"n\":0}\n{\"n\":1}\n", NULL },
		{ "{\"n\":2}\n{\"n\":3}\n", "{\"n\":0}\n{\"n\":1}\n", NULL },
		{ "{\"n\":4}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":0}\n{\"n\":1}\n" },
		{ "{\"n\":4}\n{\"n\":5}\n", "{\"n\":2}\n{\"n\":3}\n", "{\"n\":0}\n{\"n\":1}\n" },
		{ "{\"n\":6}\n", "{\"n\":4}\n{\"n\":5}\n", "{\"n\":2}\n{\"n\":3}\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char line[32];

		snprintf(line, sizeof(line), "{\"n\":%zu}", i);
		must_append(log, line);
		assert_file(log_path(f, ""), files[i][0]);
		assert_file(log_path(f, ".1"), files[i][1]);
		assert_file(log_path(f, ".2"), files[i][2]);
		assert_file(log_path(f, ".3"), NULL);
	}
}

static void test_the_exact_size_still_fits(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *exact = must_new(f, 16);
	CLEANUP(log_cleanup) struct jsonl *less = must_new(f, 15);

	must_append(exact, LINE);
	must_append(exact, LINE);
	assert_file(log_path(f, ""), LINE "\n" LINE "\n");
	assert_file(log_path(f, ".1"), NULL);
	must_append(exact, LINE);
	assert_file(log_path(f, ""), LINE "\n");
	must_append(less, LINE);
	assert_file(log_path(f, ""), LINE "\n");
	assert_file(log_path(f, ".1"), LINE "\n");
	assert_file(log_path(f, ".2"), LINE "\n" LINE "\n");
}

static void test_a_longer_line_is_alone(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	static const char longer[] = "{\"longer than sixteen\":1}";

	must_append(log, LINE);
	must_append(log, longer);
	assert_file(log_path(f, ""), "{\"longer than sixteen\":1}\n");
	assert_file(log_path(f, ".1"), LINE "\n");
	must_append(log, LINE);
	assert_file(log_path(f, ""), LINE "\n");
	assert_file(log_path(f, ".1"), "{\"longer than sixteen\":1}\n");
	assert_file(log_path(f, ".2"), LINE "\n");
}

/* A kill between the two renames leaves no .1. */
static void test_half_a_rotation_is_finished(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 8);

	must_write(log_path(f, ".2"), "{\"old\":1}\n");
	must_write(log_path(f, ""), LINE "\n");
	must_append(log, "{\"b\":2}");
	assert_file(log_path(f, ".2"), "{\"old\":1}\n");
	assert_file(log_path(f, ".1"), LINE "\n");
	assert_file(log_path(f, ""), "{\"b\":2}\n");
}

/* ---- half lines ---- */

static void test_half_a_line_is_cut(void **state)
{
	static const struct {
		const char *before, *after;
	} rows[] = {
		{ LINE "\n{\"half", LINE "\n{\"b\":2}\n" },
		{ LINE "\n{", LINE "\n{\"b\":2}\n" },
		{ "{\"timestamp\":17000", "{\"b\":2}\n" },
		{ "{", "{\"b\":2}\n" },
		{ LINE "\n\n{\"x\":1}", LINE "\n\n{\"b\":2}\n" },
		{ LINE "\n", LINE "\n{\"b\":2}\n" },
		{ "", "{\"b\":2}\n" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);

		must_write(log_path(f, ""), rows[i].before);
		must_append(log, "{\"b\":2}");
		assert_file(log_path(f, ""), rows[i].after);
	}
}

/* One long line without an end, as other programs write them, is not half of ours. */
static void test_a_document_is_left_alone(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	struct err err = ERR_INIT;

	must_write(log_path(f, ""), "{\"my\": \"document\"}");
	assert_int_equal(jsonl_append(log, "{\"b\":2}", 7, &err), -EBADMSG);
	assert_file(log_path(f, ""), "{\"my\": \"document\"}");
}

static void test_half_of_a_long_line_is_cut(void **state)
{
	static const size_t lengths[] = { 16383, 16384, 16385, 40000, 300000 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000000);
		CLEANUP(buf_release) struct buf text = BUF_INIT;

		buf_add_str(&text, LINE "\n");
		while (text.len < lengths[i])
			buf_add_char(&text, '{');
		must_write(log_path(f, ""), text.data);
		must_append(log, "{\"b\":2}");
		assert_file(log_path(f, ""), LINE "\n{\"b\":2}\n");
	}
}

/* Also where the half line is what makes it too long, and where it is rotated all the same. */
static void test_a_rotated_file_has_whole_lines(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);

	must_write(log_path(f, ""), LINE "\n{\"half of a line");
	must_append(log, LINE);
	assert_file(log_path(f, ""), LINE "\n" LINE "\n");
	assert_file(log_path(f, ".1"), NULL);
	must_write(log_path(f, ""), LINE "\n" LINE "\n{\"half of a line");
	must_append(log, LINE);
	assert_file(log_path(f, ""), LINE "\n");
	assert_file(log_path(f, ".1"), LINE "\n" LINE "\n");
}

static void set_limit(rlim_t bytes)
{
	struct rlimit limit = { bytes, RLIM_INFINITY };

	CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* As on a full disk: part of a write is done, then nothing. */
static void child_runs_out_of_room(struct fixture *f)
{
	struct jsonl *log = jsonl_new(log_path(f, ""), 1000000);
	static char line[5001] = "{";
	struct err err = ERR_INIT;
	struct stat st;

	memset(line + 1, 'x', 4999);
	signal(SIGXFSZ, SIG_IGN);
	set_limit(12000);
	CHILD_CHECK(jsonl_append(log, line, 5000, &err) == 0);
	CHILD_CHECK(jsonl_append(log, line, 5000, &err) == 0);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(jsonl_append(log, line, 5000, &err) == -EFBIG);
		CHILD_CHECK(err.code == -EFBIG && strstr(err.text, log_path(f, "")));
		CHILD_CHECK(stat(log_path(f, ""), &st) == 0 && st.st_size == 2 * 5001);
	}
	CHILD_CHECK(jsonl_append(log, LINE, strlen(LINE), &err) == 0); /* a short one fits */
	set_limit(RLIM_INFINITY);
	CHILD_CHECK(jsonl_append(log, line, 5000, &err) == 0);
	CHILD_CHECK(stat(log_path(f, ""), &st) == 0 && st.st_size == 3 * 5001 + 8);
	jsonl_free(log);
}

static void test_without_room_it_waits_for_room(void **state)
{
	struct fixture *f = *state;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		child_runs_out_of_room(f);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_int_equal(status, 0);
}

/* ---- what must not be written ---- */

/* Appending must fail with this errno and a sentence that names the log and this word. */
static void assert_refused(const struct fixture *f, int error, const char *word)
{
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	struct err err = ERR_INIT;

	assert_int_equal(jsonl_append(log, LINE, strlen(LINE), &err), error);
	assert_int_equal(err.code, error);
	assert_non_null(strstr(err.text, log_path(f, "")));
	if (!strstr(err.text, word))
		fail_msg("no \"%s\" in: %s", word, err.text);
}

static void test_links_are_not_followed(void **state)
{
	struct fixture *f = *state;

	must_write(log_path(f, "-other"), LINE "\n");
	assert_int_equal(symlink(log_path(f, "-other"), log_path(f, "")), 0);
	assert_refused(f, -ELOOP, "is a link");
	assert_file(log_path(f, "-other"), LINE "\n");
	assert_int_equal(unlink(log_path(f, "-other")), 0);
	assert_refused(f, -ELOOP, "is a link");
	assert_file(log_path(f, "-other"), NULL);
}

/* A link where an older file was is replaced, and what it leads to is left alone. */
static void test_links_of_older_names_are_replaced(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 8);

	must_write(log_path(f, "-other"), "mine\n");
	assert_int_equal(symlink(log_path(f, "-other"), log_path(f, ".1")), 0);
	for (int i = 0; i < 4; i++)
		must_append(log, LINE);
	assert_file(log_path(f, "-other"), "mine\n");
	assert_file(log_path(f, ".1"), LINE "\n");
	assert_file(log_path(f, ".2"), LINE "\n");
}

static void test_other_things_are_left_alone(void **state)
{
	static const char *const texts[] = { "to be, or not to be", "\n", "SQLite format 3",
					     "[1]\n" };
	struct fixture *f = *state;

	assert_int_equal(mkdir(log_path(f, ""), 0700), 0);
	assert_refused(f, -EISDIR, "directory");
	assert_int_equal(rmdir(log_path(f, "")), 0);
	assert_int_equal(mkfifo(log_path(f, ""), 0600), 0);
	assert_refused(f, -EBADMSG, "not a log");
	assert_int_equal(unlink(log_path(f, "")), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		must_write(log_path(f, ""), texts[i]);
		assert_refused(f, -EBADMSG, "move it away");
		assert_file(log_path(f, ""), texts[i]);
	}
}

static void test_what_cannot_be_rotated_does_not_grow(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);
	struct err err = ERR_INIT;

	assert_int_equal(mkdir(log_path(f, ".1"), 0700), 0);
	assert_int_equal(mkdir(log_path(f, ".2"), 0700), 0);
	must_write(log_path(f, ".2/file"), "");
	must_append(log, LINE);
	must_append(log, LINE);
	for (int i = 0; i < 3; i++) {
		assert_true(jsonl_append(log, LINE, strlen(LINE), &err) < 0);
		assert_non_null(strstr(err.text, "rotated"));
	}
	assert_file(log_path(f, ""), LINE "\n" LINE "\n");
	assert_int_equal(unlink(log_path(f, ".2/file")), 0);
	assert_int_equal(rmdir(log_path(f, ".2")), 0);
	assert_int_equal(rmdir(log_path(f, ".1")), 0);
	must_append(log, LINE);
	assert_file(log_path(f, ""), LINE "\n");
}

static void test_no_folder(void **state)
{
	struct fixture *f = *state;
	char path[192];
	struct err err = ERR_INIT;
	struct jsonl *log;

	snprintf(path, sizeof(path), "%s/nowhere/p.jsonl", f->dir);
	log = jsonl_new(path, 1000);
	assert_int_equal(jsonl_append(log, LINE, strlen(LINE), &err), -ENOENT);
	assert_non_null(strstr(err.text, "make the folder"));
	jsonl_free(log);
}

static void test_lines_that_are_none(void **state)
{
	static const struct {
		const char *line;
		size_t len;
	} rows[] = { { "", 0 }, { "x", 1 }, { "{\n}", 3 }, { "{}\n", 3 }, { "[]", 2 } };
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	char *longest = calloc(1, JSONL_LINE_MAX_BYTES);

	assert_non_null(longest);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(jsonl_append(log, rows[i].line, rows[i].len, NULL), -EINVAL);
	longest[0] = '{';
	assert_int_equal(jsonl_append(log, longest, JSONL_LINE_MAX_BYTES, NULL), -EMSGSIZE);
	assert_file(log_path(f, ""), NULL);
	assert_int_equal(jsonl_append(log, longest, JSONL_LINE_MAX_BYTES - 1, NULL), 0);
	free(longest);
}

/* ---- others at the same file ---- */

static void test_a_lock_held_for_long_is_busy(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	struct err err = ERR_INIT;
	int fd;

	must_append(log, LINE);
	fd = open(log_path(f, ""), O_RDONLY);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	jsonl_set_lock_timeout(log, 0);
	assert_int_equal(jsonl_append(log, LINE, strlen(LINE), &err), -EBUSY);
	jsonl_set_lock_timeout(log, 20);
	assert_int_equal(jsonl_append(log, LINE, strlen(LINE), &err), -EBUSY);
	assert_non_null(strstr(err.text, "locked"));
	close(fd);
	must_append(log, LINE);
	assert_file(log_path(f, ""), LINE "\n" LINE "\n");
}

static void test_patience_outlasts_a_short_lock(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	int fds[2], status = -1;
	char byte;
	pid_t pid;

	must_append(log, LINE);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		const struct timespec pause = { .tv_nsec = 200000000 };
		int fd = open(log_path(f, ""), O_RDONLY);

		CHILD_CHECK(flock(fd, LOCK_EX) == 0);
		CHILD_CHECK(write(fds[1], "x", 1) == 1);
		nanosleep(&pause, NULL);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	jsonl_set_lock_timeout(log, 30000);
	must_append(log, LINE);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
}

/* Whoever had it open goes on in the new file, not in the one that is .1 now. */
static void test_rotated_by_another(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *a = must_new(f, 16);
	CLEANUP(log_cleanup) struct jsonl *b = must_new(f, 16);

	must_append(a, "{\"a\":1}");
	must_append(b, "{\"b\":1}");
	must_append(a, "{\"a\":2}");
	must_append(b, "{\"b\":2}");
	assert_file(log_path(f, ".1"), "{\"a\":1}\n{\"b\":1}\n");
	assert_file(log_path(f, ""), "{\"a\":2}\n{\"b\":2}\n");
}

static void test_moved_or_removed_by_hand(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);

	must_append(log, "{\"n\":1}");
	assert_int_equal(rename(log_path(f, ""), log_path(f, "-other")), 0);
	must_append(log, "{\"n\":2}");
	assert_file(log_path(f, "-other"), "{\"n\":1}\n");
	assert_file(log_path(f, ""), "{\"n\":2}\n");
	assert_int_equal(unlink(log_path(f, "")), 0);
	must_append(log, "{\"n\":3}");
	assert_file(log_path(f, ""), "{\"n\":3}\n");
	assert_int_equal(truncate(log_path(f, ""), 0), 0);
	must_append(log, "{\"n\":4}");
	assert_file(log_path(f, ""), "{\"n\":4}\n");
}

/* Says what appending would say, and makes nothing. */
static void test_check(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000);
	struct err err = ERR_INIT;

	must(jsonl_check(log, &err), &err);
	assert_file(log_path(f, ""), NULL);
	must_append(log, LINE);
	must(jsonl_check(log, &err), &err);
	assert_file(log_path(f, ""), LINE "\n");
	must_append(log, LINE); /* which it does not keep from going on */
	must_write(log_path(f, ""), "something else");
	assert_int_equal(jsonl_check(log, &err), -EBADMSG);
	assert_int_equal(unlink(log_path(f, "")), 0);
	assert_int_equal(mkdir(log_path(f, ""), 0700), 0);
	assert_true(jsonl_check(log, &err) < 0);
	assert_int_equal(rmdir(log_path(f, "")), 0);
	assert_int_equal(symlink("/dev/null", log_path(f, "")), 0);
	assert_int_equal(jsonl_check(log, &err), -ELOOP);
}

/* For room: the oldest that was rotated, and never the log itself. */
static void test_drop_oldest(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 8);
	int fd;

	assert_int_equal(jsonl_drop_oldest(log_path(f, "")), 0);
	for (int i = 0; i < 4; i++)
		must_append(log, LINE);
	assert_int_equal(jsonl_count_bytes(log_path(f, ""), false), 3 * 8);
	fd = open(log_path(f, ""), O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(jsonl_drop_oldest(log_path(f, "")), -EBUSY); /* somebody rotates */
	close(fd);
	assert_int_equal(jsonl_drop_oldest(log_path(f, "")), 1);
	assert_file(log_path(f, ".2"), NULL);
	assert_file(log_path(f, ".1"), LINE "\n");
	assert_int_equal(jsonl_drop_oldest(log_path(f, "")), 1);
	assert_int_equal(jsonl_drop_oldest(log_path(f, "")), 0);
	assert_file(log_path(f, ""), LINE "\n");
}

static void test_check_without_a_folder(void **state)
{
	CLEANUP(log_cleanup) struct jsonl *log = jsonl_new("/nowhere/at/all.jsonl", 1000);
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(log);
	assert_int_equal(jsonl_check(log, &err), -ENOENT);
	assert_non_null(strstr(err.text, "its folder is not there"));
}

/* ---- users ---- */

static void child_cannot_write(struct fixture *f)
{
	struct jsonl *log = jsonl_new(log_path(f, ""), 1000);
	struct err err = ERR_INIT;

	CHILD_CHECK(jsonl_append(log, LINE, strlen(LINE), &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, log_path(f, "")));
	CHILD_CHECK(jsonl_check(log, NULL) == -EACCES);
	jsonl_free(log);
}

static void give_away(const char *path)
{
	if (geteuid() == 0)
		assert_int_equal(lchown(path, 65534, 65534), 0);
}

static void test_folder_or_file_that_cannot_be_written(void **state)
{
	struct fixture *f = *state;

	give_away(f->dir);
	assert_int_equal(chmod(f->dir, 0500), 0);
	assert_int_equal(run_as_user(child_cannot_write, f), 0);
	assert_int_equal(chmod(f->dir, 0700), 0);
	must_write(log_path(f, ""), "");
	give_away(log_path(f, ""));
	assert_int_equal(chmod(log_path(f, ""), 0400), 0);
	assert_int_equal(run_as_user(child_cannot_write, f), 0);
}

static void child_meets_a_foreign_file(struct fixture *f)
{
	struct jsonl *log = jsonl_new(log_path(f, ""), 1000);
	struct err err = ERR_INIT;

	CHILD_CHECK(jsonl_append(log, LINE, strlen(LINE), &err) == -EPERM);
	CHILD_CHECK(strstr(err.text, "your own"));
	jsonl_free(log);
}

static void require_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("# not root\n");
	skip();
}

/* Theirs may stand there to read what we log: neither we nor root write to it. */
static void test_file_of_somebody_else(void **state)
{
	struct fixture *f = *state;

	require_root();
	must_write(log_path(f, ""), "");
	assert_int_equal(chmod(log_path(f, ""), 0666), 0);
	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_int_equal(run_as_user(child_meets_a_foreign_file, f), 0);
	assert_int_equal(chown(log_path(f, ""), 65534, 65534), 0);
	assert_refused(f, -EPERM, "your own");
	assert_file(log_path(f, ""), "");
}

static void child_goes_on(struct fixture *f)
{
	struct jsonl *log = jsonl_new(log_path(f, ""), 16);

	for (int i = 0; i < 3; i++)
		CHILD_CHECK(jsonl_append(log, LINE, strlen(LINE), NULL) == 0);
	jsonl_free(log);
}

/* In a user's folder root and the user can both go on, whoever made the file. */
static void test_root_in_the_folder_of_a_user(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 16);

	require_root();
	give_away(f->dir);
	for (int i = 0; i < 3; i++) {
		must_append(log, LINE);
		assert_int_equal(run_as_user(child_goes_on, f), 0);
	}
	assert_file(log_path(f, ".2"), LINE "\n" LINE "\n");
}

/* ---- snapshots ---- */

static void test_a_snapshot_is_a_line(void **state)
{
	struct fixture *f = *state;
	CLEANUP(log_cleanup) struct jsonl *log = must_new(f, 1000000);
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct err err = ERR_INIT;
	json_t *json;

	snapshot_init(&snap);
	fill_snapshot(&snap, "j\nk", 3, 0);
	snap.processes[2].job_id = NULL;
	must(jsonl_append_snapshot(log, &snap, &err), &err);
	must(jsonl_append_snapshot(log, &snap, &err), &err);
	assert_int_equal(io_read_at(AT_FDCWD, log_path(f, ""), 1 << 20, &text), 0);
	assert_int_equal(text.data[text.len - 1], '\n');
	assert_ptr_equal(strchr(text.data, '\n') + 1, text.data + text.len / 2);
	json = json_loadb(text.data, text.len / 2, 0, NULL);
	assert_non_null(json);
	assert_true(json_real_value(json_object_get(json, "timestamp")) == 1700000001);
	assert_int_equal(json_array_size(json_object_get(json, "processes")), 2);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		JSONL_TEST(test_a_new_file_is_private),
		JSONL_TEST(test_new_touches_nothing),
		JSONL_TEST(test_rotation_keeps_two),
		JSONL_TEST(test_the_exact_size_still_fits),
		JSONL_TEST(test_a_longer_line_is_alone),
		JSONL_TEST(test_half_a_rotation_is_finished),
		JSONL_TEST(test_half_a_line_is_cut),
		JSONL_TEST(test_a_document_is_left_alone),
		JSONL_TEST(test_half_of_a_long_line_is_cut),
		JSONL_TEST(test_a_rotated_file_has_whole_lines),
		JSONL_TEST(test_without_room_it_waits_for_room),
		JSONL_TEST(test_links_are_not_followed),
		JSONL_TEST(test_links_of_older_names_are_replaced),
		JSONL_TEST(test_other_things_are_left_alone),
		JSONL_TEST(test_what_cannot_be_rotated_does_not_grow),
		JSONL_TEST(test_no_folder),
		JSONL_TEST(test_lines_that_are_none),
		JSONL_TEST(test_a_lock_held_for_long_is_busy),
		JSONL_TEST(test_patience_outlasts_a_short_lock),
		JSONL_TEST(test_rotated_by_another),
		JSONL_TEST(test_moved_or_removed_by_hand),
		JSONL_TEST(test_check),
		JSONL_TEST(test_drop_oldest),
		cmocka_unit_test(test_check_without_a_folder),
		JSONL_TEST(test_folder_or_file_that_cannot_be_written),
		JSONL_TEST(test_file_of_somebody_else),
		JSONL_TEST(test_root_in_the_folder_of_a_user),
		JSONL_TEST(test_a_snapshot_is_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
