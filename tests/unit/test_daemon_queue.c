#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/queue/queue.h"

static const struct queue_owner owner = { 0 };

#define OTHER 4001

struct fixture {
	char folder[128];
	struct queue *q;
};

struct submission {
	const char *job_id, *text;
	size_t len;
	const char *workdir, *name;
	uid_t uid;
	uint64_t input_bytes;
};

/* What submitting does, without a thread. */
static int queue_add(struct queue *q, const struct submission *job, struct err *err)
{
	struct queued *queued = queue_reserve(q, err);
	int r;

	assert_non_null(queued);
	queued->job_id = strdup(job->job_id);
	queued->workdir = strdup(job->workdir);
	queued->name = strdup(job->name);
	queued->uid = job->uid;
	queued->input_bytes = job->input_bytes;
	r = queue_write(queued, job->text, job->len, err);
	if (r == 0)
		return queue_take(q, queued, err);
	queued_free(&queued);
	return r;
}

/* Valid until the next call. */
static const char *path_of(const struct queued *job)
{
	static char path[QUEUE_PATH_BYTES];

	queued_path(job, path);
	return path;
}

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct fixture *f = calloc(1, sizeof(*f));
	struct err err = ERR_INIT;

	if (!f)
		return -1;
	snprintf(f->folder, sizeof(f->folder), "%.90s/proctor-queue-XXXXXX", tmp ? tmp : "/tmp");
	*state = f;
	return mkdtemp(f->folder) && queue_open(f->folder, &owner, &f->q, &err) == 0 ? 0 : -1;
}

static size_t count_files(const char *folder, bool remove)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			n++;
			if (remove)
				unlinkat(dirfd(dir), entry->d_name, 0);
		}
	if (dir)
		closedir(dir);
	return n;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	queue_close(f->q);
	count_files(f->folder, true);
	rmdir(f->folder);
	free(f);
	return 0;
}

static int add(struct queue *q, const char *job_id, uid_t uid, const char *text, struct err *err)
{
	const struct submission job = {
		.job_id = job_id,
		.text = text,
		.len = strlen(text),
		.workdir = "/",
		.name = "a.yaml",
		.uid = uid,
		.input_bytes = 4096,
	};

	return queue_add(q, &job, err);
}

/* Whose a job is outlives the daemon, as does the rest. */
static void test_it_is_found_again(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	const struct queued *job;

	assert_int_equal(add(f->q, "j", OTHER, "sheets:\n", &err), 0);
	f->q = queue_close(f->q);
	assert_int_equal(queue_open(f->folder, &owner, &f->q, &err), 0);
	job = queue_find(f->q, "j", OTHER);
	assert_non_null(job);
	assert_true(job->input_bytes == 4096);
	assert_int_equal(job->uid, OTHER);
	assert_string_equal(job->name, "a.yaml");
	assert_string_equal(job->workdir, "/");
	assert_false(job->is_started);
	assert_null(queue_find(f->q, "j", geteuid()));
}

/* No two have one number, whatever the clock says, and the file tells it to whoever runs the job.
 */
static void test_each_is_a_submission_of_its_own(void **state)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	uint64_t first, second, told;
	const char *job;

	assert_int_equal(add(f->q, "j", OTHER, "sheets:\n", &err), 0);
	first = queue_find(f->q, "j", OTHER)->submission;
	queue_drop(f->q, queue_find(f->q, "j", OTHER));
	assert_int_equal(add(f->q, "j", OTHER, "sheets:\n", &err), 0);
	second = queue_find(f->q, "j", OTHER)->submission;
	assert_true(u64_known(first) && u64_known(second) && first != second && first && second);

	assert_int_equal(io_read_at(AT_FDCWD, path_of(queue_find(f->q, "j", OTHER)), 4096, &text),
			 0);
	job = queue_file_job(text.data, text.len, &told);
	assert_true(told == second);
	assert_string_equal(job, "sheets:\n");
	assert_string_equal(queue_file_job("sheets:\n", 8, &told), "sheets:\n");
	assert_false(u64_known(told));
}

static void test_names_are_of_a_user(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	assert_int_equal(add(f->q, "j", OTHER, "x", &err), 0);
	assert_int_equal(add(f->q, "j", OTHER + 1, "x", &err), 0);
	assert_int_equal(add(f->q, "j", OTHER, "x", &err), -EEXIST);
	queue_drop(f->q, queue_find(f->q, "j", OTHER));
	assert_null(queue_find(f->q, "j", OTHER));
	assert_non_null(queue_find(f->q, "j", OTHER + 1));
	assert_int_equal(count_files(f->folder, false), 1);
}

static void test_a_user_has_a_share(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	char name[32];

	for (int i = 0; i < QUEUE_USER_MAX_JOBS; i++) {
		snprintf(name, sizeof(name), "j%d", i);
		assert_int_equal(add(f->q, name, OTHER, "x", &err), 0);
	}
	assert_int_equal(add(f->q, "more", OTHER, "x", &err), -EBUSY);
	assert_non_null(strstr(err.text, "256"));
	assert_int_equal(add(f->q, "more", OTHER + 1, "x", &err), 0);
	assert_int_equal(add(f->q, "more", geteuid(), "x", &err), 0);
}

static void test_bytes_are_bounded_too(void **state)
{
	struct fixture *f = *state;
	size_t size = 15 << 20;
	char *text = malloc(size + 1), name[32];
	struct err err = ERR_INIT;

	memset(text, '#', size);
	text[size] = '\0';
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "j%d", i);
		assert_int_equal(add(f->q, name, OTHER, text, &err), 0);
	}
	assert_int_equal(add(f->q, "more", OTHER, text, &err), -EBUSY);
	assert_int_equal(count_files(f->folder, false), 4);
	free(text);
}

/* The longest that is let in, with every byte escaped. */
static void test_long_names(void **state)
{
	struct fixture *f = *state;
	char workdir[4096], name[1025];
	struct submission job = { "j", "x", 1, workdir, name, OTHER, U64_UNKNOWN };
	struct err err = ERR_INIT;

	memset(workdir, 1, sizeof(workdir) - 1);
	workdir[0] = '/';
	workdir[sizeof(workdir) - 1] = '\0';
	memset(name, 1, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(queue_add(f->q, &job, &err), 0);
	assert_string_equal(queue_find(f->q, "j", OTHER)->workdir, workdir);
	assert_true(queue_find(f->q, "j", OTHER)->input_bytes == U64_UNKNOWN);
}

/* What becomes of it, also where that takes its time. */
static int await_start(struct queue *q, struct queued *job, const char *folder, struct err *err)
{
	int r = queue_start(q, job, folder, err);

	for (int i = 0; r >= 0 && job->start_fd >= 0 && i < 6000; i++) {
		usleep(10000);
		r = queue_check_start(job, err);
	}
	return r;
}

/* Another user's job cannot run here: it waits as before, and why is said. */
static void test_what_cannot_be_started(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct queued *job;

	assert_int_equal(add(f->q, "j", 3999999999, "x", &err), 0);
	job = queue_find(f->q, "j", 3999999999);
	assert_int_equal(await_start(f->q, job, f->folder, &err), -ESRCH);
	assert_false(job->is_started);
	assert_false(job->was_executed);
	assert_non_null(strstr(err.text, "no account"));
	assert_int_equal(count_files(f->folder, false), 1);
}

/* It is the runner that marks it: one that never came so far was never marked. */
static void test_who_marks_it_as_started(void **state)
{
	struct fixture *f = *state;
	CLEANUP(close_fd) int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char events[4096];
	struct err err = ERR_INIT;

	assert_int_equal(add(f->q, "j", 3999999999, "x", &err), 0);
	assert_true(inotify_add_watch(fd, f->folder, IN_MOVE) >= 0);
	assert_int_equal(await_start(f->q, queue_at(f->q, 0), f->folder, &err), -ESRCH);
	assert_true(read(fd, events, sizeof(events)) < 0);
}

/* Somebody has removed it: it will never start, and is not tried for ever. */
static void test_a_file_that_is_gone(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	assert_int_equal(add(f->q, "j", getuid(), "x", &err), 0);
	assert_int_equal(unlink(path_of(queue_at(f->q, 0))), 0);
	assert_int_equal(queue_start(f->q, queue_at(f->q, 0), f->folder, &err), -ENOENT);
}

/* A daemon was killed while its child was on the way: that has marked it since. */
static void test_a_start_by_another_daemon(void **state)
{
	struct fixture *f = *state;
	CLEANUP(free_ptr) char *path = NULL;
	struct err err = ERR_INIT;
	struct queued *job;

	assert_int_equal(add(f->q, "j", getuid(), "x", &err), 0);
	job = queue_at(f->q, 0);
	assert_int_equal(queue_start(f->q, job, "/proc/none", &err), -EAGAIN); /* no log */
	assert_false(job->is_started);
	assert_true(asprintf(&path, "%s" QUEUE_STARTED, job->stem) > 0);
	assert_int_equal(rename(path_of(job), path), 0);
	assert_int_equal(queue_start(f->q, job, f->folder, &err), 0);
	assert_true(job->is_started);
	assert_string_equal(path_of(job), path);
}

/* As it is while its runner is on the way, which then is killed. */
static struct queued *add_killed_start(struct fixture *f)
{
	struct err err = ERR_INIT;
	struct queued *job;
	int fds[2];

	assert_int_equal(add(f->q, "j", getuid(), "x", &err), 0);
	job = queue_at(f->q, 0);
	job->is_started = true;
	assert_int_equal(pipe(fds), 0);
	close(fds[1]);
	job->start_fd = fds[0];
	return job;
}

/* Nobody has marked its file: it was not run, and waits again. */
static void test_a_runner_that_is_killed_before_it_begins(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct queued *job = add_killed_start(f);

	assert_int_equal(queue_check_start(job, &err), -EAGAIN);
	assert_false(job->is_started);
	assert_false(job->was_executed);
	assert_int_equal(access(path_of(job), F_OK), 0);
}

/* What is over is not found by the next daemon, however its file is called. */
static void test_one_that_was_never_marked_is_dropped(void **state)
{
	struct fixture *f = *state;

	queue_drop(f->q, add_killed_start(f));
	assert_int_equal(count_files(f->folder, false), 0);
}

static void test_of_two_daemons_one_has_it(void **state)
{
	struct fixture *f = *state;
	struct queue *second = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(queue_open(f->folder, &owner, &second, &err), -EADDRINUSE);
	f->q = queue_close(f->q);
	assert_int_equal(queue_open(f->folder, &owner, &f->q, &err), 0);
}

/* Somebody has removed all of it, or put another folder there: of two daemons still one has it. */
static void test_a_folder_that_is_gone(void **state)
{
	struct fixture *f = *state;
	struct queue *second = NULL;
	struct err err = ERR_INIT;
	char away[160];

	assert_int_equal(queue_renew(f->q, &err), 0);
	assert_int_equal(rmdir(f->folder), 0);
	assert_true(add(f->q, "j", getuid(), "x", &err) < 0);
	assert_int_equal(queue_renew(f->q, &err), 1);
	assert_int_equal(add(f->q, "j", getuid(), "x", &err), 0);
	assert_int_equal(queue_open(f->folder, &owner, &second, &err), -EADDRINUSE);

	snprintf(away, sizeof(away), "%s-away", f->folder);
	assert_int_equal(rename(f->folder, away), 0);
	assert_int_equal(queue_open(f->folder, &owner, &second, &err), 0);
	assert_int_equal(queue_renew(f->q, &err), -EADDRINUSE);
	assert_null(queue_close(second));
	assert_int_equal(queue_renew(f->q, &err), 1);
	assert_int_equal(queue_renew(f->q, &err), 0);
	count_files(away, true);
	assert_int_equal(rmdir(away), 0);
}

/* Users take turns, and what runs counts. */
static void test_turns(void **state)
{
	static const struct {
		const char *job_id;
		uid_t uid;
	} added[] = {
		{ "a1", 7 }, { "a2", 7 }, { "a3", 7 }, { "b1", 9 }, { "b2", 9 }, { "c1", 3 }
	};
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct queued **jobs = NULL;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		assert_int_equal(add(f->q, added[i].job_id, added[i].uid, "x", &err), 0);
	assert_int_equal(turns_take(f->q, 3, &jobs, &n), 0);
	assert_int_equal(n, ARRAY_SIZE(added));
	assert_string_equal(jobs[0]->job_id, "a1");
	assert_string_equal(jobs[1]->job_id, "b1");
	assert_string_equal(jobs[2]->job_id, "c1");
	free(jobs);
	queue_find(f->q, "a1", 7)->is_started = true;
	assert_int_equal(turns_take(f->q, 9, &jobs, &n), 0);
	assert_int_equal(n, ARRAY_SIZE(added) - 1);
	assert_string_equal(jobs[0]->job_id, "c1"); /* who have nothing running first */
	assert_string_equal(jobs[1]->job_id, "b1");
	assert_string_equal(jobs[2]->job_id, "a2");
	assert_string_equal(jobs[3]->job_id, "b2");
	assert_string_equal(jobs[4]->job_id, "a3");
	free(jobs);
	queue_find(f->q, "a1", 7)->is_started = false; /* as its file is called */
}

#define QUEUE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUE_TEST(test_it_is_found_again),
		QUEUE_TEST(test_each_is_a_submission_of_its_own),
		QUEUE_TEST(test_names_are_of_a_user),
		QUEUE_TEST(test_a_user_has_a_share),
		QUEUE_TEST(test_bytes_are_bounded_too),
		QUEUE_TEST(test_who_marks_it_as_started),
		QUEUE_TEST(test_a_file_that_is_gone),
		QUEUE_TEST(test_a_start_by_another_daemon),
		QUEUE_TEST(test_a_runner_that_is_killed_before_it_begins),
		QUEUE_TEST(test_one_that_was_never_marked_is_dropped),
		QUEUE_TEST(test_of_two_daemons_one_has_it),
		QUEUE_TEST(test_a_folder_that_is_gone),
		QUEUE_TEST(test_turns),
		QUEUE_TEST(test_long_names),
		QUEUE_TEST(test_what_cannot_be_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
