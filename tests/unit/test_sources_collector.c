/*
 * The collector over a tree that the test rewrites between scans, with clocks
 * that it sets, and over the real /proc with processes of its own.
 */
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
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "sources/sources.h"

#define SECOND UINT64_C(1000000000)
#define SOMEBODY 65534 /* without rights */

/* ---- a tree of our own ---- */

static uint64_t fake_boot_ns, fake_wall_ns;

static uint64_t get_boot_ns(void)
{
	return fake_boot_ns;
}

static uint64_t get_wall_ns(void)
{
	return fake_wall_ns;
}

struct tree {
	char path[64];
	int root_fd;
	struct collector *collector;
	struct snapshot snap;
};

static void write_file(struct tree *t, pid_t pid, const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "proc/%d", pid);
	mkdirat(t->root_fd, path, 0755);
	snprintf(path, sizeof(path), "proc/%d/%s", pid, name);
	fd = openat(t->root_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

struct fake {
	pid_t pid;
	const char *comm;
	unsigned user_ticks, threads, start_ticks;
};

static void write_stat(struct tree *t, struct fake f)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 %u 0 0 0 20 0 %u 0 %u 0 0 0 0 0 0 0 0\n", f.pid,
		 f.comm, f.user_ticks, f.threads, f.start_ticks);
	write_file(t, f.pid, "stat", text);
}

static void remove_process(struct tree *t, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	assert_int_equal(unlinkat(t->root_fd, path, 0), 0);
}

static int setup_tree(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct collector_options options = {
		.clock_ticks = 100,
		.page_bytes = 4096,
		.now_boot_ns = get_boot_ns,
		.now_wall_ns = get_wall_ns,
	};

	strcpy(t->path, "/tmp/proctor-test-XXXXXX");
	assert_non_null(mkdtemp(t->path));
	t->root_fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(t->root_fd, "proc", 0755), 0);
	options.root_fd = t->root_fd;
	assert_int_equal(collector_new(&options, &t->collector, NULL), 0);
	snapshot_init(&t->snap);
	fake_boot_ns = 1000 * SECOND;
	fake_wall_ns = 1700000000 * SECOND;
	*state = t;
	return 0;
}

static int teardown_tree(void **state)
{
	struct tree *t = *state;
	char command[128];

	snapshot_release(&t->snap);
	collector_free(t->collector);
	close(t->root_fd);
	snprintf(command, sizeof(command), "rm -rf %s", t->path);
	assert_int_equal(system(command), 0);
	free(t);
	return 0;
}

static void scan(struct tree *t)
{
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	collector_fill(t->collector, &t->snap, SNAPSHOT_ALL);
}

static const struct proc_sample *find(const struct snapshot *s, pid_t pid)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (s->processes[i].key.pid == pid)
			return &s->processes[i];
	return NULL;
}

static void test_cpu_percent_is_time_over_time(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 500, 1, 100 });
	scan(t);
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent)); /* first sight of an old process */

	fake_boot_ns += 2 * SECOND;
	write_stat(t, (struct fake){ 7, "a", 600, 1, 100 });
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 50.0); /* 1 s in 2 s */

	fake_boot_ns += SECOND / 2;
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.0);
	scan(t); /* no time has passed: no rate */
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent));

	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 590, 1, 100 }); /* went backwards */
	scan(t);
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent));
}

/* 10 ms in 3 s are 0.333… %; stores and readers get 0.33, and the same number from its text. */
static void test_cpu_percent_is_rounded(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 500, 1, 100 });
	scan(t);
	fake_boot_ns += 3 * SECOND;
	write_stat(t, (struct fake){ 7, "a", 501, 1, 100 });
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.33);
	fake_boot_ns += 3 * SECOND;
	write_stat(t, (struct fake){ 7, "a", 503, 1, 100 });
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.67);
}

static void test_cpu_percent_of_the_newborn(void **state)
{
	struct tree *t = *state;
	unsigned scan_ticks = 1000 * 100; /* when the first scan begins */

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	scan(t);
	fake_boot_ns += 2 * SECOND;
	/* Born one second after the first scan; in the tick of it; and long before. */
	write_stat(t, (struct fake){ 8, "b", 30, 1, scan_ticks + 100 });
	write_stat(t, (struct fake){ 9, "c", 20, 1, scan_ticks });
	write_stat(t, (struct fake){ 10, "d", 20, 1, scan_ticks - 1 });
	scan(t);
	assert_true(find(&t->snap, 8)->cpu_percent == 15.0); /* 0.3 s in 2 s */
	assert_true(find(&t->snap, 9)->cpu_percent == 10.0);
	assert_false(f64_known(find(&t->snap, 10)->cpu_percent));
}

/* The scheduler counts nanoseconds where stat has ticks of 10 ms. */
static void test_cpu_time_by_the_scheduler(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 1, 100 });
	write_file(t, 7, "schedstat", "512000000 0 3\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 512000000);
	assert_int_equal(find(&t->snap, 7)->user_ns, 500000000);
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent));

	fake_boot_ns += SECOND;
	write_file(t, 7, "schedstat", "516000000 0 4\n"); /* 4 ms, and not one tick */
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 516000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.4);

	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 52, 1, 100 });
	write_file(t, 7, "schedstat", "521000000 0 5\n"); /* two ticks, and 5 ms */
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.5);
}

/* Its start is all the way back to 0: a whole life shorter than a tick is not nothing. */
static void test_cpu_time_of_the_newborn_by_the_scheduler(void **state)
{
	struct tree *t = *state;

	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 0, 1, 1000 * 100 + 50 });
	write_file(t, 7, "schedstat", "3000000 0 1\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 3000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.3);
}

/* Another thread's work is in the ticks alone: then those are compared with those before. */
static void test_cpu_time_changes_its_source_without_a_jump(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 1, 100 });
	write_file(t, 7, "schedstat", "519000000 0 3\n");
	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 80, 2, 100 });
	write_file(t, 7, "schedstat", "520000000 0 4\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 800000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 30.0);

	fake_boot_ns += SECOND;
	write_file(t, 7, "schedstat", "900000000 0 5\n"); /* the first catches up: no ns before */
	write_stat(t, (struct fake){ 7, "a", 90, 2, 100 });
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 900000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 10.0);
}

/* exec in another thread puts that in the place of the first, with less behind it. */
static void test_cpu_time_never_goes_backwards(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 2, 100 });
	write_file(t, 7, "schedstat", "519000000 0 3\n");
	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "b", 51, 1, 100 });
	write_file(t, 7, "schedstat", "4000000 0 1\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 519000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 1.0);

	fake_boot_ns += SECOND;
	unlinkat(t->root_fd, "proc/7/schedstat", 0);
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0); /* not filled */
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 519000000);
}

/* A percentage is of the time since the snapshot before, filled or not. */
static void test_cpu_time_after_a_snapshot_without_filling(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 1, 100 });
	write_file(t, 7, "schedstat", "500000000 0 3\n");
	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 150, 1, 100 });
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	fake_boot_ns += SECOND;
	write_file(t, 7, "schedstat", "1500000000 0 4\n");
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.0); /* and not 50 */
}

static void test_start_and_age(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 99000 });
	scan(t);
	assert_true(find(&t->snap, 7)->age_seconds == 10.0);
	assert_true(find(&t->snap, 7)->start_wall_ns == 1699999990 * SECOND);

	/* The wall clock is set: the process did not start at another time. */
	fake_boot_ns += SECOND;
	fake_wall_ns += 3600 * SECOND;
	scan(t);
	assert_true(find(&t->snap, 7)->start_wall_ns == 1699999990 * SECOND);
	assert_true(find(&t->snap, 7)->age_seconds == 11.0);

	/* A start in the future cannot be. */
	write_stat(t, (struct fake){ 8, "b", 0, 1, 4000000 });
	scan(t);
	assert_false(f64_known(find(&t->snap, 8)->age_seconds));
}

static void test_pid_reuse_is_another_process(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "old", 500, 1, 100 });
	write_file(t, 7, "cmdline", "old");
	scan(t);
	assert_string_equal(find(&t->snap, 7)->command, "old");

	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "old", 510, 1, 100050 }); /* same pid and name */
	write_file(t, 7, "cmdline", "new");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->key.start_ticks, 100050);
	assert_string_equal(find(&t->snap, 7)->command, "new");
	assert_true(find(&t->snap, 7)->cpu_percent ==
		    510.0); /* all of its own, not the difference */
}

static void test_processes_come_and_go(void **state)
{
	struct tree *t = *state;

	for (pid_t pid = 1; pid <= 300; pid++)
		write_stat(t, (struct fake){ pid, "x", 0, 1, 100 });
	scan(t);
	assert_int_equal(t->snap.n_processes, 300);
	assert_int_equal(t->snap.system.process_count, 300);
	for (pid_t pid = 1; pid <= 300; pid += 2)
		remove_process(t, pid);
	write_stat(t, (struct fake){ 1000, "y", 0, 1, 100 });
	scan(t);
	assert_int_equal(t->snap.n_processes, 151);
	for (size_t i = 1; i < t->snap.n_processes; i++)
		assert_true(t->snap.processes[i - 1].key.pid < t->snap.processes[i].key.pid);
}

/* Who knows whose they are does not pay for all others. */
static void test_only_those_asked_for(void **state)
{
	static const pid_t pids[] = { 30, 10, 99,
				      30 }; /* any order, one twice, one that is not there */
	struct tree *t = *state;

	for (pid_t pid = 10; pid <= 40; pid += 10)
		write_stat(t, (struct fake){ pid, "x", 0, 1, 100 });
	assert_int_equal(collector_scan_some(t->collector, pids, 4, &t->snap, NULL), 0);
	assert_int_equal(t->snap.n_processes, 2);
	assert_int_equal(t->snap.processes[0].key.pid, 10);
	assert_int_equal(t->snap.processes[1].key.pid, 30);
	assert_false(u64_known(t->snap.system.process_count));
	scan(t);
	assert_int_equal(t->snap.n_processes, 4);
}

static void test_command_follows_exec(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "sh", 0, 1, 100 });
	write_file(t, 7, "cmdline", "sh");
	scan(t);
	assert_string_equal(find(&t->snap, 7)->command, "sh");

	write_file(t, 7, "cmdline", "true");
	write_stat(t, (struct fake){ 7, "true", 0, 1, 100 });
	scan(t);
	assert_string_equal(find(&t->snap, 7)->command, "true");

	write_file(t, 7, "cmdline", "");
	write_stat(t, (struct fake){ 7, "a\tb", 0, 1, 100 });
	scan(t);
	assert_string_equal(find(&t->snap, 7)->command, "[a b]");
}

/* What was read under one schedstat holds while that stays, and no longer. */
static void test_rest_carries_over_and_activity_does_not(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "schedstat", "5000 0 3\n");
	write_file(t, 7, "statm", "10 5 2 0 0 0 0\n");
	write_file(t, 7, "io", "rchar: 1\n");
	write_file(t, 7, "status", "VmHWM:\t 20 kB\nvoluntary_ctxt_switches:\t1\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->rchar, 1);

	write_file(t, 7, "io", "rchar: 2\n");
	write_file(t, 7, "status", "VmHWM:\t 24 kB\nvoluntary_ctxt_switches:\t2\n");
	scan(t); /* no kernel would write this: it has not run */
	assert_int_equal(find(&t->snap, 7)->rchar, 1);
	assert_int_equal(find(&t->snap, 7)->hwm_bytes, 20480);

	write_file(t, 7, "statm", "10 4 2 0 0 0 0\n"); /* the kernel took a page */
	scan(t);
	assert_int_equal(find(&t->snap, 7)->rss_bytes, 4 * 4096);
	assert_int_equal(find(&t->snap, 7)->hwm_bytes, 24576);
	assert_int_equal(find(&t->snap, 7)->rchar, 1);

	write_file(t, 7, "schedstat", "5001 0 4\n"); /* it ran */
	scan(t);
	assert_int_equal(find(&t->snap, 7)->rchar, 2);
	assert_int_equal(find(&t->snap, 7)->voluntary_switches, 2);
}

/* As somebody else: what is not for them is not tried again before the process has run. */
static void test_rest_of_what_is_not_for_us(void **state)
{
	struct tree *t = *state;

	if (geteuid() != 0)
		skip(); /* the owner of a file is always let in */
	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "schedstat", "5000 0 3\n");
	write_file(t, 7, "statm", "10 5 2 0 0 0 0\n");
	write_file(t, 7, "io", "rchar: 1\n");
	write_file(t, 7, "status", "VmHWM:\t 20 kB\n");
	assert_int_equal(fchmod(t->root_fd, 0755), 0);
	assert_int_equal(fchmodat(t->root_fd, "proc/7/io", 0400, 0), 0);
	setfsuid(SOMEBODY);
	scan(t);
	assert_true(!u64_known(find(&t->snap, 7)->rchar));
	assert_int_equal(find(&t->snap, 7)->hwm_bytes, 20480);

	setfsuid(0);
	assert_int_equal(fchmodat(t->root_fd, "proc/7/io", 0444, 0), 0);
	write_file(t, 7, "status", "VmHWM:\t 24 kB\n");
	setfsuid(SOMEBODY);
	scan(t); /* no kernel would do this: it has not run */
	assert_true(!u64_known(find(&t->snap, 7)->rchar));
	assert_int_equal(find(&t->snap, 7)->hwm_bytes, 20480);

	setfsuid(0);
	write_file(t, 7, "schedstat", "5001 0 4\n");
	setfsuid(SOMEBODY);
	scan(t);
	setfsuid(0);
	assert_int_equal(find(&t->snap, 7)->rchar, 1);
	assert_int_equal(find(&t->snap, 7)->hwm_bytes, 24576);
}

/* Ways in which rest cannot be proved: then everything is read. */
static void test_no_proof_of_rest(void **state)
{
	static const struct {
		const char *schedstat;
		unsigned threads;
	} rows[] = { { "0 0 0\n", 1 }, { "5000 0 3\n", 2 }, { "garbage\n", 1 } };
	struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		write_stat(t, (struct fake){ 7, "a", 0, rows[i].threads, 100 });
		write_file(t, 7, "schedstat", rows[i].schedstat);
		write_file(t, 7, "io", "rchar: 1\n");
		write_file(t, 7, "status", "VmHWM:\t 20 kB\nvoluntary_ctxt_switches:\t1\n");
		scan(t);
		write_file(t, 7, "io", "rchar: 2\n");
		scan(t);
		assert_int_equal(find(&t->snap, 7)->rchar, 2);
		/* status tells of the first thread only. */
		assert_int_equal(u64_known(find(&t->snap, 7)->voluntary_switches),
				 rows[i].threads == 1);
	}
}

static void test_everything_is_read_now_and_then(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "schedstat", "5000 0 3\n");
	write_file(t, 7, "statm", "10 5 2 0 0 0 0\n");
	write_file(t, 7, "limits", "Max open files  10  10  files\n");
	write_file(t, 7, "cgroup", "0::/a\n");
	write_file(t, 7, "status", "VmHWM:\t 20 kB\n");
	scan(t);
	write_file(t, 7, "limits", "Max open files  20  20  files\n");
	write_file(t, 7, "cgroup", "0::/b\n");
	write_file(t, 7, "status", "VmHWM:\t 24 kB\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 10);
	fake_boot_ns += 300 * SECOND; /* one tick, if they are that far apart */
	scan(t);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 20);
	assert_string_equal(find(&t->snap, 7)->cgroup, "/b");
	assert_int_equal(find(&t->snap, 7)->hwm_bytes, 24576);
}

/* A process that runs may have changed them: they are never older than half a minute. */
static void test_seldom_is_by_time(void **state)
{
	struct tree *t = *state;

	for (pid_t pid = 7; pid <= 8; pid++) {
		write_stat(t, (struct fake){ pid, "a", 0, 1, 100 });
		write_file(t, pid, "schedstat", "5000 0 3\n");
		write_file(t, pid, "io", "rchar: 1\n");
		write_file(t, pid, "status", "VmHWM:\t 20 kB\n");
		write_file(t, pid, "cmdline", "a");
		write_file(t, pid, "limits", "Max open files  10  10  files\n");
		write_file(t, pid, "cgroup", "0::/a\n");
	}
	scan(t);
	for (pid_t pid = 7; pid <= 8; pid++) {
		write_file(t, pid, "cmdline", "b");
		write_file(t, pid, "limits", "Max open files  20  20  files\n");
		write_file(t, pid, "cgroup", "0::/b\n");
	}
	for (int i = 0; i < 100; i++)
		scan(t); /* no time has passed, however often somebody looks */
	assert_string_equal(find(&t->snap, 7)->command, "a");

	fake_boot_ns += 30 * SECOND;
	write_file(t, 7, "schedstat", "5001 0 4\n");
	scan(t);
	assert_string_equal(find(&t->snap, 7)->command, "b");
	assert_string_equal(find(&t->snap, 7)->cgroup, "/b");
	assert_int_equal(find(&t->snap, 7)->fd_limit, 20);
	assert_string_equal(find(&t->snap, 8)->command, "a"); /* at rest */

	write_file(t, 7, "schedstat", "5002 0 5\n");
	write_file(t, 7, "cgroup", "0::/c\n");
	scan(t);
	fake_boot_ns += 30 * SECOND;
	scan(t); /* at rest now, but it was not all the time */
	assert_string_equal(find(&t->snap, 7)->cgroup, "/c");
}

static void add_fds(struct tree *t, pid_t pid, int from, int to)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/fd", pid);
	mkdirat(t->root_fd, path, 0755);
	for (int i = from; i < to; i++) {
		snprintf(path, sizeof(path), "fd/%d", i);
		write_file(t, pid, path, "");
	}
}

/* Never more open files than the limit that is shown with them. */
static void test_limit_is_read_when_half_is_used(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "schedstat", "5000 0 3\n");
	write_file(t, 7, "io", "rchar: 1\n");
	write_file(t, 7, "status", "VmHWM:\t 20 kB\n");
	write_file(t, 7, "limits", "Max open files  10  10  files\n");
	add_fds(t, 7, 0, 4);
	scan(t);
	write_file(t, 7, "limits", "Max open files  20  20  files\n");
	write_file(t, 7, "schedstat", "6000 0 4\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 10); /* not yet due */
	add_fds(t, 7, 4, 12);
	write_file(t, 7, "schedstat", "7000 0 5\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->open_fds, 12);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 20);
}

/* A limit that was lowered is seen before it is reached: half of the old one may be far away. */
static void test_limit_is_read_when_files_grow(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "schedstat", "5000 0 3\n");
	write_file(t, 7, "io", "rchar: 1\n");
	write_file(t, 7, "status", "VmHWM:\t 20 kB\n");
	write_file(t, 7, "limits", "Max open files  1024  1024  files\n");
	add_fds(t, 7, 0, 4);
	scan(t);
	write_file(t, 7, "limits", "Max open files  64  1024  files\n");
	add_fds(t, 7, 4, 12);
	write_file(t, 7, "schedstat", "6000 0 4\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 1024); /* a few more come and go */
	add_fds(t, 7, 12, 22);
	write_file(t, 7, "schedstat", "7000 0 5\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 64);
	write_file(t, 7, "limits", "Max open files  48  1024  files\n");
	add_fds(t, 7, 22, 27);
	write_file(t, 7, "schedstat", "8000 0 6\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->fd_limit, 64); /* counted from there on */
}

static void test_zombie_keeps_what_is_known_of_it(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "cmdline", "a");
	write_file(t, 7, "cgroup", "4:memory:/job\n");
	scan(t);
	write_file(t, 7, "stat", "7 (a) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 \n");
	write_file(t, 7, "cmdline", "");
	write_file(t, 7, "cgroup", "4:memory:/\n");
	fake_boot_ns += 1000 * SECOND;
	scan(t);
	assert_int_equal(find(&t->snap, 7)->state, 'Z');
	assert_string_equal(find(&t->snap, 7)->command, "a");
	assert_string_equal(find(&t->snap, 7)->cgroup, "/job");
}

static void test_scope_jobs_fills_only_those(void **state)
{
	struct tree *t = *state;

	for (pid_t pid = 7; pid <= 8; pid++) {
		write_stat(t, (struct fake){ pid, "a", 0, 1, 100 });
		write_file(t, pid, "statm", "10 5 2 0 0 0 0\n");
	}
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	t->snap.processes[1].job_id = "job";
	collector_fill(t->collector, &t->snap, SNAPSHOT_JOBS);
	assert_false(u64_known(find(&t->snap, 7)->rss_bytes));
	assert_int_equal(find(&t->snap, 8)->rss_bytes, 5 * 4096);
}

static int rank_as(struct tree *t, const char *job_id)
{
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	t->snap.processes[0].job_id = job_id;
	collector_fill(t->collector, &t->snap, SNAPSHOT_ALL);
	return t->snap.processes[0].rank;
}

/* The environment of the program that it is, as soon as it is known to be of a job. */
static void test_rank_of_one_that_was_no_jobs_at_first(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "environ", "PMI_RANK=3");
	assert_int_equal(rank_as(t, NULL), RANK_NONE);
	assert_int_equal(rank_as(t, NULL), RANK_NONE);
	assert_int_equal(rank_as(t, "job"), 3);
	write_file(t, 7, "environ", "PMI_RANK=4"); /* which it wrote there itself */
	assert_int_equal(rank_as(t, "job"), 3);
	write_stat(t, (struct fake){ 7, "b", 0, 1, 100 });
	assert_int_equal(rank_as(t, "job"), 4);
}

static void test_fill_finds_samples_that_moved(void **state)
{
	struct tree *t = *state;

	for (pid_t pid = 7; pid <= 9; pid++) {
		write_stat(t, (struct fake){ pid, "a", 0, 1, 100 });
		write_file(t, pid, "statm", pid == 9 ? "10 9 2 0 0 0 0\n" : "10 5 2 0 0 0 0\n");
	}
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	t->snap.processes[0] = t->snap.processes[2]; /* somebody kept one of three */
	t->snap.n_processes = 1;
	collector_fill(t->collector, &t->snap, SNAPSHOT_ALL);
	assert_int_equal(t->snap.processes[0].rss_bytes, 9 * 4096);
}

/* ---- OOM kills ---- */

static void write_at(struct tree *t, const char *path, const char *text)
{
	char folder[128];
	int fd;

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		snprintf(folder, sizeof(folder), "%.*s", (int)(p - path), path);
		mkdirat(t->root_fd, folder, 0755);
	}
	fd = openat(t->root_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static const char *oom_rung(struct tree *t)
{
	struct rung rungs[SOURCES_MAX_RUNGS];
	size_t n = sources_probe_rungs(t->root_fd, &t->snap.arena, rungs);

	for (size_t i = 0; i < n; i++)
		if (strcmp(rungs[i].measurement, "OOM kills") == 0)
			return rungs[i].rung;
	return NULL;
}

static void test_oom_counts(void **state)
{
	struct tree *t = *state;
	struct oom_counts oom;

	sources_read_oom(t->root_fd, &oom);
	assert_false(u64_known(oom.host) || u64_known(oom.cgroup));
	assert_string_equal(oom_rung(t), "unknown");

	write_at(t, "proc/vmstat", "oom_kill 7\n");
	write_at(t, "proc/self/cgroup", "0::/\n"); /* the root of v2 counts nothing */
	sources_read_oom(t->root_fd, &oom);
	assert_int_equal(oom.host, 7);
	assert_false(u64_known(oom.cgroup));
	assert_non_null(strstr(oom_rung(t), "guess"));

	write_at(t, "proc/self/cgroup", "0::/a.slice/b c\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/memory.events", "oom 9\noom_kill 2\n");
	sources_read_oom(t->root_fd, &oom);
	assert_int_equal(oom.cgroup, 2);
	assert_string_equal(oom_rung(t), "cgroup memory.events");

	write_at(t, "proc/self/cgroup", "4:memory:/m\n0::/a.slice/b c\n");
	write_at(t, "sys/fs/cgroup/memory/m/memory.oom_control", "under_oom 0\noom_kill 3\n");
	sources_read_oom(t->root_fd, &oom);
	assert_int_equal(oom.cgroup, 3);
	assert_string_equal(oom_rung(t), "cgroup memory.oom_control");

	/* Of a cgroup that this namespace does not show, the file of another is not taken. */
	write_at(t, "proc/self/cgroup", "0::/../x\n");
	write_at(t, "sys/fs/x/memory.events", "oom_kill 4\n");
	sources_read_oom(t->root_fd, &oom);
	assert_false(u64_known(oom.cgroup));
}

/* ---- cgroups of jobs ---- */

static void scan_as_job(struct tree *t)
{
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	for (size_t i = 0; i < t->snap.n_processes; i++)
		if (t->snap.processes[i].key.pid != 30)
			t->snap.processes[i].job_id = "job";
	collector_fill(t->collector, &t->snap, SNAPSHOT_JOBS);
}

static void test_cgroups_of_jobs(void **state)
{
	struct tree *t = *state;
	const struct cgroup_sample *c;

	for (pid_t pid = 10; pid <= 30; pid += 10)
		write_stat(t, (struct fake){ pid, "x", 1, 1, 500 });
	write_at(t, "proc/10/cgroup", "0::/a.slice/b c\n");
	write_at(t, "proc/20/cgroup", "0::/a.slice/b c\n");
	write_at(t, "proc/30/cgroup", "0::/of-nobody\n");
	write_at(t, "sys/fs/cgroup/of-nobody/memory.current", "1\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/memory.current", "1048576\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/memory.high", "max\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/memory.max", "2097152\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/memory.events", "oom 3\noom_kill 2\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/memory.pressure",
		 "some avg10=1.50 avg60=0.00 avg300=0.00 total=9\n"
		 "full avg10=0.25 avg60=0.00 avg300=0.00 total=4\n");
	scan_as_job(t);
	assert_int_equal(t->snap.n_cgroups, 1);
	c = &t->snap.cgroups[0];
	assert_string_equal(c->path, "/a.slice/b c");
	assert_int_equal(c->memory_current_bytes, 1048576);
	assert_true(c->memory_high_bytes == MEMORY_UNLIMITED);
	assert_int_equal(c->memory_max_bytes, 2097152);
	assert_int_equal(c->oom_kills, 2);
	assert_true(c->psi_memory.full.avg10 == 0.25);
}

static void test_cgroups_of_v1(void **state)
{
	struct tree *t = *state;
	const struct cgroup_sample *c;

	write_stat(t, (struct fake){ 10, "x", 1, 1, 500 });
	write_stat(t, (struct fake){ 20, "x", 1, 1, 500 });
	write_at(t, "proc/10/cgroup", "4:memory:/m\n0::/\n");
	write_at(t, "proc/20/cgroup", "0::/../x\n");
	write_at(t, "sys/fs/x/memory.current", "5\n"); /* outside of what we are shown */
	write_at(t, "sys/fs/cgroup/memory/m/memory.usage_in_bytes", "4096\n");
	write_at(t, "sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
	write_at(t, "sys/fs/cgroup/memory/m/memory.oom_control", "under_oom 0\noom_kill 3\n");
	scan_as_job(t);
	assert_int_equal(t->snap.n_cgroups, 1);
	c = &t->snap.cgroups[0];
	assert_int_equal(c->memory_current_bytes, 4096);
	assert_true(c->memory_max_bytes == MEMORY_UNLIMITED);
	assert_false(u64_known(c->memory_high_bytes));
	assert_int_equal(c->oom_kills, 3);
}

static void test_without_proc(void **state)
{
	struct collector_options options = { .root_fd = open("/dev", O_RDONLY | O_DIRECTORY) };
	struct collector *c = NULL;
	struct err err = ERR_INIT;

	(void)state;
	assert_true(collector_new(&options, &c, &err) < 0);
	assert_null(c);
	assert_true(strlen(err.text) > 0);
	close(options.root_fd);
}

/* ---- the real thing ---- */

struct live {
	int root_fd;
	struct collector *collector;
	struct snapshot snap;
};

static void live_open(struct live *l)
{
	struct collector_options options = { 0 };

	l->root_fd = options.root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(collector_new(&options, &l->collector, NULL), 0);
	snapshot_init(&l->snap);
}

static void live_scan(struct live *l)
{
	assert_int_equal(collector_scan(l->collector, &l->snap, NULL), 0);
	collector_fill(l->collector, &l->snap, SNAPSHOT_ALL);
}

static void live_close(struct live *l)
{
	snapshot_release(&l->snap);
	collector_free(l->collector);
	close(l->root_fd);
}

static pid_t start_child(void (*run)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run();
	for (;;)
		pause();
}

static void stop_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void do_nothing(void)
{
}

static uint64_t count_own_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the folder itself */
}

static void test_live_self(void **state)
{
	const struct proc_sample *p;
	struct rlimit limit;
	struct live l;

	(void)state;
	live_open(&l);
	for (int i = 0; i < 3; i++)
		live_scan(&l);
	p = find(&l.snap, getpid());
	assert_non_null(p);
	assert_int_equal(p->ppid, getppid());
	assert_int_equal(p->uid, geteuid());
	assert_int_equal(p->threads, 1);
	assert_true(u64_known(p->rss_bytes) && p->rss_bytes > 0 && p->rss_bytes <= p->vms_bytes);
	assert_true(u64_known(p->hwm_bytes) && p->hwm_bytes > 0);
	assert_true(f64_known(p->age_seconds) && p->age_seconds >= 0 && p->age_seconds < 3600);
	assert_true(p->start_wall_ns <= clock_wall_ns());
	assert_non_null(strstr(p->command, "test_sources_collector"));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(p->fd_limit ==
		    (limit.rlim_cur == RLIM_INFINITY ? FD_LIMIT_UNLIMITED : limit.rlim_cur));
	assert_true(l.snap.system.memory_total_bytes > l.snap.system.memory_used_bytes);
	assert_true(l.snap.system.cpu_count > 0);
	assert_int_equal(strlen(l.snap.boot_id), 36);
	live_close(&l);
}

static void open_twenty(void)
{
	for (int i = 0; i < 20; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			_exit(1);
}

static void test_live_open_files(void **state)
{
	uint64_t own = count_own_fds();
	pid_t pid = start_child(open_twenty);
	struct live l;
	uint64_t fds = 0;

	(void)state;
	live_open(&l);
	/* Until the child has opened its files; the test's own time limit is the bound. */
	while (fds != own + 20) {
		const struct proc_sample *p;

		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
		assert_true(u64_known(p->open_fds) && p->open_fds <= own + 20);
		fds = p->open_fds;
	}
	stop_child(pid);
	live_close(&l);
}

static void test_live_kept_files_do_not_outlive_the_process(void **state)
{
	struct live l;
	pid_t pid;

	(void)state;
	live_open(&l);
	live_scan(&l);
	live_scan(&l);
	for (int round = 0; round < 3; round++) {
		pid = start_child(do_nothing);
		for (int i = 0; i < 4; i++)
			live_scan(&l);
		assert_non_null(find(&l.snap, pid));
		stop_child(pid);
		live_scan(&l);
		assert_null(find(&l.snap, pid));
	}
	live_close(&l);
}

static void burn(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

/* One that never sleeps: its time is known finer than a tick, grows, and is not more than passed.
 */
static void test_live_cpu_time(void **state)
{
	pid_t pid = start_child(burn);
	uint64_t before = 0, began = clock_boot_ns();
	bool is_fine = false;
	struct live l;

	(void)state;
	live_open(&l);
	while (!is_fine || before < SECOND / 20) {
		const struct proc_sample *p;

		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
		assert_true(u64_known(p->cpu_ns) && p->cpu_ns >= before);
		assert_true(p->cpu_ns <= clock_boot_ns() - began + SECOND / 10);
		is_fine = is_fine || p->cpu_ns % (SECOND / 1000) != 0;
		before = p->cpu_ns;
		if (access("/proc/self/schedstat", R_OK) < 0)
			is_fine = true; /* a kernel that does not count */
	}
	stop_child(pid);
	live_close(&l);
}

static void test_live_zombie(void **state)
{
	const struct proc_sample *p = NULL;
	pid_t pid = fork();
	struct live l;

	(void)state;
	if (pid == 0)
		_exit(3);
	live_open(&l);
	do {
		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
	} while (p->state != 'Z');
	assert_int_equal(p->rss_bytes, 0);
	assert_false(u64_known(p->hwm_bytes));
	waitpid(pid, NULL, 0);
	live_close(&l);
}

static void *wait_for_end(void *arg)
{
	(void)arg;
	pause();
	return NULL;
}

static void leave_to_another(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_end, NULL) == 0)
		syscall(SYS_exit, 0); /* of this thread alone */
	_exit(1);
}

/* Its first thread has ended, and another has not. */
static void test_live_headless_is_no_zombie(void **state)
{
	const struct proc_sample *p = NULL;
	pid_t pid = fork();
	struct live l;

	(void)state;
	if (pid == 0)
		leave_to_another();
	live_open(&l);
	do {
		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
		assert_int_not_equal(p->state, 'Z');
	} while (p->state != '?');
	assert_false(u64_known(p->rss_bytes));
	stop_child(pid);
	live_close(&l);
}

/* Peak memory that came and went between two samples. */
static void touch_and_release(void)
{
	size_t n = 48 << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, n);
	munmap(p, n);
}

static void test_live_high_water_mark(void **state)
{
	pid_t pid = start_child(touch_and_release);
	const struct proc_sample *p;
	struct live l;

	(void)state;
	live_open(&l);
	do {
		live_scan(&l);
		p = find(&l.snap, pid);
		assert_non_null(p);
	} while (p->state != 'S' || p->hwm_bytes < (48 << 20));
	assert_true(p->rss_bytes < (48 << 20));
	stop_child(pid);
	live_close(&l);
}

/* With few files allowed the collector still sees everything, and leaves most of them to others. */
static void test_live_above_the_budget(void **state)
{
	struct rlimit old, low;
	pid_t pids[60];
	struct live l;
	uint64_t before;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = start_child(do_nothing);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	live_open(&l);
	before = count_own_fds();
	for (int i = 0; i < 4; i++)
		live_scan(&l);
	assert_int_equal(count_own_fds() - before, 32); /* half, and not one more */
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		const struct proc_sample *p = find(&l.snap, pids[i]);

		assert_non_null(p);
		assert_true(u64_known(p->rss_bytes) && u64_known(p->hwm_bytes));
		assert_true(u64_known(p->open_fds) && f64_known(p->cpu_percent));
	}
	live_close(&l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		stop_child(pids[i]);
}

static int highest_fd(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int highest = -1;

	while ((e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (fd != dirfd(dir) && fd > highest)
			highest = fd;
	}
	closedir(dir);
	return highest;
}

struct want {
	struct rlimit old;
	int fds[4096];
	size_t n;
};

/* Not one more file can be opened. Holes are filled, or what is above them were given back in vain.
 */
static void begin_want(struct want *w)
{
	int fd, highest = highest_fd();
	struct rlimit low;

	w->n = 0;
	while ((fd = dup(STDIN_FILENO)) < highest) {
		assert_true(fd >= 0 && w->n < ARRAY_SIZE(w->fds));
		w->fds[w->n++] = fd;
	}
	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &w->old), 0);
	low = w->old;
	low.rlim_cur = (rlim_t)highest + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void end_want(struct want *w)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &w->old), 0);
	for (size_t i = 0; i < w->n; i++)
		close(w->fds[i]);
}

/* Others took the rest of the files: the collector gives its own back and carries on. */
static void test_live_want_of_files(void **state)
{
	pid_t old = start_child(do_nothing), young; /* there is one at least whose files are kept */
	struct want want;
	struct live l;

	(void)state;
	live_open(&l);
	for (int i = 0; i < 3; i++)
		live_scan(&l);
	young = start_child(do_nothing);
	begin_want(&want);
	for (int i = 0; i < 2; i++) {
		live_scan(&l);
		assert_true(u64_known(l.snap.system.memory_total_bytes));
		assert_non_null(find(&l.snap, old)); /* never left out */
		assert_non_null(find(&l.snap, young));
		assert_true(u64_known(find(&l.snap, old)->rss_bytes));
		assert_true(u64_known(find(&l.snap, young)->rss_bytes));
	}
	end_want(&want);
	stop_child(old);
	stop_child(young);
	live_close(&l);
}

/* Without a single file to open nothing can be said: an error, not an empty host. */
static void test_live_no_files_at_all(void **state)
{
	struct rlimit old, low;
	struct err err = ERR_INIT;
	struct live l;

	(void)state;
	live_open(&l);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(collector_scan(l.collector, &l.snap, &err), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(strlen(err.text) > 0);
	live_scan(&l);
	assert_non_null(find(&l.snap, getpid()));
	live_close(&l);
}

int main(void)
{
#define TREE(test) cmocka_unit_test_setup_teardown(test, setup_tree, teardown_tree)
	const struct CMUnitTest tests[] = {
		TREE(test_cpu_percent_is_time_over_time),
		TREE(test_cpu_percent_is_rounded),
		TREE(test_cpu_percent_of_the_newborn),
		TREE(test_cpu_time_by_the_scheduler),
		TREE(test_cpu_time_of_the_newborn_by_the_scheduler),
		TREE(test_cpu_time_changes_its_source_without_a_jump),
		TREE(test_cpu_time_never_goes_backwards),
		TREE(test_cpu_time_after_a_snapshot_without_filling),
		TREE(test_start_and_age),
		TREE(test_pid_reuse_is_another_process),
		TREE(test_processes_come_and_go),
		TREE(test_only_those_asked_for),
		TREE(test_command_follows_exec),
		TREE(test_rest_carries_over_and_activity_does_not),
		TREE(test_rest_of_what_is_not_for_us),
		TREE(test_no_proof_of_rest),
		TREE(test_everything_is_read_now_and_then),
		TREE(test_seldom_is_by_time),
		TREE(test_limit_is_read_when_files_grow),
		TREE(test_limit_is_read_when_half_is_used),
		TREE(test_zombie_keeps_what_is_known_of_it),
		TREE(test_scope_jobs_fills_only_those),
		TREE(test_rank_of_one_that_was_no_jobs_at_first),
		TREE(test_fill_finds_samples_that_moved),
		TREE(test_oom_counts),
		TREE(test_cgroups_of_jobs),
		TREE(test_cgroups_of_v1),
		cmocka_unit_test(test_without_proc),
		cmocka_unit_test(test_live_self),
		cmocka_unit_test(test_live_open_files),
		cmocka_unit_test(test_live_kept_files_do_not_outlive_the_process),
		cmocka_unit_test(test_live_cpu_time),
		cmocka_unit_test(test_live_zombie),
		cmocka_unit_test(test_live_headless_is_no_zombie),
		cmocka_unit_test(test_live_high_water_mark),
		cmocka_unit_test(test_live_above_the_budget),
		cmocka_unit_test(test_live_want_of_files),
		cmocka_unit_test(test_live_no_files_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
