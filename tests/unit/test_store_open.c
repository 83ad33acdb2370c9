#include "store_fixture.h"

#include <sched.h>
#include <sys/mount.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "store/db/db.h"
#include "store_writer.h"

static mode_t mode_of(const char *path, const char *suffix)
{
	char name[256];
	struct stat st;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return stat(name, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

/* Opening must fail with this errno and a sentence that names the file and this word. */
static void assert_refused(const char *path, enum store_mode mode, int error, const char *word)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(store_open(path, mode, &store, &err), error);
	assert_int_equal(err.code, error);
	assert_null(store);
	assert_non_null(strstr(err.text, path));
	if (!strstr(err.text, word))
		fail_msg("no \"%s\" in: %s", word, err.text);
}

static void test_new_file_is_private(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	mode_t old = umask(0);
	struct store *store = must_open(f->db, STORE_WRITE);
	char text[256];

	umask(old);
	assert_int_equal(store_begin_attempt(store, &a, NULL), 0);
	assert_int_equal(mode_of(f->db, ""), 0600);
	assert_int_equal(mode_of(f->db, "-wal"), 0600);
	assert_int_equal(mode_of(f->db, "-shm"), 0600);
	store_close(store);
	assert_string_equal(raw_text(f->db, "PRAGMA journal_mode", text), "wal");
	assert_int_equal(raw_sql(f->db, "PRAGMA auto_vacuum"), 2);
	assert_is_sound(f->db);
}

static void test_reading_makes_nothing(void **state)
{
	struct fixture *f = *state;

	assert_refused(f->db, STORE_READ, -ENOENT, "nothing was recorded");
	assert_int_equal(access(f->db, F_OK), -1);
}

static void test_empty_file_is_version_zero(void **state)
{
	struct fixture *f = *state;

	write_file(f->db, "", 0);
	assert_refused(f->db, STORE_READ, -ENOENT, "empty");
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(raw_sql(f->db, "PRAGMA user_version"), LAYOUT);
	assert_int_equal(raw_sql(f->db, "PRAGMA application_id"), 0x50637472);
	store_close(must_open(f->db, STORE_READ));
	store_close(must_open(f->db, STORE_WRITE));
}

static void test_half_made_database_is_finished(void **state)
{
	struct fixture *f = *state;

	/* Killed between the change to WAL and the migration. */
	assert_int_equal(raw_sql(f->db, "PRAGMA journal_mode = WAL"), 0);
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(raw_sql(f->db, "PRAGMA user_version"), LAYOUT);
}

/* As an older or a newer proctor left it: it is neither read nor changed. */
static void test_another_layout_is_refused(void **state)
{
	static const int layouts[] = { 1, LAYOUT - 1, LAYOUT + 1, 1000 };
	struct fixture *f = *state;
	CLEANUP(buf_release) struct buf before = BUF_INIT, after = BUF_INIT;
	struct attempt a = make_attempt("j");
	struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;

	must(store_begin_attempt(store, &a, &err), &err);
	store_close(store);
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		char sql[48], word[96];

		snprintf(sql, sizeof(sql), "PRAGMA user_version = %d", layouts[i]);
		snprintf(word, sizeof(word),
			 " has layout %d, and this proctor needs layout %d: move it away",
			 layouts[i], LAYOUT);
		raw_sql(f->db, sql);
		buf_reset(&before);
		assert_int_equal(io_read_at(AT_FDCWD, f->db, 1 << 20, &before), 0);
		assert_refused(f->db, STORE_WRITE, -EPROTO, word);
		assert_refused(f->db, STORE_READ, -EPROTO, word);
		buf_reset(&after);
		assert_int_equal(io_read_at(AT_FDCWD, f->db, 1 << 20, &after), 0);
		assert_int_equal(after.len, before.len);
		assert_memory_equal(after.data, before.data, after.len);
		assert_int_equal(raw_sql(f->db, "PRAGMA user_version"), layouts[i]);
		assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 1);
	}
}

static void test_foreign_database_is_left_alone(void **state)
{
	struct fixture *f = *state;

	raw_sql(f->db, "CREATE TABLE theirs (x)");
	assert_refused(f->db, STORE_WRITE, -EMEDIUMTYPE, "another program");
	raw_sql(f->db, "PRAGMA user_version = 1");
	assert_refused(f->db, STORE_READ, -EMEDIUMTYPE, "another program");
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM sqlite_schema"), 1);
}

static void test_rubbish_is_not_a_database(void **state)
{
	static const char rubbish[] = "to be, or not to be, that is the question: whether 'tis "
				      "nobler in the mind to suffer the slings and arrows of "
				      "outrageous fortune\n";
	struct fixture *f = *state;

	write_file(f->db, rubbish, sizeof(rubbish) - 1);
	assert_refused(f->db, STORE_WRITE, -EBADMSG, "not a database");
	assert_refused(f->db, STORE_READ, -EBADMSG, "\"proctor doctor --repair\"");
}

static void test_damaged_pages_are_noticed(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j"), back;
	struct store *store = must_open(f->db, STORE_WRITE);
	struct attempt_list list;
	struct err err = ERR_INIT;
	char noise[4096];
	int64_t roots[2];
	int fd;

	assert_int_equal(store_begin_attempt(store, &a, NULL), 0);
	store_close(store);
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	memset(noise, 0xa5, sizeof(noise));
	roots[0] = raw_sql(f->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'attempts'");
	roots[1] = raw_sql(f->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'");
	fd = open(f->db, O_WRONLY);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pwrite(fd, noise, sizeof(noise), (roots[i] - 1) * 4096), 4096);
	close(fd);

	store = must_open(f->db, STORE_WRITE);
	assert_int_equal(store_read_attempt(store, "j", 0, &back, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "is damaged"));
	assert_non_null(strstr(err.text, f->db));
	assert_int_equal(store_list_attempts(store, &(struct attempt_filter){ 0 }, &list, &err),
			 -EBADMSG);
	assert_int_equal(store_begin_attempt(store, &a, &err), -EBADMSG);
	store_close(store);
}

static void test_cut_file_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct store *store = must_open(f->db, STORE_WRITE);
	struct err err = ERR_INIT;

	assert_int_equal(store_begin_attempt(store, &a, NULL), 0);
	store_close(store);
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	assert_int_equal(truncate(f->db, 3 * 4096), 0);
	store = NULL;
	if (store_open(f->db, STORE_WRITE, &store, &err) == 0)
		store_begin_attempt(store, &a, &err);
	store_close(store);
	assert_int_equal(err.code, -EBADMSG);
}

static void test_odd_paths(void **state)
{
	struct fixture *f = *state;
	char other[256], here[256];

	assert_int_equal(mkdir(f->db, 0700), 0);
	assert_refused(f->db, STORE_WRITE, -EBADMSG, "not a file");
	assert_int_equal(rmdir(f->db), 0);

	snprintf(other, sizeof(other), "%s/nowhere/proctor.db", f->dir);
	assert_refused(other, STORE_WRITE, -ENOENT, "PROCTOR_HOME");
	assert_refused(other, STORE_READ, -ENOENT, "nothing was recorded");

	/* A link to nothing is not followed, one to our own file is. */
	snprintf(other, sizeof(other), "%s/elsewhere.db", f->dir);
	assert_int_equal(symlink(other, f->db), 0);
	assert_refused(f->db, STORE_WRITE, -ENOENT, "link to nothing");
	store_close(must_open(other, STORE_WRITE));
	store_close(must_open(f->db, STORE_WRITE));

	/* Names that mean something to SQLite are plain names here. */
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(f->dir), 0);
	store_close(must_open(":memory:", STORE_WRITE));
	store_close(must_open("file:x?mode=ro", STORE_WRITE));
	assert_int_equal(access(":memory:", F_OK), 0);
	assert_int_equal(access("file:x?mode=ro", F_OK), 0);
	assert_int_equal(chdir(here), 0);
}

static void test_two_handles_keep_their_locks(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct store *first = must_open(f->db, STORE_WRITE);
	struct store *second = must_open(f->db, STORE_WRITE);
	struct store *reader = must_open(f->db, STORE_READ);

	for (int i = 0; i < 10; i++) {
		assert_int_equal(store_begin_attempt(i % 2 ? first : second, &a, NULL), 0);
		assert_int_equal(a.attempt_num, i + 1);
	}
	store_close(reader);
	store_close(first);
	assert_int_equal(store_begin_attempt(second, &a, NULL), 0);
	store_close(second);
	assert_is_sound(f->db);
}

static sqlite3 *lock_file(const char *path, const char *sql)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	return db;
}

static void test_a_lock_held_for_long_is_busy(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct store *store = must_open(f->db, STORE_WRITE);
	sqlite3 *db = lock_file(f->db, "BEGIN IMMEDIATE");
	struct err err = ERR_INIT;

	store_set_lock_timeout(store, 0);
	assert_int_equal(store_begin_attempt(store, &a, &err), -EBUSY);
	store_set_lock_timeout(store, 20);
	assert_int_equal(store_begin_attempt(store, &a, &err), -EBUSY);
	assert_non_null(strstr(err.text, f->db));
	assert_int_equal(a.attempt_num, 0);
	sqlite3_close(db);
	assert_int_equal(store_begin_attempt(store, &a, &err), 0);
	store_close(store);
}

/* Whoever asked for 20 ms must be let go long before the five seconds of the others. */
static void test_little_patience_is_soon_at_its_end(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct store *store = must_open(f->db, STORE_WRITE), *other = NULL;
	sqlite3 *db = lock_file(f->db, "BEGIN IMMEDIATE");
	uint64_t before_ns = clock_boot_ns();
	char path[192];

	store_set_lock_timeout(store, 20);
	for (int i = 0; i < 10; i++)
		assert_int_equal(store_begin_attempt(store, &a, NULL), -EBUSY);
	sqlite3_close(db);

	/* A file that somebody else is about to make. */
	snprintf(path, sizeof(path), "%s/new.db", f->dir);
	db = lock_file(path, "BEGIN EXCLUSIVE");
	assert_int_equal(store_open_timeout(path, STORE_WRITE, 20, &other, NULL), -EBUSY);
	assert_int_equal(store_open_timeout(path, STORE_WRITE, 0, &other, NULL), -EBUSY);
	assert_int_equal(store_open_timeout(path, STORE_READ, 20, &other, NULL), -EBUSY);
	assert_null(other);
	assert_true(clock_boot_ns() - before_ns < UINT64_C(4000000000));
	sqlite3_close(db);
	store_close(store);
}

/* The handle keeps what it was opened with. */
static void test_patience_outlasts_a_short_lock(void **state)
{
	struct fixture *f = *state;
	struct attempt a = make_attempt("j");
	struct store *store = NULL;
	int pipe_fds[2], status = -1;
	char byte;
	pid_t pid;

	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	if (pid == 0) {
		const struct timespec pause = { .tv_nsec = 200000000 };
		sqlite3 *db = NULL;

		CHILD_CHECK(sqlite3_open(f->db, &db) == SQLITE_OK);
		CHILD_CHECK(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
		CHILD_CHECK(write(pipe_fds[1], "x", 1) == 1);
		nanosleep(&pause, NULL);
		sqlite3_close(db);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	assert_int_equal(store_open_timeout(f->db, STORE_WRITE, 30000, &store, NULL), 0);
	assert_int_equal(store_begin_attempt(store, &a, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	store_close(store);
}

/* ---- as an ordinary user ---- */

static void give_away(struct fixture *f, mode_t dir_mode)
{
	if (geteuid() == 0) {
		char name[256];

		assert_int_equal(chown(f->dir, 65534, 65534), 0);
		for (int i = 0; i < 3; i++) {
			static const char *const suffixes[] = { "", "-wal", "-shm" };

			snprintf(name, sizeof(name), "%s%s", f->db, suffixes[i]);
			assert_true(chown(name, 65534, 65534) == 0 || errno == ENOENT);
		}
	}
	assert_int_equal(chmod(f->dir, dir_mode), 0);
}

static void child_cannot_make(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, f->db) && strstr(err.text, "PROCTOR_HOME"));
}

static void test_folder_that_cannot_be_written(void **state)
{
	struct fixture *f = *state;

	give_away(f, 0500);
	assert_int_equal(run_as_user(child_cannot_make, f), 0);
	assert_int_equal(chmod(f->dir, 0700), 0);
}

static void child_may_not_make_a_log(struct fixture *f)
{
	CHILD_CHECK(store_check_access(f->db, NULL) == -EACCES);
}

static void test_access_is_checked(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	assert_int_equal(store_check_access(f->db, &err), -ENOENT);
	store_close(must_open(f->db, STORE_WRITE));
	must(store_check_access(f->db, &err), &err);
	give_away(f, 0500);
	assert_int_equal(run_as_user(child_may_not_make_a_log, f), 0);
	assert_int_equal(chmod(f->dir, 0700), 0);
}

static void child_cannot_write_file(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, f->db));
	CHILD_CHECK(store_check_access(f->db, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, f->db));
	CHILD_CHECK(store_open(f->db, STORE_READ, &store, &err) == 0);
	store_close(store);
}

static void test_file_that_cannot_be_written(void **state)
{
	struct fixture *f = *state;

	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(chmod(f->db, 0400), 0);
	give_away(f, 0700);
	assert_int_equal(run_as_user(child_cannot_write_file, f), 0);
}

/* Who reads makes the log and its index, as read-only as the file is by then. */
static void child_writes_again(struct fixture *f)
{
	struct attempt a = make_attempt("j");
	struct store *store = NULL;

	CHILD_CHECK(chmod(f->db, 0400) == 0);
	CHILD_CHECK(store_open(f->db, STORE_READ, &store, NULL) == 0);
	store_close(store);
	CHILD_CHECK(chmod(f->db, 0600) == 0);
	CHILD_CHECK(mode_of(f->db, "-shm") == 0400);
	CHILD_CHECK(store_check_access(f->db, NULL) == 0);
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
	CHILD_CHECK(store_begin_attempt(store, &a, NULL) == 0);
	store_close(store);
}

static void child_is_told_of_the_index(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, "-shm"));
	CHILD_CHECK(store_check_access(f->db, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, "-shm"));
}

static void test_file_that_could_not_be_written(void **state)
{
	struct fixture *f = *state;
	char name[256];

	store_close(must_open(f->db, STORE_WRITE));
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	give_away(f, 0700);
	assert_int_equal(run_as_user(child_writes_again, f), 0);
	if (geteuid() != 0)
		return; /* nothing can be another's */
	snprintf(name, sizeof(name), "%s-shm", f->db);
	assert_int_equal(chown(name, 0, 0), 0);
	assert_int_equal(run_as_user(child_is_told_of_the_index, f), 0);
}

static void child_reads(struct fixture *f)
{
	CLEANUP(attempt_release) struct attempt a;
	struct store *store = NULL;
	struct err err = ERR_INIT;

	attempt_init(&a);
	CHILD_CHECK(store_open(f->db, STORE_READ, &store, &err) == 0);
	CHILD_CHECK(store_read_attempt(store, "j", 0, &a, &err) == 0);
	CHILD_CHECK(strcmp(a.command, "sleep 1") == 0);
	store_close(store);
}

/* SQLite must not be carried over a fork: while a writer has the file open, the reader is a new
 * program (see main()). */
static void child_reads_afresh(struct fixture *f)
{
	execl("/proc/self/exe", "test", "--read", f->db, (char *)NULL);
	_exit(98);
}

static void child_is_told_why_not(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(store_open(f->db, STORE_READ, &store, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, f->db) && strstr(err.text, "folder writable"));
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EACCES);
	CHILD_CHECK(strstr(err.text, f->db) && strstr(err.text, "folder writable"));
}

static void child_writes(struct fixture *f)
{
	struct attempt a = make_attempt("j");
	struct store *store = NULL;

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, NULL) == 0);
	CHILD_CHECK(store_begin_attempt(store, &a, NULL) == 0);
	CHILD_CHECK(chmod(f->dir, 0500) == 0);
	CHILD_CHECK(run_as_user(child_reads_afresh, f) == 0);
	store_close(store);
}

static void test_reading_where_the_folder_cannot_be_written(void **state)
{
	struct fixture *f = *state;

	give_away(f, 0700);
	assert_int_equal(run_as_user(child_writes, f), 0);
	assert_int_equal(run_as_user(child_reads, f), 0); /* the log is still there */

	/* Without the log's files SQLite would have to make them. */
	assert_int_equal(chmod(f->dir, 0700), 0);
	raw_sql(f->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	assert_int_equal(chmod(f->dir, 0500), 0);
	assert_int_equal(run_as_user(child_is_told_why_not, f), 0);
	assert_int_equal(chmod(f->dir, 0700), 0);
}

static void child_refuses_a_strangers_file(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EPERM);
	CHILD_CHECK(strstr(err.text, "belongs to user 0"));
}

static void test_file_of_somebody_else(void **state)
{
	struct fixture *f = *state;

	if (geteuid() != 0) {
		print_message("# only root can make a file of somebody else\n");
		skip();
	}
	store_close(must_open(f->db, STORE_WRITE));
	assert_int_equal(chmod(f->db, 0666), 0);
	assert_int_equal(chmod(f->dir, 0777), 0);
	assert_int_equal(run_as_user(child_refuses_a_strangers_file, f), 0);
}

/* ---- on a disk of its own: a tmpfs that only a child sees ---- */

#define SKIP_STATUS 77

static void must_mount(const char *dir, unsigned long flags, const char *options)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proctor", dir, "tmpfs", flags, options) < 0)
		_exit(SKIP_STATUS);
}

/* Ticks until something goes wrong. */
static int fill_disk(struct store *store, const struct attempt *a, struct err *err)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	int r = 0;

	snapshot_init(&snap);
	for (unsigned k = 0; r == 0 && k < 10000; k++) {
		fill_snapshot(&snap, a->job_id, 50, k);
		snap.processes[0].key.start_ticks += k; /* a new process each time */
		r = write_tick(store, a, &snap, NULL, NULL, 0, err);
	}
	return r;
}

static void child_fills_disk(struct fixture *f)
{
	CLEANUP(snapshot_release) struct snapshot snap;
	struct attempt a = make_attempt("j");
	struct store *store = NULL;
	struct err err = ERR_INIT;
	int64_t ticks, samples;

	snapshot_init(&snap);
	must_mount(f->dir, 0, "size=2m");
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == 0);
	CHILD_CHECK(store_begin_attempt(store, &a, &err) == 0);
	CHILD_CHECK(fill_disk(store, &a, &err) == -ENOSPC);
	CHILD_CHECK(strstr(err.text, f->db) && strstr(err.text, "room"));

	/* The next tick after room was made is written as if nothing had been. */
	ticks = raw_sql(f->db, COUNT_TICKS);
	CHILD_CHECK(ticks > 10);
	CHILD_CHECK(mount("proctor", f->dir, "tmpfs", MS_REMOUNT, "size=16m") == 0);
	fill_snapshot(&snap, a.job_id, 50, 20000);
	CHILD_CHECK(write_tick(store, &a, &snap, NULL, NULL, 0, &err) == 0);
	store_close(store);
	CHILD_CHECK(raw_sql(f->db, COUNT_TICKS) == ticks + 1);
	samples = count_samples(f->db);
	CHILD_CHECK(samples == 50 * (ticks + 1));
	CHILD_CHECK(raw_sql(f->db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") ==
		    1);
}

static void child_meets_read_only_disk(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	must_mount(f->dir, 0, "size=2m");
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == 0);
	store = store_close(store);
	CHILD_CHECK(mount("proctor", f->dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) == 0);
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EROFS);
	CHILD_CHECK(strstr(err.text, f->db));
	CHILD_CHECK(store_check_access(f->db, &err) == -EROFS);
	strcat(f->db, "2");
	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == -EROFS);
}

static void run_on_own_disk(void (*fn)(struct fixture *), struct fixture *f)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		fn(f);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP_STATUS) {
		print_message("# this user may not mount a tmpfs\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void test_full_disk(void **state)
{
	run_on_own_disk(child_fills_disk, *state);
}

static void test_read_only_disk(void **state)
{
	run_on_own_disk(child_meets_read_only_disk, *state);
}

static void write_as_user(struct fixture *f)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;
	struct attempt a = make_attempt("mine");

	CHILD_CHECK(store_open(f->db, STORE_WRITE, &store, &err) == 0);
	CHILD_CHECK(store_begin_attempt(store, &a, &err) == 0);
	store_close(store);
}

/* What root has made in the folder of a user the user can go on with. */
static void test_root_in_a_users_folder(void **state)
{
	struct fixture *f = *state;
	struct store *store;
	struct stat st;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(f->dir, 65534, 65534), 0);
	store = must_open(f->db, STORE_WRITE);
	assert_int_equal(stat(f->db, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(run_as_user(write_as_user, f), 0); /* beside root, with its log… */
	store_close(store);
	assert_int_equal(run_as_user(write_as_user, f), 0); /* …and after */
	assert_int_equal(raw_sql(f->db, "SELECT count(*) FROM attempts"), 2);
}

/* Where a user could lead root's writing: to a record that is not the user's. */
static void test_root_follows_no_link_of_a_user(void **state)
{
	struct fixture *f = *state;
	struct store *store = NULL;
	struct err err = ERR_INIT;
	char other[192];

	if (geteuid() != 0)
		skip();
	snprintf(other, sizeof(other), "%s/other.db", f->dir);
	store_close(must_open(other, STORE_WRITE));
	assert_int_equal(symlink(other, f->db), 0);
	store_close(must_open(f->db, STORE_WRITE)); /* root's own is followed */
	assert_int_equal(lchown(f->db, 65534, 65534), 0);
	assert_int_equal(store_open(f->db, STORE_WRITE, &store, &err), -ELOOP);
	assert_non_null(strstr(err.text, "a link that user 65534 has made"));
	assert_int_equal(store_open(f->db, STORE_READ, &store, &err), -ELOOP);
	assert_null(store);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
	struct fixture reader = { 0 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_root_in_a_users_folder, fixture_setup,
						fixture_teardown),
		STORE_TEST(test_root_follows_no_link_of_a_user),
		STORE_TEST(test_new_file_is_private),
		STORE_TEST(test_reading_makes_nothing),
		STORE_TEST(test_empty_file_is_version_zero),
		STORE_TEST(test_half_made_database_is_finished),
		STORE_TEST(test_another_layout_is_refused),
		STORE_TEST(test_foreign_database_is_left_alone),
		STORE_TEST(test_rubbish_is_not_a_database),
		STORE_TEST(test_damaged_pages_are_noticed),
		STORE_TEST(test_cut_file_is_noticed),
		STORE_TEST(test_odd_paths),
		STORE_TEST(test_two_handles_keep_their_locks),
		STORE_TEST(test_a_lock_held_for_long_is_busy),
		STORE_TEST(test_little_patience_is_soon_at_its_end),
		STORE_TEST(test_patience_outlasts_a_short_lock),
		STORE_TEST(test_folder_that_cannot_be_written),
		STORE_TEST(test_access_is_checked),
		STORE_TEST(test_file_that_cannot_be_written),
		STORE_TEST(test_file_that_could_not_be_written),
		STORE_TEST(test_reading_where_the_folder_cannot_be_written),
		STORE_TEST(test_file_of_somebody_else),
		STORE_TEST(test_full_disk),
		STORE_TEST(test_read_only_disk),
	};

	if (argc == 3 && strcmp(argv[1], "--read") == 0) {
		snprintf(reader.db, sizeof(reader.db), "%s", argv[2]);
		child_reads(&reader);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
