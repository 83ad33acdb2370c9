/* What a job, its sheets and their tries used of CPU and I/O, and how sure that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "tally_fixture.h"

/* Short-lived children are in the CPU of whoever waited for them. */
static void test_tree_cpu_holds_children_that_are_gone(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);

	tally_begin_sheet(t, 8 * SECOND, true);
	root(t, 101, 1, 1);
	add_sample(snap, 101, MB, MB, SECOND);
	snap->boot_ns = 10 * SECOND;
	tally_snapshot(t, snap, 1, &point);
	assert_true(point.cpu_percent == 50.0); /* all since the sheet began */
	snap->boot_ns = 12 * SECOND;
	snap->processes[0].child_user_ns = SECOND / 2;
	tally_snapshot(t, snap, 1, &point);
	assert_true(point.cpu_percent == 25.0);
	snap->boot_ns +=
		SECOND / 50; /* two clock ticks are no percentage: the window reaches back */
	tally_snapshot(t, snap, 1, &point);
	assert_true(fabs(point.cpu_percent - 25.0 * 100 / 101) < 1e-9);
}

/* Where nothing is shared there is no number of its own; one process is never less than its mark.
 */
static void test_shared_pages_count_once(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);
	struct usage u;

	tally_begin_sheet(t, 8 * SECOND, true);
	root(t, 101, 1, 1);
	fork_of(t, 102, 101, 2);
	add_sample(snap, 101, 300 * MB, 300 * MB, SECOND);
	add_sample(snap, 102, 100 * MB, 100 * MB, SECOND);
	snap->boot_ns = 10 * SECOND;
	tally_snapshot(t, snap, 1, &point);
	tally_total(t, 11 * SECOND, false, &u);
	assert_false(u64_known(u.peak_memory_bytes));
	assert_int_equal(usage_memory_bytes(&u), 400 * MB);
	snap->processes[1].rss_bytes = 300 * MB;
	tally_set_share(t, 0.75);
	tally_snapshot(t, snap, 1, &point);
	tally_total(t, 11 * SECOND, false, &u);
	assert_int_equal(u.peak_rss_bytes, 600 * MB);
	assert_int_equal(u.peak_memory_bytes, 450 * MB);
	assert_int_equal(usage_memory_bytes(&u), 450 * MB);
}

/* What the sheet before used after its last tick is not charged to this one. */
static void test_cpu_does_not_leak_into_the_next_sheet(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);

	begin(t);
	end(t, 101, 0, 1, 5);
	tally_begin_sheet(t, 10 * SECOND, true);
	root(t, 201, 2, 1);
	add_sample(snap, 201, MB, MB, SECOND);
	snap->boot_ns = 12 * SECOND;
	tally_snapshot(t, snap, 2, &point);
	assert_true(point.cpu_percent == 50.0);

	tally_begin_sheet(t, 20 * SECOND, false);
	snap->boot_ns = 22 * SECOND;
	tally_snapshot(t, snap, 3, &point);
	assert_true(isnan(point.cpu_percent)); /* something was left running: whose CPU is it? */
}

static void test_what_still_runs_makes_sums_lower_bounds(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 1);

	z.rchar = z.wchar = z.syscr = z.syscw = z.read_bytes = z.write_bytes = 7;
	begin(t);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(total(t, false).cpu_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(total(t, true).io_evidence, EVIDENCE_EXACT);
	assert_int_equal(total(t, true).read_bytes, 7);
}

/* What its children did is in it, also where something else has told of the process alone. */
static void test_bytes_of_one_with_children_are_those_it_had_at_its_end(void **state)
{
	struct tally *t = tally_of(state);
	const struct birth child = { .pid = 102, .ppid = 101 };
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 1, 1);
	struct exit_account account;
	size_t n;

	exit_account_init(&account);
	account.cpu_ns = account.user_ns = account.system_ns = 0;
	account.wchar = 1024;
	z.rchar = z.wchar = z.read_bytes = z.write_bytes = 20000;
	begin(t);
	tally_birth(t, &child, false);
	report_end(t, 101, 0, 4, NULL, &account);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(tally_processes(t, &n)[0].wchar, 20000);
}

/* What nobody waits for is in no account: the sum must not be called exact. */
static void test_children_of_those_who_ignore_sigchld_are_missed_openly(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);

	begin(t);
	add_sample(snap, 101, MB, MB, 0);
	snap->processes[0].ignores_sigchld = true;
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_UNKNOWN);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0, 3);
	end(t, 101, 0, 1, 1);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_LOWER_BOUND);
}

/* The same when the parent was never seen ignoring it: the samples know of more. */
static void test_samples_that_exceed_wait4_end_exactness(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);

	begin(t);
	add_sample(snap, 101, MB, MB, SECOND);
	add_sample(snap, 102, MB, MB, 2 * SECOND);
	tally_snapshot(t, snap, 1, &point);
	end(t, 101, 0, 1, 1);
	assert_int_equal(total(t, true).cpu_evidence, EVIDENCE_LOWER_BOUND);
}

/* A parent that is waited for and has not waited itself (SA_NOCLDWAIT): its children's ends are
 * known, and are more than the total. */
static void test_parts_that_exceed_the_total_end_exactness(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_record child;
	struct usage u;

	begin(t);
	fork_of(t, 102, 101, 2);
	proc_record_init(&child);
	child.key.pid = 102;
	child.died_wall_ns = 3;
	child.user_ns = SECOND / 2;
	child.system_ns = 7;
	child.cpu_evidence = EVIDENCE_EXACT;
	tally_merge_end(t, &child, false);
	end(t, 101, 0, 1, 0);
	u = total(t, true);
	assert_int_equal(u.cpu_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(u.user_ns, SECOND / 2);
	assert_true(u.system_ns >= 7);
}

static void test_unreadable_io_is_said(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample known = zombie_of(101), hidden = zombie_of(102);
	struct reaped r = ended(101, 0, 1, 1), r2 = ended(102, 0, 1, 1);

	known.rchar = 5;
	begin(t);
	tally_reap(t, &r, &known, 5, 5);
	tally_reap(t, &r2, &hidden, 6, 6);
	assert_int_equal(total(t, true).rchar, 5);
	assert_int_equal(total(t, true).io_evidence, EVIDENCE_LOWER_BOUND);
}

static void test_sheets_are_counted_apart(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101), z2 = zombie_of(201);
	struct reaped r = ended(101, 0, 50, 1), r2 = ended(201, 0, 20, 2);
	struct usage u;

	begin(t);
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
}

/* What sheet 1 left running is not billed to sheet 2. */
static void test_leftovers_are_billed_to_their_own_sheet(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(102), z2 = zombie_of(201);
	struct reaped r = ended(102, 0, 50, 5), r2 = ended(201, 0, 1, 1);
	struct usage u;

	begin(t);
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
}

/* So is what try 1 left, in try 2 of the same sheet; and a tick is summed for each. */
static void test_tries_are_counted_apart(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(102);
	struct reaped r = ended(102, 0, 50, 5);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);
	struct usage u;

	begin(t);
	fork_of(t, 102, 101, 1);
	tally_begin_sheet(t, SECOND, false);
	root(t, 201, 1, 1);
	add_sample(snap, 102, 200 * MB, 200 * MB, 0);
	add_sample(snap, 201, 2 * MB, 2 * MB, 0);
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(point.rss_bytes, 202 * MB);
	tally_reap(t, &r, &z, 2, 2);
	tally_end_sheet(t, 4 * SECOND, true, &u);
	assert_false(u64_known(u.user_ns));
	assert_int_equal(u.peak_rss_bytes, 2 * MB);
	assert_int_equal(u.max_process_rss_bytes, 2 * MB);
	assert_int_equal(u.peak_processes, 1);
}

/* A grandchild that burns on after the command's end is not crammed into the command's time. */
static void test_average_is_over_the_time_that_was_used(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101), z2 = zombie_of(102);
	struct reaped r = ended(101, 0, 1, 0), r2 = ended(102, 0, 1, 2);
	struct usage u;

	begin(t);
	fork_of(t, 102, 101, 1);
	tally_reap(t, &r, &z, 2, SECOND / 10);
	tally_reap(t, &r2, &z2, 2, 2 * SECOND);
	tally_end_sheet(t, SECOND / 10, true, &u);
	assert_true(u.peak_cpu_percent == 100.0);
	assert_int_equal(u.wall_ns, SECOND / 10);
}

/* A child that is missing once between two reads must not be billed twice. */
static void test_a_dip_is_not_billed_again(void **state)
{
	static const uint64_t totals[] = { 1, 2, 1, 4 }; /* seconds of CPU at 1, 2, 3, 4 s */
	static const double percents[] = { 100.0, 100.0, 0.0, 200.0 };
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);

	begin(t);
	add_sample(snap, 101, MB, MB, 0);
	for (size_t i = 0; i < 4; i++) {
		snap->processes[0].user_ns = totals[i] * SECOND;
		snap->boot_ns = (i + 1) * SECOND;
		tally_snapshot(t, snap, 1, &point);
		assert_true(point.cpu_percent == percents[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TALLY_TEST(test_tree_cpu_holds_children_that_are_gone),
		TALLY_TEST(test_shared_pages_count_once),
		TALLY_TEST(test_cpu_does_not_leak_into_the_next_sheet),
		TALLY_TEST(test_what_still_runs_makes_sums_lower_bounds),
		TALLY_TEST(test_bytes_of_one_with_children_are_those_it_had_at_its_end),
		TALLY_TEST(test_children_of_those_who_ignore_sigchld_are_missed_openly),
		TALLY_TEST(test_samples_that_exceed_wait4_end_exactness),
		TALLY_TEST(test_parts_that_exceed_the_total_end_exactness),
		TALLY_TEST(test_unreadable_io_is_said),
		TALLY_TEST(test_sheets_are_counted_apart),
		TALLY_TEST(test_leftovers_are_billed_to_their_own_sheet),
		TALLY_TEST(test_tries_are_counted_apart),
		TALLY_TEST(test_average_is_over_the_time_that_was_used),
		TALLY_TEST(test_a_dip_is_not_billed_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
