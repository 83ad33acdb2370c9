/*
 * What is found out about a culprit (here: this very process), and how often one is looked
 * at closer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/unknown.h"
#include "recorder/cadence.h"
#include "recorder/evidence.h"

#define SECOND UINT64_C(1000000000)

struct fixture {
	int root_fd;
	struct mask *mask;
	struct snapshot snap;
	struct proc_sample *self;
	struct episode episode;
	struct anomaly_evidence found;
	uint64_t uid; /* who will be told */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mask_new(NULL, 0, &f->mask, NULL), 0);
	f->uid = geteuid();
	snapshot_init(&f->snap);
	f->self = snapshot_add_process(&f->snap);
	f->self->key.pid = getpid();
	assert_int_equal(proc_start_ticks(getpid(), &f->self->key.start_ticks), 0);
	episode_init(&f->episode);
	f->episode.worst.has_pid = true;
	f->episode.worst.pid = getpid();
	f->episode.worst.start_ticks = f->self->key.start_ticks;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close(f->root_fd);
	mask_free(f->mask);
	snapshot_release(&f->snap);
	free(f);
	return 0;
}

static bool gather(struct fixture *f)
{
	pid_t left = 0;
	const struct evidence_from from = { f->root_fd, f->mask, &f->snap, f->uid, NULL, 0, &left };

	return evidence_gather(&from, &f->episode, &f->found);
}

static const char *target_of(const struct fixture *f, int fd)
{
	for (size_t i = 0; i < f->found.n_files; i++)
		if (f->found.files[i].fd == fd)
			return f->found.files[i].target;
	return NULL;
}

static void test_open_files(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/proctor-test-token=hunter2hunter2-XXXXXX";
	int fd = mkstemp(path), many[ANOMALY_MAX_FILES];
	const char *target;

	assert_true(gather(f));
	target = target_of(f, fd);
	assert_non_null(target);
	assert_null(strstr(target, "hunter2"));
	assert_non_null(strstr(target, "token="));
	assert_int_equal(f->found.files[0].fd, 0);
	assert_true(f->found.n_files_open == f->found.n_files);
	assert_false(f->found.has_syscalls);
	assert_true(f->found.doing[0]); /* it waits for the child that looks at it */
	for (size_t i = 0; i < ANOMALY_MAX_FILES; i++)
		many[i] = dup(fd);
	assert_true(gather(f));
	assert_int_equal(f->found.n_files, ANOMALY_MAX_FILES);
	assert_true(f->found.n_files_open > ANOMALY_MAX_FILES);
	for (size_t i = 0; i < ANOMALY_MAX_FILES; i++)
		close(many[i]);
	close(fd);
	unlink(path);
}

static void test_another_process_is_not_taken_for_it(void **state)
{
	struct fixture *f = *state;

	f->episode.worst.start_ticks++;
	assert_false(gather(f));
	assert_false(u64_known(f->found.n_files_open));
	f->episode.worst.start_ticks = U64_UNKNOWN;
	assert_false(gather(f));
	f->episode.worst.has_pid = false;
	assert_false(gather(f));
}

static void test_calls_by_their_time(void **state)
{
	struct fixture *f = *state;
	struct syscall_use uses[14];

	for (size_t i = 0; i < ARRAY_SIZE(uses); i++)
		uses[i] = (struct syscall_use){ "read", 1, 0, 10, 0 };
	uses[12] = (struct syscall_use){ "futex", 7, 0, 750, 0 };
	uses[3] = (struct syscall_use){ "write", 9, 0, 130, 0 };
	f->self->syscalls = uses;
	f->self->n_syscalls = ARRAY_SIZE(uses);
	assert_true(gather(f));
	assert_true(f->found.has_syscalls);
	assert_int_equal(f->found.n_syscalls, ANOMALY_MAX_SYSCALLS);
	assert_string_equal(f->found.syscalls[0].name, "futex");
	assert_true(f->found.syscalls[0].time_pct == 75);
	assert_int_equal(f->found.syscalls[0].count, 7);
	assert_string_equal(f->found.syscalls[1].name, "write");
}

static int begin_trace(struct fixture *f, double seconds, struct err *err)
{
	const struct evidence_from plan = { .root_fd = f->root_fd,
					    .uid = f->uid,
					    .state_dir = "/nonexistent",
					    .trace_seconds = seconds };
	struct evidence_trace t = { 0 };
	int r = evidence_trace_begin(&t, &plan, &f->episode, &f->found, err);

	assert_int_equal(t.tracer, 0);
	assert_false(evidence_trace_has_ended(&t));
	assert_false(evidence_trace_stop(&t));
	return r;
}

/* A program of root's in the job of a user, and a job of which nobody knows whose it is. */
static void test_what_is_for_root_to_know(void **state)
{
	const uint64_t uids[] = { 4001, U64_UNKNOWN };
	struct syscall_use use = { "read", 1, 0, 10, 0 };
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	if (geteuid() != 0)
		skip();
	f->self->syscalls = &use;
	f->self->n_syscalls = 1;
	for (size_t i = 0; i < ARRAY_SIZE(uids); i++) {
		f->uid = uids[i];
		assert_false(gather(f));
		assert_int_equal(f->found.n_files, 0);
		assert_false(u64_known(f->found.n_files_open));
		assert_false(f->found.has_syscalls);
		assert_int_equal(begin_trace(f, 1, &err), -EPERM);
	}
	f->uid = 0;
	assert_true(gather(f));
}

static void test_one_job_at_a_time(void **state)
{
	const struct config_anomaly wanted = { .evidence_interval_seconds = 0.1,
					       .evidence_duration_seconds = 10 };
	const struct config_anomaly none = { .evidence_interval_seconds = 0.1 };
	struct closer c = { 0 };
	uint64_t now = 1000 * SECOND;

	(void)state;
	assert_false(closer_is_on(&c, now));
	assert_false(closer_begin(&c, &none, 1, now));
	assert_true(closer_begin(&c, &wanted, 1, now));
	assert_true(closer_is_on(&c, now + 9 * SECOND));
	assert_false(closer_begin(&c, &wanted, 2, now + SECOND));
	assert_true(closer_begin(&c, &wanted, 1, now + SECOND));
	assert_false(closer_is_on(&c, now + 10 * SECOND)); /* which has not made it longer */
	assert_int_equal(closer_wait_ms(&c, 0), 100);
	assert_int_equal(closer_wait_ms(&c, 10000000), 500);
}

static void test_no_more_than_so_many_in_a_minute(void **state)
{
	const struct config_anomaly wanted = { .evidence_interval_seconds = 0.1,
					       .evidence_duration_seconds = 1 };
	struct closer c = { 0 };
	unsigned n = 0;

	(void)state;
	for (uint64_t t = 0; t < 60; t += 2)
		n += closer_begin(&c, &wanted, 1, (1000 + t) * SECOND);
	assert_int_equal(n, CLOSER_PER_MINUTE);
	assert_true(closer_begin(&c, &wanted, 1, 1061 * SECOND));
}

/* ---- a trace: whom it is not made of. That it is made the integration tests see ---- */

static void test_whom_nobody_traces(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	assert_int_equal(begin_trace(f, 0, &err), -EINVAL);
	assert_int_equal(begin_trace(f, 1, &err), -EINVAL);
	assert_string_equal(err.text, "proctor does not trace itself");
	f->episode.worst.start_ticks++;
	assert_int_equal(begin_trace(f, 1, &err), -ESRCH);
	f->episode.worst.has_pid = false;
	assert_int_equal(begin_trace(f, 1, &err), -EINVAL);
}

static void test_one_trace_in_so_long(void **state)
{
	struct fixture *f = *state;
	const struct evidence_from plan = { .root_fd = f->root_fd,
					    .uid = f->uid,
					    .state_dir = "/nonexistent",
					    .trace_seconds = 1 };
	struct evidence_trace t = { .next_boot_ns = clock_boot_ns() + 60 * SECOND };

	assert_int_equal(evidence_trace_begin(&t, &plan, &f->episode, &f->found, NULL), -EAGAIN);
}

static pid_t spawn_sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execlp("sleep", "sleep", "60", (char *)NULL);
		_exit(127);
	}
	for (char comm[32] = ""; strcmp(comm, "sleep\n") != 0;) { /* until it is no longer us */
		char path[32];
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		fd = open(path, O_RDONLY);
		assert_true(fd >= 0);
		n = read(fd, comm, sizeof(comm) - 1);
		comm[n > 0 ? n : 0] = '\0';
		close(fd);
	}
	return pid;
}

/* When its time is over, long before another may begin. */
static void test_a_tracer_that_hangs_is_killed(void **state)
{
	struct evidence_trace t = { .tracer = spawn_sleeper(),
				    .tracer_fd = -1,
				    .lock_fd = -1,
				    .stuck_boot_ns = clock_boot_ns() + 3600 * SECOND };
	pid_t tracer = t.tracer;
	int status;

	(void)state;
	t.next_boot_ns = t.stuck_boot_ns + SECOND;
	assert_false(evidence_trace_has_ended(&t));
	assert_int_equal(waitpid(tracer, NULL, WNOHANG), 0);
	t.stuck_boot_ns = clock_boot_ns() - 1;
	assert_false(evidence_trace_has_ended(&t));
	assert_int_equal(waitpid(tracer, &status, 0), tracer);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_true(evidence_trace_has_ended(&t));
	assert_int_equal(t.ended, tracer);
}

/* Why there is none is in the record. */
static void check_comes_back(const struct anomaly_evidence *evidence)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct anomaly_evidence back;
	struct json j;

	json_init(&j, &text);
	anomaly_evidence_write_json(&j, evidence);
	assert_int_equal(anomaly_evidence_read_json(text.data, &back), 0);
	assert_string_equal(back.trace_missing, evidence->trace_missing);
	assert_string_equal(back.doing, evidence->doing);
}

/* Another has the folder's lock, or had it a moment ago. */
static void test_one_trace_among_all(void **state)
{
	struct fixture *f = *state;
	char dir[] = "/tmp/proctor-traces-XXXXXX", path[64];
	const struct evidence_from plan = {
		.root_fd = f->root_fd, .uid = f->uid, .state_dir = dir, .trace_seconds = 1
	};
	struct evidence_trace t = { 0 };
	struct err err = ERR_INIT;
	pid_t pid = spawn_sleeper();
	int fd;

	f->episode.worst.pid = pid;
	assert_int_equal(proc_start_ticks(pid, &f->episode.worst.start_ticks), 0);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/traces", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/traces/lock", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(evidence_trace_begin(&t, &plan, &f->episode, &f->found, &err), -EAGAIN);
	assert_int_equal(write(fd, "1", 1), 1);
	close(fd);
	assert_int_equal(evidence_trace_begin(&t, &plan, &f->episode, &f->found, &err), -EAGAIN);
	assert_string_equal(err.text, "another has traced a process just before");
	assert_string_equal(f->found.trace_missing, err.text);
	check_comes_back(&f->found);
	assert_int_equal(t.tracer, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	snprintf(path, sizeof(path), "%s/traces", dir);
	rmdir(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_process_is_not_taken_for_it, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_calls_by_their_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_for_root_to_know, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_trace_among_all, setup, teardown),
		cmocka_unit_test(test_a_tracer_that_hangs_is_killed),
		cmocka_unit_test(test_one_job_at_a_time),
		cmocka_unit_test(test_no_more_than_so_many_in_a_minute),
		cmocka_unit_test_setup_teardown(test_whom_nobody_traces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_trace_in_so_long, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
