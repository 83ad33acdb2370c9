#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/life/life_netlink.h"
#include "sources/sources.h"

/* ---- the wire ---- */

/* A message as the kernel lays it out, without its headers, so that these check each other. */
struct wire {
	uint32_t length;
	uint16_t type, flags;
	uint32_t nl_seq, nl_pid;
	uint32_t idx, val, seq, ack;
	uint16_t len, cn_flags;
	uint32_t what, cpu;
	uint64_t mono_ns;
	uint32_t data[6];
} __attribute__((packed));

#define WHAT_FORK 0x00000001
#define WHAT_EXEC 0x00000002
#define WHAT_UID 0x00000004
#define WHAT_GID 0x00000040
#define WHAT_COMM 0x00000200
#define WHAT_EXIT 0x80000000

static struct wire wire_of(uint32_t what)
{
	return (struct wire){ .length = sizeof(struct wire),
			      .type = 3,
			      .idx = 1,
			      .val = 1,
			      .seq = 99,
			      .len = 40,
			      .what = what,
			      .cpu = 5,
			      .mono_ns = 123456789 };
}

static void test_wire_fork(void **state)
{
	struct wire w = wire_of(WHAT_FORK);
	struct life_raw raw;

	(void)state;
	assert_int_equal(sizeof(w), 76);
	memcpy(w.data, (uint32_t[]){ 11, 10, 21, 20 }, 16);
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_FORK);
	assert_int_equal(raw.tid, 21);
	assert_int_equal(raw.pid, 20);
	assert_int_equal(raw.parent_pid, 10);
	assert_int_equal(raw.cpu, 5);
	assert_int_equal(raw.seq, 99);
	assert_int_equal(raw.mono_ns, 123456789);
}

static void test_wire_exec_and_exit(void **state)
{
	struct wire w = wire_of(WHAT_EXEC);
	struct life_raw raw;

	(void)state;
	memcpy(w.data, (uint32_t[]){ 21, 20 }, 8);
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_EXEC);
	assert_int_equal(raw.pid, 20);

	w = wire_of(WHAT_EXIT);
	memcpy(w.data, (uint32_t[]){ 21, 20, 7 << 8, 17, 11, 10 }, 24);
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_EXIT);
	assert_int_equal(raw.tid, 21);
	assert_int_equal(WEXITSTATUS(raw.wait_status), 7);
	assert_int_equal(raw.parent_pid, 10);

	w = wire_of(WHAT_UID);
	memcpy(w.data, (uint32_t[]){ 21, 20, 1000, 0 }, 16);
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_UID);
	assert_int_equal(raw.pid, 20);
	assert_int_equal(raw.uid, 1000);
	assert_int_equal(raw.euid, 0);

	w = wire_of(WHAT_GID);
	memcpy(w.data, (uint32_t[]){ 23, 22, 1000, 42 }, 16);
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_GID);
	assert_int_equal(raw.pid, 22);

	w = wire_of(WHAT_COMM);
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_OTHER);
}

static void test_wire_ack(void **state)
{
	struct wire w = wire_of(0);
	struct life_raw raw;

	(void)state;
	w.ack = 43;
	w.data[0] = EPERM;
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_ACK);
	assert_int_equal(raw.ack, 43);
	assert_int_equal(raw.ack_errno, EPERM);
}

static void test_wire_rubbish(void **state)
{
	struct wire w = wire_of(WHAT_FORK);
	struct life_raw raw = { .seq = 4711 };
	char *copy;

	(void)state;
	for (size_t n = 0; n < sizeof(w); n++) {
		copy = malloc(n + 1);
		memcpy(copy, &w, n);
		assert_int_equal(life_parse(copy, n, &raw), -EBADMSG);
		free(copy);
	}
	w.len = 41; /* longer than the message */
	assert_int_equal(life_parse(&w, sizeof(w), &raw), -EBADMSG);
	w = wire_of(WHAT_FORK);
	w.length = 15;
	assert_int_equal(life_parse(&w, sizeof(w), &raw), -EBADMSG);
	assert_int_equal(raw.seq, 4711);
	w = wire_of(WHAT_FORK);
	w.idx = 2; /* another connector */
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_FOREIGN);
	w = wire_of(WHAT_FORK);
	w.type = 2; /* an error message */
	assert_int_equal(life_parse(&w, sizeof(w), &raw), sizeof(w));
	assert_int_equal(raw.type, LIFE_RAW_FOREIGN);
}

/* ---- losses ---- */

static void test_loss_counts_gaps_per_cpu(void **state)
{
	struct life_loss loss = { 0 };

	(void)state;
	life_loss_see(&loss, 0, 100);
	life_loss_see(&loss, 3, UINT32_MAX);
	life_loss_see(&loss, 0, 101);
	life_loss_see(&loss, 3, 0); /* wraps */
	assert_int_equal(life_loss_take(&loss), 0);
	life_loss_see(&loss, 0, 105);
	life_loss_see(&loss, 3, 2);
	assert_int_equal(life_loss_take(&loss), 4);
	assert_int_equal(life_loss_take(&loss), 0);
	life_loss_see(&loss, 0, 107);
	life_loss_see(&loss, 0, 106); /* late, not lost */
	assert_int_equal(life_loss_take(&loss), 0);
	life_loss_see(&loss, UINT32_MAX, 5); /* no such CPU */
	life_loss_release(&loss);
}

static void test_loss_told_before_the_gap_shows(void **state)
{
	struct life_loss loss = { 0 };

	(void)state;
	life_loss_see(&loss, 0, 100);
	life_loss_overflow(&loss);
	assert_int_equal(life_loss_take(&loss), 1); /* at least one */
	life_loss_see(&loss, 0, 110);
	assert_int_equal(life_loss_take(&loss), 8); /* nine in all */
	life_loss_release(&loss);
}

/* ---- threads ---- */

static bool feed(struct life_threads *t, enum life_raw_type type, pid_t tid, pid_t pid,
		 int wait_status, struct life_event *ret)
{
	struct life_raw raw = {
		.type = type, .tid = tid, .pid = pid, .parent_pid = 1, .wait_status = wait_status
	};
	struct life_loss loss = { 0 };
	bool is_whole = life_threads_feed(t, &loss, &raw, ret);

	life_loss_release(&loss);
	return is_whole;
}

/* ---- owners ---- */

static void fork_of(struct life_owners *o, pid_t parent, pid_t pid)
{
	life_owners_feed(
		o, &(struct life_raw){
			   .type = LIFE_RAW_FORK, .tid = pid, .pid = pid, .parent_pid = parent });
}

static void become(struct life_owners *o, pid_t pid, uint32_t uid, uint32_t euid)
{
	life_owners_feed(
		o,
		&(struct life_raw){
			.type = LIFE_RAW_UID, .tid = pid, .pid = pid, .uid = uid, .euid = euid });
}

static void test_owners_are_known_or_not(void **state)
{
	struct life_owners o = { 0 };

	(void)state;
	life_owners_follow(&o, 10, 1000);
	fork_of(&o, 10, 11);
	fork_of(&o, 10, 12);
	fork_of(&o, 9, 13);	 /* of somebody who is not followed */
	become(&o, 12, 1000, 0); /* a program that is set-user-ID */
	fork_of(&o, 12, 14);
	become(&o, 12, 1000, 1000); /* it may have kept the right to go back */
	become(&o, 11, 1000, 1000);
	fork_of(&o, 11, 15);
	assert_int_equal(life_owners_take(&o, 11), 1000);
	assert_false(u64_known(life_owners_take(&o, 11))); /* once */
	assert_false(u64_known(life_owners_take(&o, 12)));
	assert_false(u64_known(life_owners_take(&o, 13)));
	assert_false(u64_known(life_owners_take(&o, 14)));
	assert_int_equal(life_owners_take(&o, 15), 1000);
	fork_of(&o, 10, 16);
	life_owners_feed(&o, &(struct life_raw){ .type = LIFE_RAW_GID, .tid = 16, .pid = 16 });
	assert_false(u64_known(life_owners_take(&o, 16))); /* a program that is set-group-ID */
	fork_of(&o, 9, 10);				   /* the pid is a stranger's by now */
	assert_false(u64_known(life_owners_take(&o, 10)));
	life_owners_follow(&o, 10, 1000);
	map_clear(&o.by_pid);
	assert_false(u64_known(life_owners_take(&o, 10)));
	map_release(&o.by_pid);
}

static void test_threads_simple_process(void **state)
{
	struct life_threads t = { 0 };
	struct life_event ev;

	(void)state;
	assert_true(feed(&t, LIFE_RAW_FORK, 20, 20, 0, &ev));
	assert_int_equal(ev.type, LIFE_FORK);
	assert_int_equal(ev.pid, 20);
	assert_int_equal(ev.parent_pid, 1);
	assert_true(feed(&t, LIFE_RAW_EXEC, 20, 20, 0, &ev));
	assert_int_equal(ev.type, LIFE_EXEC);
	assert_true(feed(&t, LIFE_RAW_EXIT, 20, 20, 9, &ev));
	assert_int_equal(ev.type, LIFE_EXIT);
	assert_int_equal(ev.wait_status, 9);
	assert_false(feed(&t, LIFE_RAW_OTHER, 20, 20, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_ACK, 0, 0, 0, &ev));
	life_threads_release(&t);
}

static void test_threads_process_ends_with_the_last(void **state)
{
	struct life_threads t = { 0 };
	struct life_event ev;

	(void)state;
	assert_true(feed(&t, LIFE_RAW_FORK, 20, 20, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_FORK, 21, 20, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_FORK, 22, 20, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_EXIT, 20, 20, 0, &ev)); /* the first ends, others go on */
	assert_false(feed(&t, LIFE_RAW_EXIT, 21, 20, 0, &ev));
	assert_true(feed(&t, LIFE_RAW_EXIT, 22, 20, 3 << 8, &ev));
	assert_int_equal(ev.type, LIFE_EXIT);
	assert_int_equal(ev.pid, 20);
	assert_int_equal(ev.wait_status, 3 << 8);
	assert_int_equal(t.extra.len, 0);
	life_threads_release(&t);
}

static void test_threads_exec_in_another_thread_is_no_death(void **state)
{
	struct life_threads t = { 0 };
	struct life_event ev;

	(void)state;
	assert_true(feed(&t, LIFE_RAW_FORK, 20, 20, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_FORK, 21, 20, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_EXIT, 20, 20, 9, &ev));
	assert_true(feed(&t, LIFE_RAW_EXEC, 20, 20, 0, &ev));
	assert_int_equal(ev.type, LIFE_EXEC);
	assert_true(feed(&t, LIFE_RAW_EXIT, 20, 20, 0, &ev));
	assert_int_equal(ev.type, LIFE_EXIT);
	life_threads_release(&t);
}

static void test_threads_from_before_are_not_counted(void **state)
{
	struct life_threads t = { 0 };
	struct life_event ev;

	(void)state;
	assert_false(feed(&t, LIFE_RAW_EXIT, 31, 30, 0, &ev));
	assert_true(feed(&t, LIFE_RAW_EXIT, 30, 30, 0, &ev));
	assert_false(feed(&t, LIFE_RAW_FORK, 41, 40, 0, &ev));
	life_threads_forget(&t); /* the end of 41 may have been lost */
	assert_true(feed(&t, LIFE_RAW_EXIT, 40, 40, 0, &ev));
	life_threads_release(&t);
}

/* What was seen before a gap is forgotten; what is seen behind it is kept, however much is lost. */
static void test_threads_forget_once_per_gap(void **state)
{
	static const struct {
		struct life_raw raw;
		bool is_whole;
	} rows[] = {
		{ { .type = LIFE_RAW_FORK, .seq = 100, .tid = 21, .pid = 20 }, false },
		/* Five are missing, and the end of 21 may be among them. */
		{ { .type = LIFE_RAW_FORK, .seq = 106, .tid = 31, .pid = 30 }, false },
		{ { .type = LIFE_RAW_EXIT, .seq = 107, .tid = 20, .pid = 20 }, true },
		{ { .type = LIFE_RAW_EXIT, .seq = 108, .tid = 30, .pid = 30 }, false },
		{ { .type = LIFE_RAW_EXIT, .seq = 109, .tid = 31, .pid = 30 }, true },
	};
	struct life_threads t = { 0 };
	struct life_loss loss = { 0 };
	struct life_event ev;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(life_threads_feed(&t, &loss, &rows[i].raw, &ev), rows[i].is_whole);
	assert_int_equal(ev.pid, 30);
	assert_int_equal(life_loss_take(&loss), 5);
	life_loss_release(&loss);
	life_threads_release(&t);
}

/* ---- live ---- */

static struct life *open_or_skip(void)
{
	struct life *life = NULL;
	struct err err = ERR_INIT;
	int r = life_open_with(NULL, &life, &err);

	if (r == 0)
		return life;
	assert_true(strlen(err.text) > 0);
	assert_null(life);
	print_message("# skipped: %s\n", err.text);
	skip();
	return NULL;
}

#define N_CHILDREN 50

struct seen {
	pid_t pids[N_CHILDREN];
	unsigned forks[N_CHILDREN], execs[N_CHILDREN], exits[N_CHILDREN];
	int status[N_CHILDREN];
	bool has_wrong_parent, has_wrong_time;
	uint64_t began_wall_ns;
};

static void note_event(void *ctx, const struct life_event *ev)
{
	struct seen *seen = ctx;

	for (size_t i = 0; i < N_CHILDREN; i++) {
		if (seen->pids[i] != ev->pid)
			continue;
		seen->forks[i] += ev->type == LIFE_FORK;
		seen->execs[i] += ev->type == LIFE_EXEC;
		seen->exits[i] += ev->type == LIFE_EXIT;
		if (ev->type == LIFE_EXIT)
			seen->status[i] = ev->wait_status;
		if (ev->type != LIFE_EXEC && ev->parent_pid != getpid())
			seen->has_wrong_parent = true;
		/* One second of grace: the wall clock may be steered meanwhile. */
		if (ev->wall_ns + UINT64_C(1000000000) < seen->began_wall_ns ||
		    ev->wall_ns > clock_wall_ns() + UINT64_C(1000000000))
			seen->has_wrong_time = true;
	}
}

/* Child i exits with code i, every tenth is killed, every seventh executes a program. */
static void run_child(int i)
{
	if (i % 10 == 9)
		kill(getpid(), SIGKILL);
	if (i % 7 == 3)
		execl("/bin/sh", "sh", "-c", "exit 77", (char *)NULL);
	_exit(i);
}

static void start_children(struct seen *seen)
{
	for (int i = 0; i < N_CHILDREN; i++) {
		seen->pids[i] = fork();
		assert_true(seen->pids[i] >= 0);
		if (seen->pids[i] == 0)
			run_child(i);
	}
}

static void test_live_every_birth_and_death(void **state)
{
	struct life *life = open_or_skip();
	struct seen seen = { .began_wall_ns = clock_wall_ns() };
	int status[N_CHILDREN];

	(void)state;
	start_children(&seen);
	for (int i = 0; i < N_CHILDREN; i++)
		assert_int_equal(waitpid(seen.pids[i], &status[i], 0), seen.pids[i]);
	/* The kernel tells of a death just after the parent learns of it. */
	for (int left = N_CHILDREN; left > 0;) {
		struct pollfd poll_fd = { .fd = life_fd(life), .events = POLLIN };

		assert_true(poll(&poll_fd, 1, 10000) == 1);
		assert_int_equal(life_drain(life, SIZE_MAX, note_event, &seen), 0);
		left = 0;
		for (int i = 0; i < N_CHILDREN; i++)
			left += seen.exits[i] == 0;
	}
	for (int i = 0; i < N_CHILDREN; i++) {
		assert_int_equal(seen.forks[i], 1);
		assert_int_equal(seen.exits[i], 1);
		assert_int_equal(seen.execs[i], i % 7 == 3 && i % 10 != 9);
		assert_int_equal(seen.status[i], status[i]);
	}
	assert_false(seen.has_wrong_parent);
	assert_false(seen.has_wrong_time);
	life_close(life);
}

static void *exit_with_five(void *main_thread)
{
	pthread_join(*(pthread_t *)main_thread, NULL);
	_exit(5);
}

/* The first thread ends with 0, the process later with 5. */
static void run_headless(void)
{
	static pthread_t main_thread;
	pthread_t thread;

	main_thread = pthread_self();
	if (pthread_create(&thread, NULL, exit_with_five, &main_thread) != 0)
		_exit(1);
	pthread_exit(NULL);
}

static void *execute(void *arg)
{
	execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
	return arg;
}

static void run_exec_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, execute, NULL) != 0)
		_exit(1);
	for (;;)
		pause();
}

static void check_threaded(void (*run)(void), unsigned n_execs)
{
	struct life *life = open_or_skip();
	struct seen seen = { .began_wall_ns = clock_wall_ns() };
	int status;

	seen.pids[0] = fork();
	if (seen.pids[0] == 0)
		run();
	assert_int_equal(waitpid(seen.pids[0], &status, 0), seen.pids[0]);
	while (seen.exits[0] == 0) {
		struct pollfd poll_fd = { .fd = life_fd(life), .events = POLLIN };

		assert_true(poll(&poll_fd, 1, 10000) == 1);
		assert_int_equal(life_drain(life, SIZE_MAX, note_event, &seen), 0);
	}
	assert_int_equal(seen.exits[0], 1);
	assert_int_equal(seen.execs[0], n_execs);
	assert_int_equal(seen.status[0], status);
	life_close(life);
}

static void test_live_first_thread_ends_first(void **state)
{
	(void)state;
	check_threaded(run_headless, 0);
}

static void test_live_exec_in_another_thread(void **state)
{
	(void)state;
	check_threaded(run_exec_in_thread, 1);
}

static void count_event(void *ctx, const struct life_event *ev)
{
	(void)ev;
	++*(uint64_t *)ctx;
}

static void test_live_loss_is_told(void **state)
{
	struct life *life = open_or_skip();
	int64_t lost = 0;
	uint64_t n = 0;
	int bytes = 4096;

	(void)state;
	assert_int_equal(life_drain(life, SIZE_MAX, count_event, &n), 0);
	assert_int_equal(setsockopt(life_fd(life), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)),
			 0);
	for (int round = 0; round < 20 && lost == 0; round++) {
		int64_t r;

		for (int i = 0; i < 20; i++) {
			pid_t pid = fork();

			if (pid == 0)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
		r = life_drain(life, SIZE_MAX, count_event, &n);
		assert_true(r >= 0);
		lost += r;
	}
	assert_true(lost > 0);
	life_close(life);
}

/* A turn ends although there is more, and nothing of it is lost. */
static void test_live_some(void **state)
{
	struct life *life = open_or_skip();
	uint64_t n = 0;

	(void)state;
	assert_int_equal(life_drain(life, SIZE_MAX, count_event, &n), 0);
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	n = 0;
	assert_int_equal(life_drain(life, 20, count_event, &n), 0);
	assert_in_range(n, 20, 200);
	assert_int_equal(life_drain(life, SIZE_MAX, count_event, &n), 0);
	assert_true(n >= 400);
	life_close(life);
}

static void test_rungs(void **state)
{
	struct arena arena = ARENA_INIT;
	struct rung rungs[SOURCES_MAX_RUNGS];
	struct life *life = NULL;
	bool has_life = life_open_with(NULL, &life, NULL) == 0;
	struct rung births = has_life ? life_rung(life) : (struct rung){ 0 };
	int root_fd = open("/", O_RDONLY | O_DIRECTORY);
	size_t n = sources_probe_rungs(root_fd, NULL, &arena, rungs);

	(void)state;
	life_close(life);
	assert_true(n > 0 && n <= SOURCES_MAX_RUNGS);
	for (size_t i = 0; i < n; i++) {
		assert_non_null(rungs[i].measurement);
		assert_non_null(rungs[i].rung);
		assert_non_null(rungs[i].reason);
		if (strcmp(rungs[i].measurement, "births, deaths, exit codes") == 0)
			assert_string_equal(rungs[i].rung,
					    has_life ? births.rung
						     : "subreaper wait4 + /proc polling");
	}
	arena_release(&arena);
	close(root_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire_fork),
		cmocka_unit_test(test_wire_exec_and_exit),
		cmocka_unit_test(test_wire_ack),
		cmocka_unit_test(test_wire_rubbish),
		cmocka_unit_test(test_loss_counts_gaps_per_cpu),
		cmocka_unit_test(test_loss_told_before_the_gap_shows),
		cmocka_unit_test(test_owners_are_known_or_not),
		cmocka_unit_test(test_threads_simple_process),
		cmocka_unit_test(test_threads_process_ends_with_the_last),
		cmocka_unit_test(test_threads_exec_in_another_thread_is_no_death),
		cmocka_unit_test(test_threads_from_before_are_not_counted),
		cmocka_unit_test(test_threads_forget_once_per_gap),
		cmocka_unit_test(test_live_every_birth_and_death),
		cmocka_unit_test(test_live_first_thread_ends_first),
		cmocka_unit_test(test_live_exec_in_another_thread),
		cmocka_unit_test(test_live_some),
		cmocka_unit_test(test_live_loss_is_told),
		cmocka_unit_test(test_rungs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
