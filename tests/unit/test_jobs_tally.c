/* Who there was, how each ended, and how large they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tally_fixture.h"

static void test_alone_the_kernel_mark_is_exact(void **state)
{
	struct tally *t = tally_of(state);
	struct usage u;

	begin(t);
	fork_of(t, 101, RUNNER, 1); /* the kernel's word for the same birth */
	end(t, 101, 0, 300, 1.5);
	u = total(t, true);
	assert_int_equal(u.spawn_count, 1);
	assert_int_equal(u.spawn_evidence, EVIDENCE_EXACT);
	assert_int_equal(u.peak_rss_bytes, 300 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_EXACT);
	assert_int_equal(u.user_ns, 3 * SECOND / 2);
	assert_int_equal(u.cpu_evidence, EVIDENCE_EXACT);
}

/* Between two samples a child had 300 MB: the tree had at least that. */
static void test_peak_of_a_tree_is_at_least_its_largest_process(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);
	struct usage u;

	begin(t);
	fork_of(t, 102, 101, 2);
	add_sample(snap, 101, 10 * MB, 10 * MB, 0);
	add_sample(snap, 102, 20 * MB, 25 * MB, 0);
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(point.rss_bytes, 30 * MB);
	u = total(t, false);
	assert_int_equal(u.peak_rss_bytes, 30 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_SAMPLED);
	tally_exit(t, 102, 0, 3);
	end(t, 101, 0, 300, 0);
	u = total(t, true);
	assert_int_equal(u.peak_rss_bytes, 300 * MB);
	assert_int_equal(u.peak_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(u.max_process_rss_evidence, EVIDENCE_EXACT);
}

/* A process that no sample saw, and that its own parent waited for. */
static void test_what_the_kernel_tells_of_an_end_is_kept(void **state)
{
	struct tally *t = tally_of(state);
	struct snapshot *snap = snapshot_of(state);
	struct exit_account account;
	const struct proc_record *p;
	struct series_point point;
	size_t n;

	exit_account_init(&account);
	begin(t);
	fork_of(t, 102, 101, 2);
	fork_of(t, 103, 101, 2);
	account.cpu_ns = 5 * SECOND;
	account.user_ns = 3 * SECOND;
	account.system_ns = 2 * SECOND;
	account.max_rss_bytes = 40 * MB;
	account.rchar = 1000;
	account.major_faults = 3;
	report_end(t, 102, 0x0200, 3, NULL, &account);
	exit_account_init(&account);
	report_end(t, 103, 0, 3, NULL, &account); /* the kernel says nothing: that is not 0 */
	report_end(t, 999, 0, 3, NULL, &account); /* of another job */
	add_sample(snap, 102, U64_UNKNOWN, U64_UNKNOWN, 0);
	snap->processes[0].state = 'Z'; /* a zombie tells nothing that takes this back */
	tally_snapshot(t, snap, 1, &point);
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
}

/* Whose command line nobody could read has the kernel's name for it, and who has one keeps it. */
static void test_a_name_stands_where_there_is_no_command(void **state)
{
	struct tally *t = tally_of(state);
	const struct proc_record *p;
	size_t n;

	begin(t);
	fork_of(t, 102, 101, 2);
	fork_of(t, 103, 101, 2);
	tally_exec(t, 102, NULL);
	report_end(t, 101, 0, 3, "sh", NULL);
	report_end(t, 102, 0, 3, "true", NULL);
	report_end(t, 103, 0, 3, "sh", NULL);
	report_end(t, 999, 0, 3, "another", NULL);
	p = tally_processes(t, &n);
	assert_int_equal(n, 3);
	assert_string_equal(p[0].command, "root");
	assert_string_equal(p[1].command, "true");
	assert_string_equal(p[2].command, "root");
}

/* ru_maxrss of a small command is that of the child before exec: it only bounds the truth. */
static void test_mark_from_before_exec_is_no_measurement(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 2, 0);
	struct usage u;

	r.pre_exec_rss_bytes = 2 * MB;
	begin(t);
	tally_reap(t, &r, &z, 5, 5);
	u = total(t, true);
	assert_int_equal(u.max_process_rss_bytes, 2 * MB);
	assert_int_equal(u.max_process_rss_evidence, EVIDENCE_UPPER_BOUND);
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
		report_end(t, 101, 0, 4, NULL, &account);
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
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 5, 0);

	r.pre_exec_rss_bytes = 5 * MB - 380 * 1024;
	begin(t);
	tally_reap(t, &r, &z, 5, 5);
	assert_int_equal(total(t, true).max_process_rss_evidence, EVIDENCE_UPPER_BOUND);
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
	struct tally *t = tally_of(state);

	begin(t);
	tally_lost(t, 3);
	assert_int_equal(total(t, true).spawn_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(tally_gaps(t).n_lost, 3);
}

static void test_same_pid_twice_is_two_processes(void **state)
{
	struct tally *t = tally_of(state);
	size_t n;

	begin(t);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0x0100, 3);
	fork_of(t, 102, 101, 4);
	tally_exit(t, 102, 9, 5);
	assert_int_equal(total(t, false).spawn_count, 3);
	assert_int_equal(tally_processes(t, &n)[1].status.exit_code, 1);
	assert_int_equal(tally_processes(t, &n)[2].status.signal, 9);
	assert_int_equal(n, 3);
}

static void test_events_wait_until_they_are_stored(void **state)
{
	struct tally *t = tally_of(state);
	const struct proc_event *events;
	size_t n;

	begin(t);
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
}

/* Beyond the cap processes are counted and no longer listed, and that is said. */
static void test_a_flood_is_counted_to_the_last(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0x0300, 1, 0);
	const struct proc_event *events;
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);
	size_t n;

	begin(t);
	for (pid_t pid = 1000; pid < 1000 + TALLY_MAX_PROCESSES + 10; pid++)
		fork_of(t, pid, 101, 2);
	add_sample(snap, 1000 + TALLY_MAX_PROCESSES + 5, MB, MB, 0);
	tally_snapshot(t, snap, 1, &point); /* one that is not listed is not counted again */
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(total(t, false).spawn_count, TALLY_MAX_PROCESSES + 11);
	assert_int_equal(total(t, false).peak_processes, TALLY_MAX_PROCESSES + 11);
	tally_exit(t, 1000 + TALLY_MAX_PROCESSES + 5, 0, 3);
	tally_snapshot(t, snap, 1, &point); /* as a zombie, it is still the same one */
	z = zombie_of(1000 + TALLY_MAX_PROCESSES + 5);
	tally_reap(t, &(struct reaped){ .pid = 1000 + TALLY_MAX_PROCESSES + 5 }, &z, 3, 3);
	assert_int_equal(total(t, false).spawn_count, TALLY_MAX_PROCESSES + 11);
	z = zombie_of(101);
	for (pid_t pid = 1000; pid < 1000 + TALLY_MAX_PROCESSES + 10; pid++)
		tally_exit(t, pid, 0, 3);
	assert_int_equal(tally_gaps(t).n_processes, 11);
	assert_non_null(tally_processes(t, &n));
	assert_int_equal(n, TALLY_MAX_PROCESSES);
	tally_reap(t, &r, &z, 9, 9);
	events = tally_events(t, &n);
	assert_true(n >= TALLY_MAX_EVENTS);
	assert_int_equal(events[n - 1].key.pid,
			 101); /* how the command ended is not lost in the flood */
	assert_int_equal(events[n - 1].status.exit_code, 3);
}

static void test_most_at_once_is_exact(void **state)
{
	struct tally *t = tally_of(state);

	begin(t);
	for (pid_t pid = 1000; pid < 1250; pid++)
		fork_of(t, pid, 101, 2);
	for (pid_t pid = 1000; pid < 1250; pid++)
		tally_exit(t, pid, 0, 3);
	fork_of(t, 2000, 101, 4);
	assert_int_equal(total(t, false).peak_processes, 251);
}

/* The sample may show a child before the news of its birth: the parent is no leaf all the same. */
static void test_parent_of_a_child_seen_early_is_no_leaf(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);
	size_t n;

	begin(t);
	add_sample(snap, 102, MB, MB, 0);
	snap->processes[0].ppid = 101;
	tally_snapshot(t, snap, 1, &point);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0, 3);
	end(t, 101, 0, 300, 1);
	assert_false(
		u64_known(tally_processes(t, &n)[0].max_rss_bytes)); /* 300 MB may be the child's */
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

/* Of a double fork: the one in the middle is dead, nobody waits for it, and others are born since.
 */
static void test_a_zombie_is_no_living_process(void **state)
{
	struct tally *t = tally_of(state);
	struct series_point point;
	struct snapshot *snap = snapshot_of(state);

	begin(t);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 0, 3);
	fork_of(t, 103, 101, 4);
	add_sample(snap, 101, MB, MB, 0);
	add_sample(snap, 102, 0, 0, 0);
	snap->processes[1].state = 'Z';
	add_sample(snap, 103, MB, MB, 0);
	tally_snapshot(t, snap, 1, &point);
	assert_int_equal(point.n_processes, 2);
	assert_int_equal(total(t, false).peak_processes, 2);
	assert_int_equal(total(t, false).spawn_count, 3);
}

static void test_largest_process_is_exact_only_if_nothing_hides(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101), z2 = zombie_of(102);
	struct reaped r = ended(101, 0, 6, 0), r2 = ended(102, 0, 2, 0);
	struct usage u;

	r.pre_exec_rss_bytes = 6 * MB; /* the root's mark may be ours */
	begin(t);
	fork_of(t, 102, 101, 1);
	tally_reap(t, &r2, &z2, 2, 2);
	assert_int_equal(total(t, false).max_process_rss_evidence, EVIDENCE_LOWER_BOUND);
	assert_int_equal(total(t, true).max_process_rss_evidence, EVIDENCE_EXACT);
	tally_reap(t, &r, &z, 2, 2);
	u = total(t, true);
	assert_int_equal(u.max_process_rss_bytes, 2 * MB);
	assert_int_equal(u.max_process_rss_evidence, EVIDENCE_LOWER_BOUND);
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

/* ---- ends that a better source reports ---- */

static struct proc_record reported_end(pid_t pid, uint64_t start, uint64_t died_wall_ns,
				       uint64_t cpu_ns)
{
	struct proc_record p;

	proc_record_init(&p);
	p.key = (struct proc_key){ pid, start };
	p.died_wall_ns = died_wall_ns;
	p.status = (struct exit_status){ 2, -1 };
	p.command = "name";
	p.user_ns = cpu_ns;
	p.system_ns = 0;
	p.max_rss_bytes = 4096;
	p.evidence = EVIDENCE_EXACT;
	p.cpu_evidence = EVIDENCE_LOWER_BOUND;
	p.rchar = 5;
	return p;
}

/* Its exit, and then its account, which has no time of its own. */
static void merge(struct tally *t, struct proc_record end, uint64_t cpu_ns)
{
	tally_merge_end(t, &end, true);
	end.died_wall_ns = U64_UNKNOWN;
	end.user_ns = cpu_ns;
	end.cpu_evidence = EVIDENCE_EXACT;
	tally_merge_end(t, &end, true);
}

static void test_an_end_is_merged_into_the_process_it_is_of(void **state)
{
	struct tally *t = tally_of(state);
	const struct proc_record *list;
	size_t n, n_events;

	begin(t);
	fork_of(t, 102, 101, 2);
	tally_exit(t, 102, 5 << 8, SECOND);
	fork_of(t, 102, 101, 8 * SECOND); /* the pid is used again */
	tally_exit(t, 102, 6 << 8, 9 * SECOND);
	(void)tally_events(t, &n_events);
	merge(t, reported_end(102, 70, SECOND + 100, 300), 450);
	merge(t, reported_end(103, 71, SECOND, 300), 450); /* not listed */
	list = tally_processes(t, &n);
	assert_int_equal(n, 3);
	assert_int_equal(list[1].user_ns, 450);
	assert_int_equal(list[1].cpu_evidence, EVIDENCE_EXACT);
	assert_int_equal(list[1].max_rss_bytes, 4096);
	assert_int_equal(list[1].evidence, EVIDENCE_EXACT);
	assert_int_equal(list[1].rchar, 5);
	assert_int_equal(list[1].status.exit_code, 5); /* as it was known before */
	assert_int_equal(list[1].died_wall_ns, SECOND);
	assert_false(u64_known(list[0].user_ns) || u64_known(list[2].user_ns));
	assert_int_equal(tally_count_inexact(t, false), 2);
	assert_int_equal(tally_count_inexact(t, true), 0);
	(void)tally_events(t, &n);
	assert_int_equal(n, n_events); /* its exit was told once */
}

/* Whichever source is first, and however often it reports: one exit, and the same record. */
static void test_the_order_of_sources_does_not_count(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_record before;
	const struct proc_record *list;
	size_t n;

	begin(t);
	fork_of(t, 102, 101, 2);
	tally_exec(t, 102, NULL); /* and its command is not known */
	merge(t, reported_end(102, 70, SECOND, 300), 450);
	tally_exit(t, 102, 2 << 8, SECOND + 5);
	(void)tally_events(t, &n);
	assert_int_equal(n, 3);
	list = tally_processes(t, &n);
	before = list[1];
	assert_int_equal(before.status.exit_code, 2);
	assert_int_equal(before.died_wall_ns, SECOND);
	assert_string_equal(before.command, "name");
	merge(t, reported_end(102, 70, SECOND, 300), 450);
	list = tally_processes(t, &n);
	assert_memory_equal(&before, &list[1], sizeof(before));
	assert_int_equal(tally_count_inexact(t, true), 0);
}

/* What wait4 reports of a leaf is exact, in other units. */
static void test_wait4_and_accounts_agree(void **state)
{
	struct tally *t = tally_of(state);
	const struct proc_record *list;
	size_t n;

	begin(t);
	merge(t, reported_end(101, 70, 4, 300), 450);
	end(t, 101, 0, 5, 1.0);
	list = tally_processes(t, &n);
	assert_int_equal(list[0].user_ns, SECOND);
	assert_int_equal(list[0].status.exit_code, 0); /* by wait4 */
	merge(t, reported_end(101, 70, 4, 300), 450);
	list = tally_processes(t, &n);
	assert_int_equal(list[0].user_ns, SECOND);
	assert_int_equal(list[0].cpu_evidence, EVIDENCE_EXACT);
}

/* Of one with children wait4 has the sum of all, and the zombie whole ticks: its account stays. */
static void test_an_account_is_better_than_a_zombie(void **state)
{
	struct tally *t = tally_of(state);
	struct proc_sample z = zombie_of(101);
	struct reaped r = ended(101, 0, 5, 2.0);
	const struct proc_record *list;
	size_t n;

	begin(t);
	fork_of(t, 102, 101, 2);
	merge(t, reported_end(101, 70, 4, 300), 450);
	z.user_ns = z.system_ns = 0;
	tally_reap(t, &r, &z, 5, 5);
	list = tally_processes(t, &n);
	assert_int_equal(list[0].user_ns, 450);
}

static void test_signals_of_a_better_source(void **state)
{
	struct tally *t = tally_of(state);
	char details[] = "killed by the kernel";
	const struct proc_event told = { .wall_ns = 3,
					 .key = { 102, 70 },
					 .type = EVENT_OOM,
					 .status = { -1, 9 },
					 .sheet_num = SHEET_NONE,
					 .details = details };
	const struct proc_event *events;
	size_t n;

	begin(t);
	fork_of(t, 102, 101, 2);
	assert_null(tally_find_oom(t, 102));
	tally_merge_signal(t, &told);
	tally_merge_signal(t, &told); /* once is enough */
	memset(details, 'x', strlen(details));
	events = tally_events(t, &n);
	assert_int_equal(n, 3);
	assert_int_equal(events[2].sheet_num, 1);
	assert_string_equal(tally_find_oom(t, 102), "killed by the kernel");
	tally_exit(t, 102, 9, 4);
	assert_null(tally_find_oom(t, 101));
	end(t, 101, 137 << 8, 5, 0.1); /* a shell, whose exit code shows it */
	assert_string_equal(tally_find_oom(t, 101), "killed by the kernel");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TALLY_TEST(test_alone_the_kernel_mark_is_exact),
		TALLY_TEST(test_peak_of_a_tree_is_at_least_its_largest_process),
		TALLY_TEST(test_what_the_kernel_tells_of_an_end_is_kept),
		TALLY_TEST(test_a_name_stands_where_there_is_no_command),
		TALLY_TEST(test_mark_from_before_exec_is_no_measurement),
		TALLY_TEST(test_marks_of_all_processes_are_the_jobs),
		TALLY_TEST(test_a_mark_that_is_a_little_more_is_none_either),
		TALLY_TEST(test_without_births_counts_are_lower_bounds),
		TALLY_TEST(test_lost_events_end_exactness),
		TALLY_TEST(test_same_pid_twice_is_two_processes),
		TALLY_TEST(test_events_wait_until_they_are_stored),
		TALLY_TEST(test_a_flood_is_counted_to_the_last),
		TALLY_TEST(test_most_at_once_is_exact),
		TALLY_TEST(test_parent_of_a_child_seen_early_is_no_leaf),
		TALLY_TEST(test_no_child_is_born_before_its_parent),
		TALLY_TEST(test_a_zombie_is_no_living_process),
		TALLY_TEST(test_largest_process_is_exact_only_if_nothing_hides),
		TALLY_TEST(test_who_was_killed_is_not_who_tells_it),
		TALLY_TEST(test_an_end_is_merged_into_the_process_it_is_of),
		TALLY_TEST(test_the_order_of_sources_does_not_count),
		TALLY_TEST(test_wait4_and_accounts_agree),
		TALLY_TEST(test_an_account_is_better_than_a_zombie),
		TALLY_TEST(test_signals_of_a_better_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
