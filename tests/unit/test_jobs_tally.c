#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/jobs.h"

#define MB (UINT64_C(1024) * 1024)
#define SECOND UINT64_C(1000000000)
#define RUNNER 100

static struct proc_sample zombie_of(pid_t pid)
{
	struct proc_sample z;

	proc_sample_init(&z);
	z.key.pid = pid;
	z.sheet_num = 1;
	return z;
}

static struct reaped ended(pid_t pid, int wait_status, long maxrss_mb, double user_seconds)
{
	struct reaped r = { .pid = pid,
			    .wait_status = wait_status,
			    .pre_exec_rss_bytes = U64_UNKNOWN };

	r.usage.ru_maxrss = maxrss_mb * 1024;
	r.usage.ru_utime.tv_sec = (time_t)user_seconds;
	r.usage.ru_utime.tv_usec =
		(suseconds_t)((user_seconds - (double)(time_t)user_seconds) * 1e6);
	return r;
}

static void add_sample(struct snapshot *snap, pid_t pid, uint64_t rss, uint64_t hwm,
		       uint64_t cpu_ns)
{
	struct proc_sample *p = snapshot_add_process(snap);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, 1 };
	p->job_id = "job";
	p->sheet_num = 1;
	p->rss_bytes = rss;
	p->hwm_bytes = hwm;
	p->user_ns = cpu_ns;
	p->system_ns = 0;
	p->child_user_ns = p->child_system_ns = 0;
}

static void root(struct tally *t, pid_t pid, int sheet_num, uint64_t wall_ns)
{
	tally_root(t, &(struct birth){ .pid = pid,
				       .ppid = RUNNER,
				       .sheet_num = sheet_num,
				       .rank = RANK_NONE,
				       .wall_ns = wall_ns,
				       .command = "root",
				       .uid = 7 });
}

static void fork_of(struct tally *t, pid_t pid, pid_t ppid, uint64_t wall_ns)
{
	tally_fork(t, &(struct birth){ .pid = pid,
				       .ppid = ppid,
				       .sheet_num = 1,
				       .rank = RANK_NONE,
				       .wall_ns = wall_ns,
				       .uid = U64_UNKNOWN });
}

static struct usage total(struct tally *t, bool is_complete)
{
	struct usage u;

	tally_total(t, 10 * SECOND, is_complete, &u);
	return u;
}

static void test_alone_the_kernel_mark_is_exact(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 300, 1.5);
	struct usage u;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 101, RUNNER, 1); /* the kernel's word for the same birth */
	tally_reap(t, &r, &z, 5, 5);
	u = total(t, true);
	assert_int_equal(u.spawn_count, 1);
	assert_int_equal(u.spawn_evidence, EVIDENCE_EXACT);
	assert_int_equal(u.peak_rss_bytes, 300 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_EXACT);
	assert_int_equal(u.user_ns, 3 * SECOND / 2);
	assert_int_equal(u.cpu_evidence, EVIDENCE_EXACT);
	tally_free(t);
}

/* Between two samples a child had 300 MB: the tree had at least that. */
static void test_peak_of_a_tree_is_at_least_its_largest_process(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 300, 0);
	struct series_point point;
	struct snapshot snap;
	struct usage u;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	add_sample(&snap, 101, 10 * MB, 10 * MB, 0);
	add_sample(&snap, 102, 20 * MB, 25 * MB, 0);
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(point.rss_bytes, 30 * MB);
	u = total(t, false);
	assert_int_equal(u.peak_rss_bytes, 30 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_SAMPLED);
	tally_exit(t, 102, 0, 3);
	tally_reap(t, &r, &z, 5, 5);
	u = total(t, true);
	assert_int_equal(u.peak_rss_bytes, 300 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(u.max_process_rss_evidence, EVIDENCE_EXACT);
	snapshot_release(&snap);
	tally_free(t);
}

/* A process that no sample saw, and that its own parent waited for. */
static void test_what_the_kernel_tells_of_an_end_is_kept(void **state)
{
	struct tally *t = tally_new("job", true);
	struct exit_account account;
	const struct proc_record *p;
	size_t n;

	(void)state;
	exit_account_init(&account);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	fork_of(t, 103, 101, 2);
	account.cpu_ns = 5 * SECOND;
	account.user_ns = 3 * SECOND;
	account.system_ns = 2 * SECOND;
	account.max_rss_bytes = 40 * MB;
	account.rchar = 1000;
	account.major_faults = 3;
	tally_account(t, 102, &account);
	tally_exit(t, 102, 0x0200, 3);
	exit_account_init(&account);
	tally_account(t, 103, &account); /* the kernel says nothing: that is not 0 */
	tally_exit(t, 103, 0, 3);
	tally_account(t, 999, &account); /* somebody else's */
	p = tally_processes(t, &n);
	assert_int_equal(n, 3);
	assert_int_equal(p[1].user_ns, 3 * SECOND);
	assert_int_equal(p[1].system_ns, 2 * SECOND);
	assert_int_equal(p[1].max_rss_bytes, 40 * MB);
	assert_int_equal(p[1].evidence, EVIDENCE_EXACT);
	assert_int_equal(p[1].cpu_evidence, EVIDENCE_LOWER_BOUND); /* of the last clock tick */
	assert_int_equal(p[1].rchar, 1000);
	assert_int_equal(p[1].major_faults, 3);
	assert_int_equal(p[1].status.exit_code, 2);
	assert_false(u64_known(p[1].wchar));
	assert_false(u64_known(p[2].user_ns));
	assert_false(u64_known(p[2].max_rss_bytes));
	tally_free(t);
}

/* ru_maxrss of a small command is that of the child before exec: it only bounds the truth. */
/* Whose command line nobody could read has the kernel's name for it, and who has one keeps it. */
static void test_a_name_stands_where_there_is_no_command(void **state)
{
	struct tally *t = tally_new("job", true);
	const struct proc_record *p;
	size_t n;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	fork_of(t, 103, 101, 2);
	tally_exec(t, 102, NULL);
	tally_name(t, 101, "sh");
	tally_name(t, 102, "true");
	tally_name(t, 103, "sh");
	tally_name(t, 999, "somebody's");
	p = tally_processes(t, &n);
	assert_int_equal(n, 3);
	assert_string_equal(p[0].command, "root");
	assert_string_equal(p[1].command, "true");
	assert_string_equal(p[2].command, "root");
	tally_free(t);
}

static void test_mark_from_before_exec_is_no_measurement(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 2, 0);
	struct usage u;

	(void)state;
	r.pre_exec_rss_bytes = 2 * MB;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r, &z, 5, 5);
	u = total(t, true);
	assert_int_equal(u.max_process_rss_bytes, 2 * MB);
	assert_int_equal(u.max_process_rss_evidence, EVIDENCE_UPPER_BOUND);
	tally_free(t);
}

/* The kernel has told the mark of each at its end: of one program, or of the last of several. */
static void test_marks_of_all_processes_are_the_jobs(void **state)
{
	for (unsigned n_execs = 1; n_execs <= 2; n_execs++) {
		struct tally *t = tally_new("job", true);
		struct proc_sample z = zombie_of(101);
		struct reaped r = ended(101, 0, 4, 0);
		struct exit_account account;
		struct usage u;

		(void)state;
		exit_account_init(&account);
		account.cpu_ns = account.user_ns = account.system_ns = 0;
		account.max_rss_bytes = MB;
		r.pre_exec_rss_bytes = 4 * MB;
		tally_begin_sheet(t, 0, true);
		root(t, 101, 1, 1);
		for (unsigned i = 0; i < n_execs; i++)
			tally_exec(t, 101, NULL);
		tally_account(t, 101, &account);
		tally_reap(t, &r, &z, 5, 5);
		u = total(t, true);
		assert_int_equal(u.max_process_rss_bytes, n_execs == 1 ? MB : 4 * MB);
		assert_int_equal(u.max_process_rss_evidence,
				 n_execs == 1 ? EVIDENCE_EXACT : EVIDENCE_UPPER_BOUND);
		tally_free(t);
	}
}

/* The kernel's own count of pages is off by some of each CPU. */
static void test_a_mark_that_is_a_little_more_is_none_either(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 5, 0);

	(void)state;
	r.pre_exec_rss_bytes = 5 * MB - 380 * 1024;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(total(t, true).max_process_rss_evidence, EVIDENCE_UPPER_BOUND);
	tally_free(t);
}

static void test_without_births_counts_are_lower_bounds(void **state)
{
	struct tally *t = tally_new("job", false);
	struct proc_sample z = zombie_of(101), orphan = zombie_of(105);
	struct reaped r = ended(101, 0, 1, 0), r2 = ended(105, 0, 1, 0);
	struct usage u;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r2, &orphan, 4, 4); /* never seen before it came to us to be waited for */
	tally_reap(t, &r, &z, 5, 5);
	u = total(t, true);
	assert_int_equal(u.spawn_count, 2);
	assert_int_equal(u.spawn_evidence, EVIDENCE_LOWER_BOUND);
	tally_free(t);
}

static void test_lost_events_end_exactness(void **state)
{
	struct tally *t = tally_new("job", true);

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_lost(t, 3);
	assert_int_equal(total(t, true).spawn_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(tally_lost_events(t), 3);
	tally_free(t);
}

static void test_same_pid_twice_is_two_processes(void **state)
{
	struct tally *t = tally_new("job", true);
	size_t n;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0x0100, 3);
	fork_of(t, 102, 101, 4);
	tally_exit(t, 102, 9, 5);
	assert_int_equal(total(t, false).spawn_count, 3);
	assert_int_equal(tally_processes(t, &n)[1].status.exit_code, 1);
	assert_int_equal(tally_processes(t, &n)[2].status.signal, 9);
	assert_int_equal(n, 3);
	tally_free(t);
}

/* Short-lived children are in the CPU of whoever waited for them. */
static void test_tree_cpu_holds_children_that_are_gone(void **state)
{
	struct tally *t = tally_new("job", true);
	struct series_point point;
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 8 * SECOND, true);
	root(t, 101, 1, 1);
	add_sample(&snap, 101, MB, MB, SECOND);
	snap.boot_ns = 10 * SECOND;
	tally_snapshot(t, &snap, 1, &point);
	assert_true(point.cpu_percent == 50.0); /* all since the sheet began */
	snap.boot_ns = 12 * SECOND;
	snap.processes[0].child_user_ns = SECOND / 2;
	tally_snapshot(t, &snap, 1, &point);
	assert_true(point.cpu_percent == 25.0);
	snap.boot_ns +=
		SECOND / 50; /* two clock ticks are no percentage: the window reaches back */
	tally_snapshot(t, &snap, 1, &point);
	assert_true(fabs(point.cpu_percent - 25.0 * 100 / 101) < 1e-9);
	snapshot_release(&snap);
	tally_free(t);
}

/* What the sheet before used after its last tick is not charged to this one. */
static void test_cpu_does_not_leak_into_the_next_sheet(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 5);
	struct series_point point;
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r, &z, 5, 5);
	tally_begin_sheet(t, 10 * SECOND, true);
	root(t, 201, 2, 1);
	add_sample(&snap, 201, MB, MB, SECOND);
	snap.boot_ns = 12 * SECOND;
	tally_snapshot(t, &snap, 2, &point);
	assert_true(point.cpu_percent == 50.0);

	tally_begin_sheet(t, 20 * SECOND, false);
	snap.boot_ns = 22 * SECOND;
	tally_snapshot(t, &snap, 3, &point);
	assert_true(isnan(point.cpu_percent)); /* something was left running: whose CPU is it? */
	snapshot_release(&snap);
	tally_free(t);
}

static void test_what_still_runs_makes_sums_lower_bounds(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 1);

	(void)state;
	z.rchar = z.wchar = z.syscr = z.syscw = z.read_bytes = z.write_bytes = 7;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(total(t, false).cpu_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(total(t, true).io_evidence, EVIDENCE_EXACT);
	assert_int_equal(total(t, true).read_bytes, 7);
	tally_free(t);
}

/* What its children did is in it, also where something else has told of the process alone. */
static void test_bytes_of_one_with_children_are_those_it_had_at_its_end(void **state)
{
	struct tally *t = tally_new("job", true);
	const struct birth child = { .pid = 102, .ppid = 101 };
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 1);
	struct exit_account account;
	size_t n;

	(void)state;
	exit_account_init(&account);
	account.cpu_ns = account.user_ns = account.system_ns = 0;
	account.wchar = 1024;
	z.rchar = z.wchar = z.read_bytes = z.write_bytes = 20000;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_fork(t, &child);
	tally_account(t, 101, &account);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(tally_processes(t, &n)[0].wchar, 20000);
	tally_free(t);
}

/* What nobody waits for is in no account: the sum must not be called exact. */
static void test_children_of_those_who_ignore_sigchld_are_missed_openly(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 1);
	struct series_point point;
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	add_sample(&snap, 101, MB, MB, 0);
	snap.processes[0].ignores_sigchld = true;
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_UNKNOWN);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0, 3);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_LOWER_BOUND);
	snapshot_release(&snap);
	tally_free(t);
}

/* The same when the parent was never seen ignoring it: the samples know of more. */
static void test_samples_that_exceed_wait4_end_exactness(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 1);
	struct series_point point;
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	add_sample(&snap, 101, MB, MB, SECOND);
	add_sample(&snap, 102, MB, MB, 2 * SECOND);
	tally_snapshot(t, &snap, 1, &point);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_LOWER_BOUND);
	snapshot_release(&snap);
	tally_free(t);
}

static void test_unreadable_io_is_said(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample known = zombie_of(101), hidden = zombie_of(102);
	struct reaped r = ended(101, 0, 1, 1), r2 = ended(102, 0, 1, 1);

	(void)state;
	known.rchar = 5;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r, &known, 5, 5);
	tally_reap(t, &r2, &hidden, 6, 6);
	assert_int_equal(total(t, true).rchar, 5);
	assert_int_equal(total(t, true).io_evidence, EVIDENCE_LOWER_BOUND);
	tally_free(t);
}

static void test_events_wait_until_they_are_stored(void **state)
{
	struct tally *t = tally_new("job", true);
	const struct proc_event *events;
	size_t n;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	events = tally_pending_events(t, &n);
	assert_int_equal(n, 1);
	assert_int_equal(events[0].type, EVENT_SPAWN);
	assert_string_equal(events[0].job_id, "job");
	tally_pending_events(t, &n);
	assert_int_equal(n, 1); /* nobody said that they were stored */
	tally_events_stored(t);
	tally_exit(t, 101, 0x0700, 2);
	events = tally_pending_events(t, &n);
	assert_int_equal(n, 1);
	assert_int_equal(events[0].type, EVENT_EXIT);
	assert_int_equal(events[0].status.exit_code, 7);
	tally_events(t, &n);
	assert_int_equal(n, 2); /* all of them, for whoever has no store */
	tally_free(t);
}

static void test_sheets_are_counted_apart(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101), z2 = zombie_of(201);
	struct reaped r = ended(101, 0, 50, 1), r2 = ended(201, 0, 20, 2);
	struct usage u;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	tally_reap(t, &r, &z, SECOND, SECOND);
	tally_end_sheet(t, SECOND, true, &u);
	assert_int_equal(u.user_ns, SECOND);
	assert_int_equal(u.wall_ns, SECOND);
	tally_begin_sheet(t, SECOND, true);
	root(t, 201, 2, SECOND);
	tally_reap(t, &r2, &z2, 3 * SECOND, 3 * SECOND);
	tally_end_sheet(t, 4 * SECOND, true, &u);
	assert_int_equal(u.user_ns, 2 * SECOND);
	assert_int_equal(u.max_process_rss_bytes, 20 * MB);
	assert_int_equal(u.wall_ns, 3 * SECOND);
	u = total(t, true);
	assert_int_equal(u.user_ns, 3 * SECOND);
	assert_int_equal(u.max_process_rss_bytes, 50 * MB);
	assert_int_equal(u.spawn_count, 2);
	/* One process at a time, so the larger of two exact marks is exact. */
	assert_int_equal(u.peak_rss_bytes, 50 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_EXACT);
	tally_free(t);
}

/* Beyond the cap processes are counted and no longer listed, and that is said. */
static void test_a_flood_is_counted_to_the_last(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0x0300, 1, 0);
	const struct proc_event *events;
	struct series_point point;
	struct snapshot snap;
	size_t n;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	for (pid_t pid = 1000; pid < 1000 + TALLY_MAX_PROCESSES + 10; pid++)
		fork_of(t, pid, 101, 2);
	add_sample(&snap, 1000 + TALLY_MAX_PROCESSES + 5, MB, MB, 0);
	tally_snapshot(t, &snap, 1, &point); /* one that is not listed is not counted again */
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(total(t, false).spawn_count, TALLY_MAX_PROCESSES + 11);
	assert_int_equal(total(t, false).peak_processes, TALLY_MAX_PROCESSES + 11);
	tally_exit(t, 1000 + TALLY_MAX_PROCESSES + 5, 0, 3);
	tally_snapshot(t, &snap, 1, &point); /* as a zombie, it is still the same one */
	z = zombie_of(1000 + TALLY_MAX_PROCESSES + 5);
	tally_reap(t, &(struct reaped){ .pid = 1000 + TALLY_MAX_PROCESSES + 5 }, &z, 3, 3);
	assert_int_equal(total(t, false).spawn_count, TALLY_MAX_PROCESSES + 11);
	z = zombie_of(101);
	for (pid_t pid = 1000; pid < 1000 + TALLY_MAX_PROCESSES + 10; pid++)
		tally_exit(t, pid, 0, 3);
	assert_int_equal(tally_unlisted_processes(t), 11);
	assert_non_null(tally_processes(t, &n));
	assert_int_equal(n, TALLY_MAX_PROCESSES);
	tally_reap(t, &r, &z, 9, 9);
	events = tally_events(t, &n);
	assert_true(n >= TALLY_MAX_EVENTS);
	assert_int_equal(events[n - 1].key.pid,
			 101); /* how the command ended is not lost in the flood */
	assert_int_equal(events[n - 1].status.exit_code, 3);
	snapshot_release(&snap);
	tally_free(t);
}

static void test_most_at_once_is_exact(void **state)
{
	struct tally *t = tally_new("job", true);

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	for (pid_t pid = 1000; pid < 1250; pid++)
		fork_of(t, pid, 101, 2);
	for (pid_t pid = 1000; pid < 1250; pid++)
		tally_exit(t, pid, 0, 3);
	fork_of(t, 2000, 101, 4);
	assert_int_equal(total(t, false).peak_processes, 251);
	tally_free(t);
}

/* The sample may show a child before the news of its birth: the parent is no leaf all the same. */
static void test_parent_of_a_child_seen_early_is_no_leaf(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 300, 1);
	struct series_point point;
	struct snapshot snap;
	size_t n;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	add_sample(&snap, 102, MB, MB, 0);
	snap.processes[0].ppid = 101;
	tally_snapshot(t, &snap, 1, &point);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0, 3);
	tally_reap(t, &r, &z, 5, 5);
	assert_false(
		u64_known(tally_processes(t, &n)[0].max_rss_bytes)); /* 300 MB may be the child's */
	snapshot_release(&snap);
	tally_free(t);
}

/* A start by the clock tick may be up to a tick too early, and the parent's is not. */
static void test_no_child_is_born_before_its_parent(void **state)
{
	struct tally *t = tally_new("job", false);
	struct series_point point;
	struct snapshot snap;
	size_t n;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 5 * SECOND + 7);
	add_sample(&snap, 102, MB, MB, 0);
	add_sample(&snap, 103, MB, MB, 0);
	add_sample(&snap, 104, MB, MB, 0);
	snap.processes[0].ppid = snap.processes[1].ppid = snap.processes[2].ppid = 101;
	snap.processes[0].start_wall_ns = 5 * SECOND;
	snap.processes[1].start_wall_ns = 6 * SECOND;
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(tally_processes(t, &n)[1].born_wall_ns, 5 * SECOND + 7);
	assert_int_equal(tally_processes(t, &n)[2].born_wall_ns, 6 * SECOND);
	assert_false(u64_known(tally_processes(t, &n)[3].born_wall_ns));
	assert_int_equal(n, 4);
	snapshot_release(&snap);
	tally_free(t);
}

/* What sheet 1 left running is not billed to sheet 2. */
static void test_leftovers_are_billed_to_their_own_sheet(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(102), z2 = zombie_of(201);
	struct reaped r = ended(102, 0, 50, 5), r2 = ended(201, 0, 1, 1);
	struct usage u;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 1);
	tally_begin_sheet(t, SECOND, false);
	root(t, 201, 2, 1);
	z2.sheet_num = 2;
	tally_reap(t, &r, &z, 2, 2);
	tally_reap(t, &r2, &z2, 3, 3);
	tally_end_sheet(t, 4 * SECOND, true, &u);
	assert_int_equal(u.user_ns, SECOND);
	assert_int_equal(u.spawn_count, 1);
	assert_int_equal(total(t, true).user_ns, 6 * SECOND);
	tally_free(t);
}

/* So is what try 1 left, in try 2 of the same sheet; and a tick is summed for each. */
static void test_tries_are_counted_apart(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(102);
	struct reaped r = ended(102, 0, 50, 5);
	struct series_point point;
	struct snapshot snap;
	struct usage u;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 1);
	tally_begin_sheet(t, SECOND, false);
	root(t, 201, 1, 1);
	add_sample(&snap, 102, 200 * MB, 200 * MB, 0);
	add_sample(&snap, 201, 2 * MB, 2 * MB, 0);
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(point.rss_bytes, 202 * MB);
	tally_reap(t, &r, &z, 2, 2);
	tally_end_sheet(t, 4 * SECOND, true, &u);
	assert_false(u64_known(u.user_ns));
	assert_int_equal(u.peak_rss_bytes, 2 * MB);
	assert_int_equal(u.max_process_rss_bytes, 2 * MB);
	assert_int_equal(u.peak_processes, 1);
	snapshot_release(&snap);
	tally_free(t);
}

/* Of a double fork: the one in the middle is dead, nobody waits for it, and others are born since.
 */
static void test_a_zombie_is_no_living_process(void **state)
{
	struct tally *t = tally_new("job", true);
	struct series_point point;
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0, 3);
	fork_of(t, 103, 101, 4);
	add_sample(&snap, 101, MB, MB, 0);
	add_sample(&snap, 102, 0, 0, 0);
	snap.processes[1].state = 'Z';
	add_sample(&snap, 103, MB, MB, 0);
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(point.n_processes, 2);
	assert_int_equal(total(t, false).peak_processes, 2);
	assert_int_equal(total(t, false).spawn_count, 3);
	snapshot_release(&snap);
	tally_free(t);
}

/* A grandchild that burns on after the command's end is not crammed into the command's time. */
static void test_average_is_over_the_time_that_was_used(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101), z2 = zombie_of(102);
	struct reaped r = ended(101, 0, 1, 0), r2 = ended(102, 0, 1, 2);
	struct usage u;

	(void)state;
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 1);
	tally_reap(t, &r, &z, 2, SECOND / 10);
	tally_reap(t, &r2, &z2, 2, 2 * SECOND);
	tally_end_sheet(t, SECOND / 10, true, &u);
	assert_true(u.peak_cpu_percent == 100.0);
	assert_int_equal(u.wall_ns, SECOND / 10);
	tally_free(t);
}

static void test_largest_process_is_exact_only_if_nothing_hides(void **state)
{
	struct tally *t = tally_new("job", true);
	struct proc_sample z = zombie_of(101), z2 = zombie_of(102);
	struct reaped r = ended(101, 0, 6, 0), r2 = ended(102, 0, 2, 0);
	struct usage u;

	(void)state;
	r.pre_exec_rss_bytes = 6 * MB; /* the root's mark may be ours */
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 1);
	tally_reap(t, &r2, &z2, 2, 2);
	assert_int_equal(total(t, false).max_process_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(total(t, true).max_process_rss_evidence, EVIDENCE_EXACT);
	tally_reap(t, &r, &z, 2, 2);
	u = total(t, true);
	assert_int_equal(u.max_process_rss_bytes, 2 * MB);
	assert_int_equal(u.max_process_rss_evidence, EVIDENCE_LOWER_BOUND);
	tally_free(t);
}

/* A child that is missing once between two reads must not be billed twice. */
static void test_a_dip_is_not_billed_again(void **state)
{
	static const uint64_t totals[] = { 1, 2, 1, 4 }; /* seconds of CPU at 1, 2, 3, 4 s */
	static const double percents[] = { 100.0, 100.0, 0.0, 200.0 };
	struct tally *t = tally_new("job", true);
	struct series_point point;
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	tally_begin_sheet(t, 0, true);
	root(t, 101, 1, 1);
	add_sample(&snap, 101, MB, MB, 0);
	for (size_t i = 0; i < 4; i++) {
		snap.processes[0].user_ns = totals[i] * SECOND;
		snap.boot_ns = (i + 1) * SECOND;
		tally_snapshot(t, &snap, 1, &point);
		assert_true(point.cpu_percent == percents[i]);
	}
	snapshot_release(&snap);
	tally_free(t);
}

/* A shell that uses no GPU, and a process below it that may. */
static void gpu_tick(struct tally *t, struct snapshot *snap, uint64_t memory_bytes, double percent)
{
	struct series_point point;

	snap->boot_ns += SECOND;
	snap->processes[0].gpu_memory_bytes = 0;
	snap->processes[0].gpu_percent = 0;
	snap->processes[1].gpu_memory_bytes = memory_bytes;
	snap->processes[1].gpu_percent = percent;
	tally_snapshot(t, snap, 1, &point);
}

static struct tally *gpu_job(struct snapshot *snap)
{
	struct tally *t = tally_new("job", true);

	snapshot_init(snap);
	tally_begin_sheet(t, SECOND, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	add_sample(snap, 101, MB, MB, 0);
	add_sample(snap, 102, MB, MB, 0);
	snap->boot_ns = SECOND;
	gpu_tick(t, snap, 0, 0);
	return t;
}

/* nvidia-smi tells who holds memory, and not how busy they are: nobody was idle. */
static void test_a_gpu_share_that_is_not_told_is_no_idleness(void **state)
{
	struct snapshot snap;
	struct tally *t = gpu_job(&snap);
	size_t n;

	(void)state;
	gpu_tick(t, &snap, 0, 0); /* before it takes the GPU */
	gpu_tick(t, &snap, 0, 0);
	assert_int_equal(total(t, false).gpu_busy_ns, 0);
	gpu_tick(t, &snap, MB, F64_UNKNOWN);
	gpu_tick(t, &snap, U64_UNKNOWN, F64_UNKNOWN);
	gpu_tick(t, &snap, 0, 0); /* after */
	assert_int_equal(total(t, false).gpu_busy_ns, U64_UNKNOWN);
	assert_int_equal(total(t, false).gpu_idle_ns, U64_UNKNOWN);
	assert_int_equal(total(t, false).peak_gpu_bytes, MB);
	assert_int_equal(tally_processes(t, &n)[0].gpu_busy_ns, 0);
	assert_int_equal(tally_processes(t, &n)[1].gpu_busy_ns, U64_UNKNOWN);
	assert_int_equal(tally_processes(t, &n)[0].gpu_idle_ns, 0);
	assert_int_equal(tally_processes(t, &n)[1].gpu_idle_ns, U64_UNKNOWN);
	snapshot_release(&snap);
	tally_free(t);
}

static void test_gpu_time_outlives_a_gap(void **state)
{
	struct snapshot snap;
	struct tally *t = gpu_job(&snap);

	(void)state;
	gpu_tick(t, &snap, MB, 50);
	gpu_tick(t, &snap, U64_UNKNOWN, F64_UNKNOWN); /* the driver did not answer */
	gpu_tick(t, &snap, MB, 0);
	assert_int_equal(total(t, false).gpu_busy_ns, SECOND / 2);
	assert_int_equal(total(t, false).gpu_idle_ns, SECOND);
	assert_int_equal(tally_untold_gpu_ns(t), SECOND); /* which the sums lack */
	snapshot_release(&snap);
	tally_free(t);
}

/* What is held in vain is counted for each process and GPU, though others are busy. */
static void test_gpus_held_beside_a_busy_one(void **state)
{
	struct snapshot snap;
	struct tally *t = gpu_job(&snap);
	struct series_point point;
	size_t n;

	(void)state;
	snap.boot_ns += SECOND;
	snap.processes[0].gpu_memory_bytes = MB; /* and does nothing, on one */
	snap.processes[0].gpu_idle_devices = F64_UNKNOWN;
	snap.processes[1].gpu_memory_bytes = 4 * MB;
	snap.processes[1].gpu_percent = 90;
	snap.processes[1].gpu_idle_devices = 3;
	tally_snapshot(t, &snap, 1, &point);
	assert_int_equal(total(t, false).gpu_busy_ns, SECOND / 10 * 9);
	assert_int_equal(total(t, false).gpu_idle_ns, 4 * SECOND);
	assert_int_equal(tally_processes(t, &n)[0].gpu_idle_ns, SECOND);
	assert_int_equal(tally_processes(t, &n)[1].gpu_idle_ns, 3 * SECOND);
	snapshot_release(&snap);
	tally_free(t);
}

/* A second before the first reading was like it; the silence of a driver is not. */
static void test_gpu_time_before_the_first_reading(void **state)
{
	struct snapshot snap;
	struct tally *t = tally_new("job", true);

	(void)state;
	for (int untold = 1; untold <= 4; untold += 3) {
		snapshot_init(&snap);
		tally_free(t);
		t = tally_new("job", true);
		tally_begin_sheet(t, SECOND, true);
		root(t, 101, 1, 1);
		fork_of(t, 102, 101, 2);
		add_sample(&snap, 101, MB, MB, 0);
		add_sample(&snap, 102, MB, MB, 0);
		snap.boot_ns = SECOND;
		for (int i = 0; i <= untold; i++)
			gpu_tick(t, &snap, U64_UNKNOWN, F64_UNKNOWN);
		for (int i = 0; i < 8; i++)
			gpu_tick(t, &snap, MB, 50);
		assert_int_equal(total(t, false).gpu_busy_ns, (untold == 1 ? 9 : 8) * SECOND / 2);
		assert_int_equal(tally_untold_gpu_ns(t), untold == 1 ? 0 : 4 * SECOND);
		snapshot_release(&snap);
	}
	tally_free(t);
}

/* 137 is what a shell makes of it; who was killed is another, where that is known. */
static void test_who_was_killed_is_not_who_tells_it(void **state)
{
	static const struct {
		int child_status, root_status;
		pid_t victim;
	} cases[] = {
		{ 9, 137 << 8, 102 },
		{ 0, 137 << 8, 101 }, /* nobody that is known */
		{ 9, 9, 101 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct tally *t = tally_new("job", true);
		struct proc_sample z = zombie_of(101);
		struct reaped r = ended(101, cases[i].root_status, 1, 0);
		const struct proc_event *events;
		size_t n;

		tally_begin_sheet(t, 0, true);
		root(t, 101, 1, 1);
		fork_of(t, 102, 101, 2);
		tally_exit(t, 102, cases[i].child_status, 3);
		tally_reap(t, &r, &z, 5, 5);
		tally_oom(t, 101, 1, "the count rose", 6);
		events = tally_events(t, &n);
		assert_true(n > 0);
		assert_int_equal(events[n - 1].type, EVENT_OOM);
		assert_int_equal(events[n - 1].key.pid, cases[i].victim);
		tally_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone_the_kernel_mark_is_exact),
		cmocka_unit_test(test_peak_of_a_tree_is_at_least_its_largest_process),
		cmocka_unit_test(test_mark_from_before_exec_is_no_measurement),
		cmocka_unit_test(test_marks_of_all_processes_are_the_jobs),
		cmocka_unit_test(test_a_mark_that_is_a_little_more_is_none_either),
		cmocka_unit_test(test_without_births_counts_are_lower_bounds),
		cmocka_unit_test(test_lost_events_end_exactness),
		cmocka_unit_test(test_same_pid_twice_is_two_processes),
		cmocka_unit_test(test_tree_cpu_holds_children_that_are_gone),
		cmocka_unit_test(test_cpu_does_not_leak_into_the_next_sheet),
		cmocka_unit_test(test_what_still_runs_makes_sums_lower_bounds),
		cmocka_unit_test(test_bytes_of_one_with_children_are_those_it_had_at_its_end),
		cmocka_unit_test(test_children_of_those_who_ignore_sigchld_are_missed_openly),
		cmocka_unit_test(test_samples_that_exceed_wait4_end_exactness),
		cmocka_unit_test(test_unreadable_io_is_said),
		cmocka_unit_test(test_events_wait_until_they_are_stored),
		cmocka_unit_test(test_sheets_are_counted_apart),
		cmocka_unit_test(test_a_flood_is_counted_to_the_last),
		cmocka_unit_test(test_most_at_once_is_exact),
		cmocka_unit_test(test_parent_of_a_child_seen_early_is_no_leaf),
		cmocka_unit_test(test_no_child_is_born_before_its_parent),
		cmocka_unit_test(test_leftovers_are_billed_to_their_own_sheet),
		cmocka_unit_test(test_tries_are_counted_apart),
		cmocka_unit_test(test_a_zombie_is_no_living_process),
		cmocka_unit_test(test_average_is_over_the_time_that_was_used),
		cmocka_unit_test(test_largest_process_is_exact_only_if_nothing_hides),
		cmocka_unit_test(test_what_the_kernel_tells_of_an_end_is_kept),
		cmocka_unit_test(test_a_name_stands_where_there_is_no_command),
		cmocka_unit_test(test_a_dip_is_not_billed_again),
		cmocka_unit_test(test_a_gpu_share_that_is_not_told_is_no_idleness),
		cmocka_unit_test(test_gpu_time_outlives_a_gap),
		cmocka_unit_test(test_gpu_time_before_the_first_reading),
		cmocka_unit_test(test_gpus_held_beside_a_busy_one),
		cmocka_unit_test(test_who_was_killed_is_not_who_tells_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
