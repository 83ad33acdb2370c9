/* The collector over a tree: who is there, and what is read of whom and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "collector_fixture.h"

#define SOMEBODY 65534 /* without rights */

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

/* Its memory is gone, which takes a while, and then it is a zombie. */
static void test_who_ends_keeps_its_command(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	write_file(t, 7, "cmdline", "./a -b");
	scan(t);
	write_file(t, 7, "cmdline", "");
	fake_boot_ns += 1000 * SECOND;
	scan(t);
	assert_int_equal(find(&t->snap, 7)->state, 'S');
	assert_string_equal(find(&t->snap, 7)->command, "./a -b");
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

static struct rung rung_of(struct tree *t, const char *measurement)
{
	struct rung rungs[SOURCES_MAX_RUNGS];
	size_t n = sources_probe_rungs(t->root_fd, NULL, &t->snap.arena, rungs);

	for (size_t i = 0; i < n; i++)
		if (strcmp(rungs[i].measurement, measurement) == 0)
			return rungs[i];
	fail_msg("there is no rung of %s", measurement);
	return (struct rung){ 0 };
}

static const char *oom_rung(struct tree *t)
{
	return rung_of(t, "OOM kills").rung;
}

/* What Yama forbids is not promised. */
static void test_who_may_trace(void **state)
{
	struct tree *t = *state;
	struct rung rung = rung_of(t, "full trace on demand");

	if (strcmp(rung.rung, "none") == 0)
		skip(); /* there is no strace */
	assert_string_equal(rung.reason, "");
	write_at(t, "proc/sys/kernel/yama/ptrace_scope", "3\n");
	rung = rung_of(t, "full trace on demand");
	assert_string_equal(rung.rung, "none");
	assert_non_null(strstr(rung.reason, "nobody"));
	write_at(t, "proc/sys/kernel/yama/ptrace_scope", "1\n");
	rung = rung_of(t, "full trace on demand");
	assert_string_equal(rung.rung, "strace -f -t");
	assert_true(rung.reason[0] == '\0' || strstr(rung.reason, "CAP_SYS_PTRACE"));
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
	write_at(t, "sys/fs/cgroup/a.slice/b c/pids.current", "17\n");
	write_at(t, "sys/fs/cgroup/a.slice/b c/pids.max", "max\n");
	scan_as_job(t);
	assert_int_equal(t->snap.n_cgroups, 1);
	c = &t->snap.cgroups[0];
	assert_string_equal(c->path, "/a.slice/b c");
	assert_int_equal(c->pids_current, 17);
	assert_true(c->pids_max == PIDS_UNLIMITED);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		TREE(test_who_ends_keeps_its_command),
		TREE(test_scope_jobs_fills_only_those),
		TREE(test_rank_of_one_that_was_no_jobs_at_first),
		TREE(test_fill_finds_samples_that_moved),
		TREE(test_oom_counts),
		TREE(test_who_may_trace),
		TREE(test_cgroups_of_jobs),
		TREE(test_cgroups_of_v1),
		cmocka_unit_test(test_without_proc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
