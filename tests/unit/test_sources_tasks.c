#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/ebpf.h"
#include "sources/process_cache.h"
#include "sources/sources.h"
#include "sources/tasks.h"

#define N_CHILDREN 500

/* ---- without a kernel ---- */

static void test_state_letters(void **state)
{
	(void)state;
	assert_int_equal(task_state_letter(0), 'R');
	assert_int_equal(task_state_letter(1), 'S');
	assert_int_equal(task_state_letter(2), 'D');
	assert_int_equal(task_state_letter(0x102), 'D');  /* killable */
	assert_int_equal(task_state_letter(0x2001), 'S'); /* freezable */
	assert_int_equal(task_state_letter(4), 'T');
	assert_int_equal(task_state_letter(8), 't');
	assert_int_equal(task_state_letter(0x10), 'X');
	assert_int_equal(task_state_letter(0xa0), 'Z'); /* dead, and a zombie still */
	assert_int_equal(task_state_letter(0x40), 'P');
	assert_int_equal(task_state_letter(0x402), 'I');
	assert_int_equal(task_state_letter(0x8000), 'D');
}

static void test_cpu_is_split_by_ticks_and_never_shrinks(void **state)
{
	struct cpu_split split = { 0 };

	(void)state;
	task_split_cpu(&(struct task_counts){ .run_ns = 999 }, &split);
	assert_int_equal(split.user_ns, 999);
	assert_int_equal(split.system_ns, 0);
	task_split_cpu(&(struct task_counts){ .run_ns = 3000, .user_ns = 10, .system_ns = 20 },
		       &split);
	assert_int_equal(split.user_ns, 1000);
	assert_int_equal(split.system_ns, 2000);
	/* By the ticks the kernel's part would be 1500 now, and it was told as 2000. */
	task_split_cpu(&(struct task_counts){ .run_ns = 3500, .user_ns = 40, .system_ns = 20 },
		       &split);
	assert_int_equal(split.system_ns, 2000);
	assert_int_equal(split.user_ns, 1500);
	task_split_cpu(&(struct task_counts){ .run_ns = 100 }, &split);
	assert_int_equal(split.user_ns + split.system_ns, 3500);
	task_split_cpu(&(struct task_counts){ .run_ns = UINT64_C(1) << 60,
					      .user_ns = UINT64_C(1) << 60,
					      .system_ns = UINT64_C(1) << 60 },
		       &split);
	assert_int_equal(split.user_ns, UINT64_C(1) << 59);
}

static void test_what_cannot_be_counted_is_unknown(void **state)
{
	struct task_process t = { .threads = 1, .open_fds = TASK_NO_COUNT };
	struct proc_sample p;

	(void)state;
	proc_sample_init(&p);
	task_fill_sample(&t, 4096, &p);
	assert_false(u64_known(p.open_fds));
	assert_int_equal(p.rss_bytes, 0);
	assert_false(u64_known(p.hwm_bytes));

	/* The first thread is gone, the process is not: what it holds is not 0. */
	t.threads = 2;
	t.head.state = 0x20;
	proc_sample_init(&p);
	task_fill_sample(&t, 4096, &p);
	assert_int_equal(p.state, 'Z');
	assert_false(u64_known(p.rss_bytes));
}

static void test_waits_are_unknown_when_a_thread_took_some_along(void **state)
{
	struct task_process t = { .threads = 3, .own = { .run_ns = 100, .wait_ns = 5000 } };
	const uint64_t ended[] = { 0, 0, 40, 40 };
	struct process_cache *k = process_cache_new(1234);

	(void)state;
	assert_non_null(k);
	for (size_t i = 0; i < ARRAY_SIZE(ended); i++) {
		struct proc_sample p;

		proc_sample_init(&p);
		t.ended_run_ns = ended[i];
		task_fill_sample(&t, 4096, &p);
		process_cache_take_task(k, &t, &p);
		assert_int_equal(u64_known(p.cpu_wait_ns), i != 2);
	}
	process_cache_free(k, &(struct reader){ 0 });
}

/* ---- with one ---- */

static void skip_without_ebpf(void)
{
	struct err err = ERR_INIT;

	if (ebpf_check(&err) < 0) {
		print_message("# %s\n", err.text);
		skip();
	}
}

static void *wait_forever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void burn_ms(uint64_t ms)
{
	uint64_t until_ns = clock_cpu_ns() + ms * 1000000;

	while (clock_cpu_ns() < until_ns)
		;
}

/* What it has done is its parent's from then on. */
static void wait_for_a_child(int null_fd)
{
	char bytes[4096] = "";
	pid_t pid = fork();

	if (pid == 0) {
		(void)!write(null_fd, bytes, sizeof(bytes));
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* Children that differ in all that is measured, and then do nothing any more. */
static void be_child(int i, int ready_fd)
{
	size_t n_bytes = (size_t)(i % 16) * 256 * 1024 + 1;
	int n_fds = i == 7 ? 3000 : i % 40, null_fd = open("/dev/null", O_RDWR);
	char *memory = malloc(n_bytes);
	pthread_t thread;

	memset(memory, i, n_bytes);
	for (int k = 0; k < n_fds; k++)
		(void)!dup(null_fd);
	(void)!write(null_fd, memory, n_bytes);
	if (i % 20 == 6)
		wait_for_a_child(null_fd);
	if (i % 10 == 3)
		for (int k = 0; k < 3; k++)
			pthread_create(&thread, NULL, wait_forever, NULL);
	if (i % 25 == 1)
		burn_ms(30);
	if (i % 50 == 2)
		signal(SIGCHLD, SIG_IGN);
	if (i % 100 == 4)
		(void)!setuid(65534);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user would have undone it */
	(void)!write(ready_fd, "", 1);
	if (i % 50 == 5)
		_exit(3); /* a zombie */
	wait_forever(NULL);
}

static void start_children(pid_t *pids)
{
	struct rlimit files = { 4096, 4096 };
	int ready[2];
	char byte;

	(void)setrlimit(RLIMIT_NOFILE, &files);
	assert_int_equal(pipe(ready), 0);
	for (int i = 0; i < N_CHILDREN; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			be_child(i, ready[1]);
	}
	for (int i = 0; i < N_CHILDREN; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
}

static void end_children(const pid_t *pids)
{
	for (int i = 0; i < N_CHILDREN; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < N_CHILDREN; i++)
		waitpid(pids[i], NULL, 0);
}

static struct collector *new_collector_with(const struct collector_options *options)
{
	struct collector *c = NULL;
	struct err err = ERR_INIT;

	if (collector_new(options, &c, &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

static struct collector *new_collector(int root_fd, bool want_ebpf)
{
	return new_collector_with(
		&(struct collector_options){ .root_fd = root_fd, .want_ebpf = want_ebpf });
}

static void take(struct collector *c, const pid_t *pids, struct snapshot *s)
{
	struct err err = ERR_INIT;

	if (collector_scan_some(c, pids, N_CHILDREN, s, &err) < 0)
		fail_msg("%s", err.text);
	collector_fill(c, s, SNAPSHOT_ALL);
}

/* What is compared, with how far apart the two may be. */
#define SAME(member)                                             \
	{                                                        \
#member, offsetof(struct proc_sample, member), 0 \
	}
#define NEAR(member, by)                                          \
	{                                                         \
#member, offsetof(struct proc_sample, member), by \
	}
#define TICKS (3 * UINT64_C(10000000))
static const struct {
	const char *name;
	size_t at;
	uint64_t tolerance;
} compared[] = {
	SAME(rss_bytes),
	SAME(vms_bytes),
	SAME(hwm_bytes),
	SAME(rss_anon_bytes),
	SAME(rss_file_bytes),
	SAME(rss_shmem_bytes),
	SAME(swap_bytes),
	SAME(page_table_bytes),
	SAME(rchar),
	SAME(wchar),
	SAME(syscr),
	SAME(syscw),
	SAME(read_bytes),
	SAME(write_bytes),
	SAME(minor_faults),
	SAME(major_faults),
	SAME(threads),
	SAME(open_fds),
	SAME(fd_limit),
	SAME(process_limit),
	SAME(uid),
	SAME(ns_pid),
	NEAR(cpu_ns, TICKS),
	NEAR(user_ns, TICKS),
	NEAR(system_ns, TICKS),
	NEAR(child_user_ns, TICKS),
	NEAR(child_system_ns, TICKS),
};

static uint64_t value_of(const struct proc_sample *p, size_t at)
{
	uint64_t v;

	memcpy(&v, (const char *)p + at, sizeof(v));
	return v;
}

static void compare_values(const struct proc_sample *a, const struct proc_sample *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(compared); i++) {
		uint64_t x = value_of(a, compared[i].at), y = value_of(b, compared[i].at);

		if (x > y ? x - y > compared[i].tolerance : y - x > compared[i].tolerance)
			fail_msg("pid %d, state %c, %s: %llu by eBPF, %llu by /proc",
				 (int)a->key.pid, a->state, compared[i].name, (unsigned long long)x,
				 (unsigned long long)y);
	}
}

static void compare_samples(const struct proc_sample *a, const struct proc_sample *b)
{
	assert_int_equal(a->key.pid, b->key.pid);
	assert_int_equal(a->key.start_ticks, b->key.start_ticks);
	assert_int_equal(a->ppid, b->ppid);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->ignores_sigchld, b->ignores_sigchld);
	assert_string_equal(a->comm, b->comm);
	assert_string_equal(a->command, b->command);
	assert_true((a->cgroup == NULL) == (b->cgroup == NULL));
	if (a->cgroup)
		assert_string_equal(a->cgroup, b->cgroup);
	if (a->threads == 1) {
		assert_int_equal(a->voluntary_switches, b->voluntary_switches);
		assert_int_equal(a->involuntary_switches, b->involuntary_switches);
		if (u64_known(a->cpu_wait_ns) && u64_known(b->cpu_wait_ns))
			assert_int_equal(a->cpu_wait_ns, b->cpu_wait_ns);
	} else {
		assert_true(u64_known(a->voluntary_switches)); /* /proc does not know */
	}
	compare_values(a, b);
}

/* True if none of them has run between the two, nor was about to. */
static bool is_still(const struct snapshot *a, const struct snapshot *b)
{
	if (a->n_processes != N_CHILDREN || b->n_processes != N_CHILDREN)
		return false;
	for (size_t i = 0; i < a->n_processes; i++)
		if (a->processes[i].cpu_ns != b->processes[i].cpu_ns ||
		    a->processes[i].voluntary_switches != b->processes[i].voluntary_switches ||
		    !strchr("SZ", b->processes[i].state))
			return false;
	return true;
}

static void compare_500(bool is_as_old)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collector *by_ebpf, *by_proc;
	pid_t pids[N_CHILDREN];
	struct snapshot before, a, b;
	int n_compared = 0;

	skip_without_ebpf();
	snapshot_init(&before);
	snapshot_init(&a);
	snapshot_init(&b);
	start_children(pids);
	by_ebpf = new_collector_with(&(struct collector_options){
		.root_fd = root_fd, .want_ebpf = true, .is_as_old = is_as_old });
	by_proc = new_collector(root_fd, false);
	assert_string_equal(collector_rung(by_ebpf).rung, "eBPF task iterator");
	assert_string_equal(collector_rung(by_proc).rung, "/proc");
	/* What moves cannot be compared: between two looks that show the same, there is /proc's. */
	for (int tries = 0; tries < 300 && n_compared < 3; tries++) {
		take(by_ebpf, pids, &before);
		take(by_proc, pids, &b);
		take(by_ebpf, pids, &a);
		if (is_still(&before, &a)) {
			assert_int_equal(b.n_processes, N_CHILDREN);
			for (size_t i = 0; i < a.n_processes; i++)
				compare_samples(&a.processes[i], &b.processes[i]);
			n_compared++;
		}
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	}
	assert_int_equal(n_compared, 3);
	end_children(pids);
	collector_free(by_ebpf);
	collector_free(by_proc);
	snapshot_release(&before);
	snapshot_release(&a);
	snapshot_release(&b);
}

static void test_500_processes_are_as_in_proc(void **state)
{
	(void)state;
	compare_500(false);
}

/* One of them has more files open than an old kernel's program can count. */
static void test_500_processes_are_as_in_proc_on_old_kernels(void **state)
{
	(void)state;
	compare_500(true);
}

static const struct proc_sample *find(const struct snapshot *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].key.pid == pid)
			return &s->processes[i];
	return NULL;
}

static void *burn_forever(void *arg)
{
	(void)arg;
	for (;;)
		burn_ms(100);
	return NULL;
}

/* Others may have all of the machine for a while. */
static const struct proc_sample *await_burning(struct collector *c, struct snapshot *s, pid_t pid)
{
	const struct proc_sample *p = NULL;
	struct err err = ERR_INIT;

	for (int i = 0; i < 600; i++) {
		assert_int_equal(collector_scan(c, s, &err), 0);
		p = find(s, pid);
		if (p && p->threads == 2 && p->cpu_ns > 1000000 && p->cpu_percent > 0)
			break;
		nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
	}
	return p;
}

/* Two threads, neither of them the first, on at most two cores: /proc sees that in ticks only. */
static void test_cpu_of_threads_is_counted(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct proc_sample *p;
	struct collector *c;
	struct snapshot s;
	pthread_t thread;
	pid_t pid;

	(void)state;
	skip_without_ebpf();
	snapshot_init(&s);
	c = new_collector(root_fd, true);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, burn_forever, NULL);
		wait_forever(NULL);
	}
	p = await_burning(c, &s, pid);
	assert_non_null(p);
	assert_true(p->cpu_percent > 0 && p->cpu_percent < 250);
	assert_true(p->cpu_ns > 1000000);
	assert_int_equal(p->cpu_ns, p->user_ns + p->system_ns);
	assert_int_equal(p->threads, 2);
	assert_non_null(find(&s, getpid()));
	assert_true(s.system.process_count > 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	collector_free(c);
	snapshot_release(&s);
}

static void test_only_those_asked_for(void **state)
{
	pid_t own = getpid(), none = 4194303, odd[] = { -5, 0, 5000000, own };
	struct tasks *t = NULL;
	struct task_list list;
	struct err err = ERR_INIT;

	(void)state;
	skip_without_ebpf();
	assert_int_equal(tasks_open(false, &t, &err), 0);
	assert_int_equal(tasks_read(t, &own, 1, &list), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0]->head.pid, own);
	assert_int_equal(tasks_read(t, &none, 1, &list), 0);
	assert_int_equal(list.n, 0);
	assert_int_equal(tasks_read(t, odd, ARRAY_SIZE(odd), &list), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(tasks_read(t, NULL, 0, &list), 0);
	assert_true(list.n > 2);
	for (size_t i = 1; i < list.n; i++)
		assert_true(list.items[i - 1]->head.pid < list.items[i]->head.pid);
	assert_null(tasks_close(t));
}

static void scan_all(struct collector *c, struct snapshot *s)
{
	struct err err = ERR_INIT;

	if (collector_scan(c, s, &err) < 0)
		fail_msg("%s", err.text);
	collector_fill(c, s, SNAPSHOT_ALL);
}

/* The iterator of some kernels leaves out pid 1, which lives all the same. */
#define N_NAPS 50

static void *nap(void *arg)
{
	for (int i = 0; i < N_NAPS; i++)
		nanosleep(&(struct timespec){ 0, 100000 }, NULL);
	return arg;
}

static void *nap_and_stay(void *arg)
{
	nap(arg);
	if (write(*(int *)arg, "x", 1) == 1)
		for (;;)
			pause();
	return NULL;
}

/* One thread that has ended, and three that are there; ready has a byte then. */
static void be_four_threads(int ready)
{
	pthread_t threads[3];

	pthread_create(&threads[0], NULL, nap, NULL);
	pthread_join(threads[0], NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, nap_and_stay, &ready);
	nap_and_stay(&ready);
}

/* Of the threads that are there, from their own files. */
static uint64_t sum_of_threads(pid_t pid, const char *name)
{
	uint64_t sum = 0;
	char path[64], line[256];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((e = readdir(dir))) {
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int)pid, e->d_name);
		f = fopen(path, "re");
		assert_non_null(f);
		while (fgets(line, sizeof(line), f))
			if (strncmp(line, name, strlen(name)) == 0)
				sum += strtoull(line + strlen(name), NULL, 10);
		fclose(f);
	}
	closedir(dir);
	return sum;
}

/* By the iterator those of all threads, also of one that has ended; /proc has no such number. */
static void test_switches_of_threads_are_counted(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collector *by_ebpf, *by_proc;
	uint64_t voluntary, involuntary;
	struct snapshot a, b;
	struct err err = ERR_INIT;
	int ready[2];
	char bytes[3];
	pid_t pid;

	(void)state;
	skip_without_ebpf();
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_four_threads(ready[1]);
		_exit(1);
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		assert_int_equal(read(ready[0], &bytes[i], 1), 1);
	snapshot_init(&a);
	snapshot_init(&b);
	by_ebpf = new_collector(root_fd, true);
	by_proc = new_collector(root_fd, false);
	do { /* until none has run in between */
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
		voluntary = sum_of_threads(pid, "voluntary_ctxt_switches:");
		involuntary = sum_of_threads(pid, "nonvoluntary_ctxt_switches:");
		assert_int_equal(collector_scan_some(by_ebpf, &pid, 1, &a, &err), 0);
	} while (sum_of_threads(pid, "voluntary_ctxt_switches:") != voluntary);
	assert_int_equal(collector_scan_some(by_proc, &pid, 1, &b, &err), 0);
	collector_fill(by_ebpf, &a, SNAPSHOT_ALL);
	collector_fill(by_proc, &b, SNAPSHOT_ALL);
	assert_int_equal(a.processes[0].threads, 3);
	assert_true(voluntary >= 3 * N_NAPS);
	assert_true(a.processes[0].voluntary_switches >= voluntary + N_NAPS);
	assert_true(a.processes[0].voluntary_switches <= voluntary + N_NAPS + 20);
	assert_true(a.processes[0].involuntary_switches >= involuntary);
	assert_false(u64_known(b.processes[0].voluntary_switches));
	assert_false(u64_known(b.processes[0].involuntary_switches));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	collector_free(by_ebpf);
	collector_free(by_proc);
	snapshot_release(&a);
	snapshot_release(&b);
}

static void test_the_first_process_is_there(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collector *c;
	struct snapshot s;

	(void)state;
	skip_without_ebpf();
	snapshot_init(&s);
	c = new_collector(root_fd, true);
	for (int i = 0; i < 3; i++) {
		scan_all(c, &s);
		assert_non_null(find(&s, 1));
		assert_non_null(find(&s, 1)->command);
		assert_true(u64_known(find(&s, 1)->rss_bytes));
		assert_non_null(find(&s, getpid()));
		assert_int_equal(s.system.process_count, s.n_processes);
		for (size_t k = 1; k < s.n_processes; k++)
			assert_true(s.processes[k - 1].key.pid < s.processes[k].key.pid);
	}
	collector_free(c);
	snapshot_release(&s);
}

/* One that is gone is not kept by what /proc is asked besides. */
static void test_who_is_gone_is_gone(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collector *c;
	struct snapshot s;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		pause();
		_exit(0);
	}
	snapshot_init(&s);
	c = new_collector(root_fd, true);
	scan_all(c, &s);
	assert_non_null(find(&s, child));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	scan_all(c, &s);
	assert_null(find(&s, child));
	collector_free(c);
	snapshot_release(&s);
}

/* It passes, and the iterator is as good as before. */
static void test_a_want_of_files_does_not_end_it(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct rlimit old, low;
	struct collector *c;
	struct err err = ERR_INIT;
	struct snapshot s;

	(void)state;
	skip_without_ebpf();
	c = new_collector(root_fd, true);
	snapshot_init(&s);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(collector_scan(c, &s, &err), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(strlen(err.text) > 0);
	scan_all(c, &s);
	assert_non_null(find(&s, getpid()));
	assert_string_not_equal(collector_rung(c).rung, "/proc");
	collector_free(c);
	snapshot_release(&s);
}

/*
 * A collector that has its samples from another: the same values at the same moment, one that is
 * left out by /proc, one that has ended left out; and no rate from counters of both rungs.
 */
static void test_samples_of_another_collector(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct feed_sender sender = { 0 };
	struct collector *sending, *fed;
	const struct proc_sample *p, *q;
	struct err err = ERR_INIT;
	struct snapshot a, b;
	pthread_t thread;
	pid_t pids[3];

	(void)state;
	skip_without_ebpf();
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (i == 0)
				pthread_create(&thread, NULL, burn_forever, NULL);
			wait_forever(NULL);
		}
	}
	snapshot_init(&a);
	snapshot_init(&b);
	sending = new_collector(root_fd, true);
	fed = new_collector(root_fd, false);
	assert_false(collector_write_feed(fed, &sender, pids, 2, &bytes)); /* it has none */
	for (int i = 0; i < 4; i++) {
		if (i < 2) { /* by /proc, and then no more */
			assert_int_equal(collector_scan_some(fed, pids, 3, &b, &err), 0);
			collector_fill(fed, &b, SNAPSHOT_ALL);
			assert_int_equal(b.n_processes, 3);
		}
		p = await_burning(sending, &a, pids[0]);
		assert_non_null(p);
		buf_reset(&bytes);
		assert_true(collector_write_feed(sending, &sender, pids, 2, &bytes));
		assert_int_equal(collector_take_feed(fed, bytes.data, bytes.len), 0);
		if (i < 2)
			continue;
		if (i == 3) {
			kill(pids[1], SIGKILL);
			waitpid(pids[1], NULL, 0);
		}
		nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
		assert_int_equal(collector_scan_fed(fed,
						    i < 3 ? pids : (pid_t[]){ pids[0], pids[2] },
						    i < 3 ? 3 : 2, &b, &err),
				 0);
		collector_fill(fed, &b, SNAPSHOT_ALL);
		assert_int_equal(b.n_processes, i < 3 ? 3 : 2);
		assert_int_equal(b.boot_ns, collector_feed_boot_ns(fed));
		q = find(&b, pids[0]);
		assert_int_equal(q->boot_ns, p->boot_ns);
		assert_int_equal(q->threads, 2);
		assert_int_equal(q->rss_bytes, p->rss_bytes);
		assert_int_equal(q->cpu_ns, p->cpu_ns); /* later, and so no less than by /proc */
		assert_int_equal(f64_known(q->cpu_percent), i == 3);
		assert_true(i != 3 || (q->cpu_percent > 0 && q->cpu_percent < 250));
		assert_string_equal(q->command, find(&b, pids[2])->command);
		assert_true(u64_known(find(&b, pids[2])->rss_bytes));
		assert_true(find(&b, pids[2])->boot_ns > q->boot_ns);
	}
	kill(pids[0], SIGKILL);
	kill(pids[2], SIGKILL);
	waitpid(pids[0], NULL, 0);
	waitpid(pids[2], NULL, 0);
	feed_sender_release(&sender);
	collector_free(sending);
	collector_free(fed);
	snapshot_release(&a);
	snapshot_release(&b);
}

/* Whoever may not load programs gets /proc and a reason. */
static void test_without_rights_it_is_proc(void **state)
{
	CLEANUP(close_fd) int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int status = -1;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		struct collector_options options = { .root_fd = root_fd, .want_ebpf = true };
		struct collector *c = NULL;
		struct err err = ERR_INIT;
		struct rung rung;

		if (setuid(65534) < 0 || collector_new(&options, &c, &err) < 0)
			_exit(1);
		rung = collector_rung(c);
		_exit(strcmp(rung.rung, "/proc") == 0 && rung.reason[0] ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state_letters),
		cmocka_unit_test(test_cpu_is_split_by_ticks_and_never_shrinks),
		cmocka_unit_test(test_what_cannot_be_counted_is_unknown),
		cmocka_unit_test(test_waits_are_unknown_when_a_thread_took_some_along),
		cmocka_unit_test(test_only_those_asked_for),
		cmocka_unit_test(test_500_processes_are_as_in_proc),
		cmocka_unit_test(test_500_processes_are_as_in_proc_on_old_kernels),
		cmocka_unit_test(test_cpu_of_threads_is_counted),
		cmocka_unit_test(test_switches_of_threads_are_counted),
		cmocka_unit_test(test_the_first_process_is_there),
		cmocka_unit_test(test_who_is_gone_is_gone),
		cmocka_unit_test(test_a_want_of_files_does_not_end_it),
		cmocka_unit_test(test_samples_of_another_collector),
		cmocka_unit_test(test_without_rights_it_is_proc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
