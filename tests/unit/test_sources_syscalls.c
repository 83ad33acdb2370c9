#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/ebpf.h"
#include "sources/sources.h"
#include "sources/syscalls/syscall_table.h"

#define TAG 77
#define USER 4001
#define MS UINT64_C(1000000)

/* ---- names ---- */

static void test_names(void **state)
{
	char text[SYSCALL_NAME_BYTES];

	(void)state;
	assert_string_equal(syscall_name(SYS_read, text), "read");
	assert_string_equal(syscall_name(SYS_exit_group, text), "exit_group");
	assert_string_equal(syscall_name(SYS_getppid, text), "getppid");
	assert_string_equal(syscall_name(4000, text), "syscall_4000");
	assert_string_equal(syscall_name(UINT32_MAX, text), "syscall_4294967295");
}

/* ---- the table ---- */

struct told {
	int n_processes;
	struct syscall_process last;
	struct syscall_use uses[64];
};

static void tell(void *ctx, const struct syscall_process *p)
{
	struct told *told = ctx;

	told->n_processes++;
	told->last = *p;
	assert_true(p->n_uses <= ARRAY_SIZE(told->uses));
	for (size_t i = 0; i < p->n_uses; i++)
		told->uses[i] = p->uses[i];
}

static const struct syscall_owner owner = {
	.tag = TAG, .start_boot_ns = 20000000, .pid = 100, .uid = 1000
};

static void put(struct syscall_table *t, uint32_t id, uint32_t nr, struct syscall_value value)
{
	const struct syscall_entry entry = { value, owner };

	assert_int_equal(syscall_table_put(t, &(struct syscall_key){ id, nr }, &entry, 100), 0);
}

static void test_table_adds_up_and_forgets(void **state)
{
	struct syscall_news born = { .owner = owner, .id = 3 };
	struct syscall_table t = { 0 };
	struct told told = { 0 };

	(void)state;
	assert_int_equal(syscall_table_news(&t, &born, 100), 0);
	put(&t, 3, SYS_write, (struct syscall_value){ 5, 1, 5, 900, 100, 0 });
	put(&t, 3, SYS_read, (struct syscall_value){ 10, 0, 10, 1000, 1000, 0 });
	put(&t, 3, SYS_read, (struct syscall_value){ 11, 0, 11, 1100, 1050, 0 });
	syscall_table_each(&t, false, tell, &told);
	assert_int_equal(told.n_processes, 1);
	assert_int_equal(told.last.pid, 100);
	assert_int_equal(told.last.start_ticks, 2);
	assert_int_equal(told.last.tag, TAG);
	assert_true(told.last.time_variance_ns2 == 0);
	assert_int_equal(told.last.n_uses, 2);
	assert_string_equal(told.uses[0].name, SYS_read < SYS_write ? "read" : "write");
	assert_int_equal(told.uses[0].count + told.uses[1].count, 16);
	assert_int_equal(told.uses[0].cpu_ns + told.uses[1].cpu_ns, 50 + 800);
	assert_false(syscall_table_is_ended(&t, 3));
	syscall_table_each(&t, true, tell, &told);
	assert_int_equal(told.n_processes, 1); /* it lives */
	assert_int_equal(told.last.uid, 1000);
	born.is_end = 1;
	assert_int_equal(syscall_table_news(&t, &born, 100), 0);
	assert_true(syscall_table_is_ended(&t, 3));
	syscall_table_each(&t, true, tell, &told);
	assert_int_equal(told.n_processes, 2);
	assert_int_equal(told.last.uid, 1000);
	assert_int_equal(told.last.n_uses, 2);
	syscall_table_drop_ended(&t);
	told.n_processes = 0;
	syscall_table_each(&t, false, tell, &told);
	assert_int_equal(told.n_processes, 0);
	syscall_table_release(&t);
}

static uint64_t uid_told(struct syscall_table *t)
{
	struct told told = { 0 };

	syscall_table_each(t, false, tell, &told);
	assert_int_equal(told.n_processes, 1);
	return told.last.uid;
}

/* What was called says so itself, and an end has the last word. */
static void test_whose_it_is_needs_no_news(void **state)
{
	struct syscall_news end = { .owner = owner, .id = 3, .is_end = 1 };
	struct syscall_entry entry = { { 1, 0, 1, 10, 0, 0 }, owner };
	struct syscall_table t = { 0 };

	(void)state;
	put(&t, 3, SYS_read, (struct syscall_value){ 1, 0, 1, 10, 0, 0 });
	assert_int_equal(uid_told(&t), 1000);
	entry.owner.uid = 0; /* a program that is set-user-ID */
	assert_int_equal(syscall_table_put(&t, &(struct syscall_key){ 3, SYS_write }, &entry, 100),
			 0);
	assert_false(u64_known(uid_told(&t)));
	put(&t, 3, SYS_read, (struct syscall_value){ 1, 0, 1, 10, 0, 0 });
	assert_false(u64_known(uid_told(&t)));
	end.owner.uid = 0;
	assert_int_equal(syscall_table_news(&t, &end, 100), 0);
	put(&t, 3, SYS_read, (struct syscall_value){ 2, 0, 2, 20, 0, 0 });
	assert_int_equal(uid_told(&t), 0);
	syscall_table_release(&t);
}

static bool is_100(pid_t pid, uint64_t start_ticks)
{
	return pid == 100 && start_ticks == 2;
}

static void test_lost_ends_are_made_up_for(void **state)
{
	struct syscall_news born = { .owner = owner, .id = 3 };
	struct syscall_table t = { 0 };
	struct told told = { 0 };

	(void)state;
	assert_int_equal(syscall_table_news(&t, &born, 100), 0);
	born = (struct syscall_news){ .owner = { .pid = 101, .tag = TAG }, .id = 4 };
	assert_int_equal(syscall_table_news(&t, &born, 100), 0);
	born = (struct syscall_news){ .owner = { .pid = 100, .tag = TAG }, .id = 5 };
	assert_int_equal(syscall_table_news(&t, &born, 100), 0); /* another had the pid before */
	syscall_table_end_missing(&t, is_100);
	assert_false(syscall_table_is_ended(&t, 3));
	assert_true(syscall_table_is_ended(&t, 4));
	assert_true(syscall_table_is_ended(&t, 5));
	syscall_table_drop_ended(&t);
	syscall_table_each(&t, false, tell, &told);
	assert_int_equal(told.n_processes, 1);
	assert_int_equal(told.last.pid, 100);
	syscall_table_release(&t);
}

static void test_lost_beginnings_are_no_loss(void **state)
{
	struct syscall_table t = { 0 };
	struct told told = { 0 };

	(void)state;
	put(&t, 5, SYS_read, (struct syscall_value){ 1, 0, 1, 1, 0, 0 });
	syscall_table_each(&t, false, tell, &told);
	assert_int_equal(told.last.pid, 100);
	assert_int_equal(told.last.tag, TAG);
	assert_int_equal(told.last.start_ticks, 2);
	assert_int_equal(told.uses[0].count, 1);
	syscall_table_release(&t);
}

static void test_an_entry_that_was_made_anew_adds(void **state)
{
	struct syscall_table t = { 0 };
	struct told told = { 0 };

	(void)state;
	put(&t, 3, SYS_read, (struct syscall_value){ 10, 2, 10, 1000, 300, 0 });
	put(&t, 3, SYS_read, (struct syscall_value){ 1, 1, 1, 50, 10, 0 });
	syscall_table_each(&t, false, tell, &told);
	assert_int_equal(told.uses[0].count, 11);
	assert_int_equal(told.uses[0].errors, 3);
	assert_int_equal(told.uses[0].cpu_ns, 740);
	syscall_table_release(&t);
}

static void test_samples_get_what_is_new(void **state)
{
	const struct syscall_news born = { .owner = owner, .id = 3 };
	struct syscall_table t = { 0 };
	struct proc_sample *p;
	struct snapshot s;

	(void)state;
	snapshot_init(&s);
	p = snapshot_add_process(&s);
	p->key = (struct proc_key){ 100, 2 };
	p = snapshot_add_process(&s);
	p->key = (struct proc_key){ 101, 2 };
	assert_int_equal(syscall_table_news(&t, &born, 100), 0);
	put(&t, 3, SYS_read, (struct syscall_value){ 10, 2, 10, 1000, 300, 0 });
	syscall_table_fill(&t, &s);
	assert_int_equal(s.processes[0].n_syscalls, 1);
	assert_int_equal(s.processes[0].syscalls[0].cpu_ns, 700);
	assert_int_equal(s.processes[0].syscalls[0].wait_ns, 300);
	assert_int_equal(s.processes[0].syscalls[0].errors, 2);
	assert_null(s.processes[1].syscalls); /* nobody counts it, which is not none */
	syscall_table_fill(&t, &s);
	assert_non_null(s.processes[0].syscalls); /* none, which is known */
	assert_int_equal(s.processes[0].n_syscalls, 0);
	put(&t, 3, SYS_read, (struct syscall_value){ 13, 2, 13, 1300, 300, 0 });
	syscall_table_fill(&t, &s);
	assert_int_equal(s.processes[0].syscalls[0].count, 3);
	assert_int_equal(s.processes[0].syscalls[0].cpu_ns, 300);
	s.processes[0].key.start_ticks = 3; /* another process has the pid now */
	s.processes[0].syscalls = NULL;
	syscall_table_fill(&t, &s);
	assert_null(s.processes[0].syscalls);
	syscall_table_release(&t);
	snapshot_release(&s);
}

static void test_sampled_times_are_scaled(void **state)
{
	struct syscall_table t = { 0 };
	struct told told = { 0 };

	(void)state;
	assert_int_equal(syscall_scale(10, 100, 4), 250);
	assert_false(u64_known(syscall_scale(10, 100, 0)));
	assert_false(u64_known(syscall_scale(UINT64_MAX / 2, 100, 4)));
	/* On a CPU 8, 16, 16 and 24 ns: 1 + 4 + 4 + 9 squares of the unit. */
	put(&t, 1, SYS_read, (struct syscall_value){ 400, 0, 4, 104, 40, 18 });
	put(&t, 1, SYS_write, (struct syscall_value){ 7, 0, 0, 0, 0, 0 });
	syscall_table_each(&t, false, tell, &told);
	/* The variance of one is 128/3; of the mean of 4, and of 400 of which 4 are known, less. */
	assert_true(fabs(told.last.time_variance_ns2 - 400.0 * 396 * (128.0 / 3) / 4) < 1);
	for (size_t i = 0; i < told.last.n_uses; i++)
		if (strcmp(told.uses[i].name, "read") == 0)
			assert_int_equal(told.uses[i].cpu_ns, 6400);
		else
			assert_false(u64_known(told.uses[i].cpu_ns)); /* and not 0 */
	syscall_table_release(&t);
}

/* ---- the kernel ---- */

static struct syscalls *open_with(const struct syscalls_options *options)
{
	struct syscalls *s = NULL;
	struct err err = ERR_INIT;

	if (ebpf_check(&err) < 0) {
		print_message("# %s\n", err.text);
		skip();
	}
	if (syscalls_open(options, &s, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(syscalls_is_armed(s));
	return s;
}

static struct syscalls *open_syscalls(unsigned time_every, unsigned max_entries)
{
	return open_with(
		&(struct syscalls_options){ .time_every = time_every, .max_entries = max_entries });
}

/* Nothing is lost. */
static void take_in(struct syscalls *s)
{
	struct syscalls_lost lost;

	assert_int_equal(syscalls_read(s, &lost), 0);
	assert_int_equal(lost.calls, 0);
	assert_int_equal(lost.threads, 0);
}

/* What the processes of a tree have called, added up by name. */
struct sums {
	uint64_t tag;
	int n_processes, n_ended;
	int n_trees; /* whose calls were not all told apart */
	int n_users; /* of USER alone */
	struct sum {
		char name[24];
		uint64_t count, errors, cpu_ns, wait_ns;
	} calls[128];
	size_t n;
};

static struct sum *sum_of(struct sums *sums, const char *name)
{
	for (size_t i = 0; i < sums->n; i++)
		if (strcmp(sums->calls[i].name, name) == 0)
			return &sums->calls[i];
	assert_true(sums->n < ARRAY_SIZE(sums->calls));
	snprintf(sums->calls[sums->n].name, sizeof(sums->calls[0].name), "%s", name);
	return &sums->calls[sums->n++];
}

static void add_process(void *ctx, const struct syscall_process *p)
{
	struct sums *sums = ctx;

	assert_int_equal(p->tag, TAG);
	if (p->pid == 0 && p->n_uses == 0)
		return; /* of whom only where their time went is known */
	sums->n_processes++;
	sums->n_ended += p->is_ended;
	sums->n_trees += p->pid == 0;
	sums->n_users += p->uid == USER;
	for (size_t i = 0; i < p->n_uses; i++) {
		struct sum *sum = sum_of(sums, p->uses[i].name);

		sum->count += p->uses[i].count;
		sum->errors += p->uses[i].errors;
		sum->cpu_ns += p->uses[i].cpu_ns;
		sum->wait_ns += p->uses[i].wait_ns;
	}
}

static void count_trees(void *ctx, const struct syscall_process *p)
{
	struct sums *sums = ctx;

	sums->n_processes++;
	sums->n_trees += p->pid == 0;
}

static void read_sums(struct syscalls *s, struct sums *sums)
{
	memset(sums, 0, sizeof(*sums));
	take_in(s);
	syscalls_each(s, add_process, sums);
}

static void *call_in_a_thread(void *arg)
{
	for (int i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	return arg;
}

static void be_subject(int go_fd)
{
	pthread_t thread;
	char byte;
	pid_t pid;

	(void)!read(go_fd, &byte, 1); /* this one was entered before anybody counted */
	for (int i = 0; i < 5000; i++)
		syscall(SYS_getppid);
	for (int i = 0; i < 100; i++)
		close(-1);
	nanosleep(&(struct timespec){ 0, 100 * (long)MS }, NULL);
	pthread_create(&thread, NULL, call_in_a_thread, NULL);
	pthread_join(thread, NULL);
	pid = fork();
	if (pid == 0) {
		call_in_a_thread(NULL);
		syscall(SYS_exit_group, 0);
	}
	waitpid(pid, NULL, 0);
	_exit(0);
}

static pid_t start_subject(int *go_fd)
{
	int go[2];
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0)
		be_subject(go[0]);
	close(go[0]);
	*go_fd = go[1];
	return pid;
}

static void count_a_tree(const struct syscalls_options *options)
{
	struct syscalls *s = open_with(options);
	static struct sums sums;
	pid_t pid;
	int go_fd;

	assert_int_equal(syscalls_track(s, 4194303, TAG), -ESRCH);
	assert_false(syscalls_is_armed(s));
	pid = start_subject(&go_fd);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_true(syscalls_is_armed(s));
	assert_int_equal(write(go_fd, "", 1), 1);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 50; i++)
		syscall(SYS_getppid); /* ours are not theirs */
	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 2);
	assert_int_equal(sums.n_ended, 2);
	assert_int_equal(sum_of(&sums, "getppid")->count, 7000);
	assert_int_equal(sum_of(&sums, "getppid")->errors, 0);
	assert_true(sum_of(&sums, "getppid")->cpu_ns > 7000);
	assert_int_equal(sum_of(&sums, "close")->errors, 100);
	assert_int_equal(sum_of(&sums, "exit_group")->count, 2); /* which never returns */

	/* Asleep is not busy. */
	assert_int_equal(sum_of(&sums, "clock_nanosleep")->count, 1);
	assert_true(sum_of(&sums, "clock_nanosleep")->wait_ns >= 60 * MS);
	assert_true(sum_of(&sums, "clock_nanosleep")->cpu_ns < 50 * MS);

	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 0); /* those that have ended were told */
	syscalls_untrack(s, TAG);
	assert_false(syscalls_is_armed(s));
	close(go_fd);
	assert_null(syscalls_close(s));
}

static void test_a_tree_is_counted_exactly(void **state)
{
	(void)state;
	count_a_tree(&(struct syscalls_options){ 0 });
}

static void test_a_tree_is_counted_as_on_old_kernels(void **state)
{
	(void)state;
	count_a_tree(&(struct syscalls_options){ .is_as_old = true });
}

#define N_MADE_UP 20000

static void be_inventor(int go_fd)
{
	char byte;

	(void)!read(go_fd, &byte, 1);
	for (long i = 0; i < N_MADE_UP; i++)
		syscall(1024 + i);
	syscall(-1);
	syscall(0x40000000 + SYS_getppid); /* of another ABI, or of none */
	syscall(1000);
	syscall(SYS_exit_group, 0);
}

/* Or a job fills the maps, and keeps its daemon busy, with calls that there are not. */
static void test_made_up_numbers_are_one(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	int go[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0)
		be_inventor(go[0]);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sum_of(&sums, "syscall_other")->count, N_MADE_UP + 2);
	assert_int_equal(sum_of(&sums, "syscall_1000")->count, 1);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

static void *wait_for_go(void *arg)
{
	char byte;

	(void)!read(*(int *)arg, &byte, 1);
	return call_in_a_thread(NULL);
}

/* A process that had a thread and a child before anybody looked. */
static void test_what_was_there_before_is_counted_too(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	int go[2], ready[2];
	pthread_t thread;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		pid_t child = fork();

		if (child == 0) {
			wait_for_go(&go[0]);
			_exit(0);
		}
		pthread_create(&thread, NULL, wait_for_go, &go[0]);
		(void)!write(ready[1], "", 1);
		pthread_join(thread, NULL);
		waitpid(child, NULL, 0);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "12", 2), 2);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 2);
	assert_int_equal(sum_of(&sums, "getppid")->count, 2000);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
	assert_null(syscalls_close(s));
}

/* How often each of two trees has called getppid. */
static void add_to_tree(void *ctx, const struct syscall_process *p)
{
	uint64_t *counts = ctx;

	assert_true(p->tag == TAG || p->tag == TAG + 1);
	assert_true(p->pid > 0); /* there was room to tell it apart */
	for (size_t i = 0; i < p->n_uses; i++)
		if (strcmp(p->uses[i].name, "getppid") == 0)
			counts[p->tag - TAG] += p->uses[i].count;
}

/* Starts a child that waits, and then calls like its parent. */
static void be_outer(int go_fd, int told_fd)
{
	pid_t inner = fork(), child;

	if (inner == 0) {
		child = fork();
		if (child != 0)
			(void)!write(told_fd, &(pid_t){ getpid() }, sizeof(pid_t));
		wait_for_go(&go_fd);
		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
		_exit(0);
	}
	wait_for_go(&go_fd);
	waitpid(inner, NULL, 0);
	_exit(0);
}

static void track_both(struct syscalls *s, pid_t outer, pid_t inner, bool is_at_once)
{
	if (is_at_once)
		syscalls_begin_many(s);
	assert_int_equal(syscalls_track(s, outer, TAG), 0);
	assert_int_equal(syscalls_track(s, inner, TAG + 1), 0);
	if (is_at_once)
		assert_int_equal(syscalls_end_many(s), 0);
}

static void count_two_trees(bool is_at_once)
{
	struct syscalls *s = open_syscalls(1, 0);
	uint64_t counts[2] = { 0 };
	int go[2], told[2];
	pid_t pid, inner;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0)
		be_outer(go[0], told[1]);
	assert_int_equal(read(told[0], &inner, sizeof(inner)), sizeof(inner));
	track_both(s, pid, inner, is_at_once);
	assert_int_equal(write(go[1], "123", 3), 3);
	waitpid(pid, NULL, 0);
	take_in(s);
	syscalls_each(s, add_to_tree, counts);
	assert_int_equal(counts[0], 1000);
	assert_int_equal(counts[1], 2000);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(told[i]);
	}
	assert_null(syscalls_close(s));
}

static void test_a_tree_inside_another_has_its_own(void **state)
{
	(void)state;
	count_two_trees(false);
}

/* Who was there before is marked in one go: each for its own tree. */
static void test_many_trees_at_once(void **state)
{
	(void)state;
	count_two_trees(true);
}

static void be_patient(int go_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		wait_for_go(&go_fd);
}

/* Room for the calls of a few processes, one after the other, which all live on. */
static void test_a_tree_leaves_nothing_behind(void **state)
{
	struct syscalls *s = open_syscalls(1, 16);
	pid_t pids[20];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		uint64_t counts[2] = { 0 };
		int go[2];

		assert_int_equal(pipe(go), 0);
		pids[i] = fork();
		if (pids[i] == 0)
			be_patient(go[0]);
		assert_int_equal(syscalls_track(s, pids[i], TAG), 0);
		assert_int_equal(write(go[1], "", 1), 1);
		while (counts[0] < 1000) {
			counts[0] = 0;
			take_in(s);
			syscalls_each(s, add_to_tree, counts);
		}
		assert_int_equal(counts[0], 1000); /* and none of those before */
		syscalls_untrack(s, TAG);
		assert_int_equal(write(go[1], "", 1), 1);
		close(go[0]);
		close(go[1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	assert_null(syscalls_close(s));
}

#ifdef __x86_64__
#define COMPAT_GETPPID 64 /* which is semget in the table of 64 bits */

static void be_compat(int go_fd)
{
	char byte;

	(void)!read(go_fd, &byte, 1);
	for (int i = 0; i < 100; i++) {
		long result;

		__asm__ volatile("int $0x80" : "=a"(result) : "a"(COMPAT_GETPPID) : "memory");
		if (result <= 0)
			_exit(1);
		syscall(SYS_getppid);
	}
	_exit(0);
}

static void test_calls_of_32_bits(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	int go[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0)
		be_compat(go[0]);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, &status, 0);
	read_sums(s, &sums);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
	if (status != 0)
		skip(); /* this kernel has none */
	assert_int_equal(sum_of(&sums, "compat_64")->count, 100);
	assert_int_equal(sum_of(&sums, "semget")->count, 0);
	assert_int_equal(sum_of(&sums, "getppid")->count, 100);
}
#endif

static void *exec_in_a_thread(void *arg)
{
	char byte;

	nanosleep(&(struct timespec){ 0, 100 * (long)MS }, NULL); /* the first thread has ended */
	(void)!read(*(int *)arg, &byte, 1);
	execl("/bin/true", "true", (char *)NULL);
	return NULL;
}

/* The thread gets the number of the first one, in the middle of the call. */
static void test_exec_by_another_thread(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	int go[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		pthread_t thread;

		pthread_create(&thread, NULL, exec_in_a_thread, &go[0]);
		syscall(SYS_exit, 0);
	}
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 1);
	assert_int_equal(sum_of(&sums, "execve")->count, 1);
	assert_int_equal(sum_of(&sums, "execve")->errors, 0);
	assert_int_equal(sum_of(&sums, "exit_group")->count, 1);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

/* Reads without ever having to wait, on a CPU that it shares. */
static void be_rival(int go_fd)
{
	static char bytes[1 << 20];
	uint64_t until_ns;
	cpu_set_t first;
	struct pollfd go = { .fd = go_fd, .events = POLLIN };
	int fd = open("/dev/zero", O_RDONLY);

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	(void)sched_setaffinity(0, sizeof(first), &first);
	(void)poll(&go, 1, -1); /* the wait for it is no read, whether it is counted or not */
	until_ns = clock_cpu_ns() + 200 * MS;
	while (clock_cpu_ns() < until_ns)
		(void)!read(fd, bytes, sizeof(bytes));
	_exit(0);
}

static void test_to_be_ready_is_not_to_wait(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	pid_t pids[3];
	int go[2];

	(void)state;
	assert_int_equal(pipe(go), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			be_rival(go[0]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		assert_int_equal(syscalls_track(s, pids[i], TAG), 0);
	assert_int_equal(write(go[1], "123", 3), 3);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		waitpid(pids[i], NULL, 0);
	read_sums(s, &sums);
	assert_true(sum_of(&sums, "read")->wait_ns < sum_of(&sums, "read")->cpu_ns / 4);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

/* A process that sleeps, waits at a pipe, and has a thread that waits for it. */
static void *wait_in_a_thread(void *arg)
{
	pthread_mutex_lock(arg);
	return NULL;
}

static void be_waiter(int go_fd, int pipe_fd)
{
	const struct timespec pause = { .tv_nsec = 60 * MS };
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	char byte;

	(void)!read(go_fd, &byte, 1);
	pthread_mutex_lock(&mutex);
	if (pthread_create(&thread, NULL, wait_in_a_thread, &mutex) != 0)
		_exit(1);
	nanosleep(&pause, NULL);
	(void)!write(pipe_fd, "", 1);
	(void)!read(go_fd, &byte, 1);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	_exit(0);
}

static void add_times(void *ctx, const struct syscall_process *p)
{
	time_ledger_add(ctx, &p->time);
}

static void test_where_the_time_went_is_known(void **state)
{
	const struct timespec pause = { .tv_nsec = 60 * MS };
	struct syscalls *s = open_syscalls(1, 0);
	struct time_ledger time = { 0 };
	uint64_t began_ns, waits_ns;
	int go[2], slept[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(slept), 0);
	pid = fork();
	if (pid == 0)
		be_waiter(go[0], slept[1]);
	began_ns = clock_boot_ns();
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(read(slept[0], &byte, 1), 1);
	nanosleep(&pause, NULL);
	take_in(s);
	syscalls_each(s, add_times, &time); /* in the wait that is not over */
	assert_true(time.ns[TIME_PIPE] + time.ns[TIME_CPU_WAIT] >= 50 * MS);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	time = (struct time_ledger){ 0 };
	take_in(s);
	syscalls_each(s, add_times, &time);
	assert_int_equal(time.evidence, EVIDENCE_EXACT);
	waits_ns = time.ns[TIME_CPU_WAIT];
	assert_true(time.ns[TIME_TIMER] + waits_ns >= 60 * MS);
	assert_true(time.ns[TIME_FUTEX] + waits_ns >= 110 * MS);
	assert_int_equal(time.ns[TIME_UNKNOWN], 0);
	assert_true(time_ledger_total(&time) <= 2 * (clock_boot_ns() - began_ns));
	assert_true(time_ledger_total(&time) >= 230 * MS); /* two threads */
	for (size_t i = 0; i < 2; i++) {
		close(go[i]);
		close(slept[i]);
	}
	assert_null(syscalls_close(s));
}

static void test_counts_stay_exact_when_times_are_sampled(void **state)
{
	struct syscalls *s = open_syscalls(16, 0);
	static struct sums sums;
	pid_t pid;
	int go_fd;

	(void)state;
	pid = start_subject(&go_fd);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go_fd, "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sum_of(&sums, "getppid")->count, 7000);
	assert_true(u64_known(sum_of(&sums, "getppid")->cpu_ns));
	assert_true(sum_of(&sums, "getppid")->cpu_ns > 7000);
	close(go_fd);
	assert_null(syscalls_close(s));
}

#define N_SHORT 300

static void be_shell(int go_fd)
{
	char byte;

	(void)!read(go_fd, &byte, 1);
	execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done",
	      (char *)NULL);
	_exit(127);
}

/* Every one of many short processes, wherever each ran and whoever had the CPU before. */
static void test_short_processes_are_counted(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	int go[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0)
		be_shell(go[0]);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sums.n_trees, 0);
	assert_int_equal(sums.n_processes, N_SHORT + 1);
	assert_int_equal(sums.n_ended, N_SHORT + 1);
	assert_int_equal(sum_of(&sums, "execve")->count, N_SHORT + 1);
	assert_int_equal(sum_of(&sums, "exit_group")->count, N_SHORT + 1);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

static void fork_and_call(int n)
{
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (int k = 0; k < 10; k++)
				syscall(SYS_getppid);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

/* As if it had logged in. */
static void become_user(void)
{
	if (setresgid(USER, USER, USER) < 0 || setresuid(USER, USER, USER) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1) < 0)
		_exit(1);
}

/* The same, whoever is not told of: the queue has room for some of them only. */
static void test_calls_of_untold_processes_are_counted(void **state)
{
	struct syscalls *s = open_with(&(struct syscalls_options){ .news_bytes = 4096 });
	static struct sums sums;
	uint64_t n_calls;
	int go[2];
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		become_user();
		fork_and_call(N_SHORT);
		_exit(0);
	}
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	n_calls = sum_of(&sums, "getppid")->count;
	assert_int_equal(n_calls, 10 * N_SHORT);
	assert_int_equal(sums.n_processes, N_SHORT + 1);
	assert_int_equal(sums.n_trees, 0);
	assert_true(sums.n_ended < N_SHORT); /* or nothing was lost */
	assert_int_equal(sums.n_users, N_SHORT);
	read_sums(s, &sums);
	assert_int_equal(sums.n_ended, sums.n_processes); /* it was found out */
	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 0);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

/* As a runner does: what a child calls before it is the command is the runner's. */
/* Makes a program that does nothing, and returns its path. */
static const char *make_program(mode_t mode)
{
	static const char path[] = "/tmp/test_sources_syscalls.true";

	unlink(path);
	assert_int_equal(system("cp -L /bin/true /tmp/test_sources_syscalls.true"), 0);
	assert_int_equal(chown(path, 0, USER + 1), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static void be_user_with(const char *path)
{
	become_user();
	syscall(SYS_getppid);
	if (fork() == 0) {
		for (int i = 0; i < 3; i++)
			(void)execl("/nowhere", "nowhere", NULL);
		execl(path, path, NULL);
		_exit(1);
	}
	wait(NULL);
	_exit(0);
}

/* Of the two processes, how many are told to be the user's alone. */
static int run_with(const struct syscalls_options *options, mode_t mode)
{
	struct syscalls *s = open_with(options);
	const char *path = make_program(mode);
	static struct sums sums;
	int go[2], n;
	pid_t pid;
	char byte;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		if (fork() == 0)
			be_user_with(path);
		wait(NULL);
		_exit(0);
	}
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	n = sums.n_users;
	assert_int_equal(sums.n_processes, 3);
	assert_int_equal(sum_of(&sums, "execve")->count, 4);
	close(go[0]);
	close(go[1]);
	unlink(path);
	assert_null(syscalls_close(s));
	return n;
}

/* The first of them was root's when it was born. */
static void test_a_program_with_more_rights_is_not_its_users(void **state)
{
	const struct syscalls_options old = { .is_as_old = true };

	(void)state;
	assert_int_equal(run_with(NULL, 0755), 1);
	assert_int_equal(run_with(NULL, 04755), 0);
	assert_int_equal(run_with(NULL, 02755), 0);
	assert_int_equal(run_with(NULL, 0711), 0); /* it may not be read */
	assert_int_equal(run_with(&old, 0755), 1);
	assert_int_equal(run_with(&old, 02755), 0);
}

static void start_commands(int n)
{
	for (int i = 0; i < n; i++) {
		if (fork() == 0) {
			for (int k = 0; k < 10; k++)
				syscall(SYS_getppid);
			execl("/bin/sh", "sh", "-c", "exit 0", NULL);
			_exit(127);
		}
		wait(NULL);
	}
}

static void test_a_runner_is_not_counted(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	static struct sums sums;
	int go[2];
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		for (int i = 0; i < 1000; i++)
			syscall(SYS_getppid);
		start_commands(3);
		_exit(0);
	}
	assert_int_equal(syscalls_track_runner(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 3);
	assert_int_equal(sum_of(&sums, "execve")->count, 3);
	assert_int_equal(sum_of(&sums, "execve")->errors, 0);
	assert_int_equal(sum_of(&sums, "exit_group")->count, 3);
	assert_int_equal(sum_of(&sums, "wait4")->count, 0);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

#define N_KINDS 150

/* What it has called since it last slept is added up when it sleeps. */
static void be_varied(int go_fd)
{
	char byte;

	(void)!read(go_fd, &byte, 1);
	for (int i = 0; i < N_KINDS; i++) {
		syscall(800 + i); /* which there is not */
		if (i % 15 == 14)
			nanosleep(&(struct timespec){ 0, 1 }, NULL);
	}
	_exit(0);
}

/* The first to be counted after loading, all at once: the kernel has no memory at hand then. */
static void test_a_first_burst_is_told_apart(void **state)
{
	for (int round = 0; round < 5; round++) {
		struct syscalls *s = open_syscalls(1, 0);
		static struct sums sums;
		int go[2];
		pid_t pid;

		(void)state;
		assert_int_equal(pipe(go), 0);
		pid = fork();
		if (pid == 0)
			be_varied(go[0]);
		assert_int_equal(syscalls_track(s, pid, TAG), 0);
		assert_int_equal(write(go[1], "", 1), 1);
		waitpid(pid, NULL, 0);
		take_in(s);
		syscalls_each(s, count_trees, &sums);
		assert_int_equal(sums.n_trees, 0);
		assert_int_equal(sums.n_processes, 1);
		close(go[0]);
		close(go[1]);
		assert_null(syscalls_close(s));
		memset(&sums, 0, sizeof(sums));
	}
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* A handler that is left has not failed, whatever the call has that it interrupted. */
static void test_the_way_out_of_a_handler_is_no_error(void **state)
{
	struct syscalls *s = open_syscalls(1, 0);
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	static struct sums sums;
	int go[2];
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &byte, 1);
		signal(SIGALRM, do_nothing);
		setitimer(ITIMER_REAL, &often, NULL);
		for (int i = 0; i < 50; i++)
			syscall(SYS_rt_sigsuspend, &(uint64_t){ 0 }, sizeof(uint64_t));
		setitimer(ITIMER_REAL, &never, NULL);
		_exit(0);
	}
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go[1], "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_true(sum_of(&sums, "rt_sigreturn")->count >= 50);
	assert_int_equal(sum_of(&sums, "rt_sigreturn")->errors, 0);
	assert_int_equal(sum_of(&sums, "rt_sigsuspend")->errors, 50);
	close(go[0]);
	close(go[1]);
	assert_null(syscalls_close(s));
}

static void note_sleeps(void *ctx, const struct syscall_process *p)
{
	for (size_t i = 0; i < p->n_uses; i++)
		if (strcmp(p->uses[i].name, "clock_nanosleep") == 0)
			*(struct syscall_use *)ctx = p->uses[i];
}

/* Of 20 about one was timed: how long all have waited nobody can say. */
static void test_waits_of_few_are_unknown(void **state)
{
	for (unsigned every = 1; every <= 16; every += 15) {
		struct syscalls *s = open_syscalls(every, 0);
		struct syscall_use sleeps = { 0 };
		int go[2];
		pid_t pid;
		char byte;

		(void)state;
		assert_int_equal(pipe(go), 0);
		pid = fork();
		if (pid == 0) {
			(void)!read(go[0], &byte, 1);
			for (int i = 0; i < 20; i++)
				clock_nanosleep(CLOCK_MONOTONIC, 0,
						&(struct timespec){ 0, 1000000 }, NULL);
			_exit(0);
		}
		assert_int_equal(syscalls_track(s, pid, TAG), 0);
		assert_int_equal(write(go[1], "", 1), 1);
		waitpid(pid, NULL, 0);
		take_in(s);
		syscalls_each(s, note_sleeps, &sleeps);
		assert_int_equal(sleeps.count, 20);
		assert_int_equal(u64_known(sleeps.wait_ns), every == 1);
		close(go[0]);
		close(go[1]);
		assert_null(syscalls_close(s));
	}
}

/* One entry for all: what belongs to whom is lost, how often is not. */
static void test_without_room_trees_are_counted(void **state)
{
	struct syscalls *s = open_syscalls(1, 1);
	static struct sums sums;
	pid_t pid;
	int go_fd;

	(void)state;
	pid = start_subject(&go_fd);
	assert_int_equal(syscalls_track(s, pid, TAG), 0);
	assert_int_equal(write(go_fd, "", 1), 1);
	waitpid(pid, NULL, 0);
	read_sums(s, &sums);
	assert_int_equal(sums.n_processes, 3);
	assert_int_equal(sums.n_ended, 2);
	assert_int_equal(sum_of(&sums, "getppid")->count, 7000);
	assert_int_equal(sum_of(&sums, "exit_group")->count, 2);
	close(go_fd);
	assert_null(syscalls_close(s));
}

static void write_calls(struct buf *out, const struct syscall_use *uses, size_t n)
{
	struct json j;

	buf_reset(out);
	json_init(&j, out);
	json_begin_array(&j);
	syscall_uses_write_counts(&j, uses, n);
	syscall_uses_write_times(&j, uses, n);
	json_end_array(&j);
}

static void test_json(void **state)
{
	const struct syscall_use uses[] = { { "read", 3, 0, 750, 10 },
					    { "write", 1, 0, 250, 0 },
					    { "poll", 9, 0, U64_UNKNOWN, U64_UNKNOWN } };
	const struct syscall_use thirds[] = { { "read", 1, 0, 1, 0 }, { "write", 1, 0, 2, 0 } };
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	(void)state;
	write_calls(&out, uses, ARRAY_SIZE(uses));
	assert_string_equal(out.data, "[{\"read\":3,\"write\":1,\"poll\":9},"
				      "{\"read\":75.0,\"write\":25.0}]");
	write_calls(&out, thirds, ARRAY_SIZE(thirds));
	assert_string_equal(out.data, "[{\"read\":1,\"write\":1},"
				      "{\"read\":33.333333,\"write\":66.666667}]");
	write_calls(&out, NULL, 0);
	assert_string_equal(out.data, "[null,null]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_table_adds_up_and_forgets),
		cmocka_unit_test(test_whose_it_is_needs_no_news),
		cmocka_unit_test(test_lost_ends_are_made_up_for),
		cmocka_unit_test(test_lost_beginnings_are_no_loss),
		cmocka_unit_test(test_an_entry_that_was_made_anew_adds),
		cmocka_unit_test(test_samples_get_what_is_new),
		cmocka_unit_test(test_sampled_times_are_scaled),
		cmocka_unit_test(test_a_tree_is_counted_exactly),
		cmocka_unit_test(test_a_tree_is_counted_as_on_old_kernels),
		cmocka_unit_test(test_made_up_numbers_are_one),
		cmocka_unit_test(test_what_was_there_before_is_counted_too),
		cmocka_unit_test(test_a_tree_inside_another_has_its_own),
		cmocka_unit_test(test_many_trees_at_once),
		cmocka_unit_test(test_a_tree_leaves_nothing_behind),
#ifdef __x86_64__
		cmocka_unit_test(test_calls_of_32_bits),
#endif
		cmocka_unit_test(test_exec_by_another_thread),
		cmocka_unit_test(test_to_be_ready_is_not_to_wait),
		cmocka_unit_test(test_where_the_time_went_is_known),
		cmocka_unit_test(test_counts_stay_exact_when_times_are_sampled),
		cmocka_unit_test(test_short_processes_are_counted),
		cmocka_unit_test(test_calls_of_untold_processes_are_counted),
		cmocka_unit_test(test_a_program_with_more_rights_is_not_its_users),
		cmocka_unit_test(test_a_runner_is_not_counted),
		cmocka_unit_test(test_a_first_burst_is_told_apart),
		cmocka_unit_test(test_the_way_out_of_a_handler_is_no_error),
		cmocka_unit_test(test_waits_of_few_are_unknown),
		cmocka_unit_test(test_without_room_trees_are_counted),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
