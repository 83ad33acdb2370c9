#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/jobs.h"

#define RUNNER 100

struct fixture {
	struct membership *m;
	struct snapshot snap;
};

static int set_up(void **state)
{
	static struct fixture f;

	f.m = membership_new_own("job", RUNNER);
	snapshot_init(&f.snap);
	membership_set_sheet(f.m, 1);
	*state = &f;
	return f.m ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	f->m = membership_free(f->m);
	snapshot_release(&f->snap);
	return 0;
}

static void add(struct fixture *f, pid_t pid, pid_t ppid, uint64_t start)
{
	struct proc_sample *p = snapshot_add_process(&f->snap);

	assert_non_null(p);
	p->key = (struct proc_key){ pid, start };
	p->ppid = ppid;
}

static const struct proc_sample *sample(const struct fixture *f, pid_t pid)
{
	for (size_t i = 0; i < f->snap.n_processes; i++)
		if (f->snap.processes[i].key.pid == pid)
			return &f->snap.processes[i];
	fail_msg("no process %d in the snapshot", (int)pid);
	return NULL;
}

static int add_root(struct fixture *f, pid_t pid, int sheet_num, int rank)
{
	return membership_add(f->m, &(struct job_member){ .key = { pid, U64_UNKNOWN },
							  .sheet_num = sheet_num,
							  .rank = rank });
}

/* A start of which the kernel names the pids alone. */
static bool start_of(struct membership *m, pid_t parent, pid_t child)
{
	return membership_start(m, parent, &(struct proc_key){ child, U64_UNKNOWN }, U64_UNKNOWN,
				NULL) != NULL;
}

/* Members, whether or not a scan has shown them; those that have ended are counted too. */
static int count_all(struct fixture *f)
{
	size_t n;

	membership_pids(f->m, &n);
	return (int)n;
}

static void assert_in_job(const struct fixture *f, pid_t pid, int sheet_num, int rank)
{
	assert_string_equal(sample(f, pid)->job_id, "job");
	assert_int_equal(sample(f, pid)->sheet_num, sheet_num);
	assert_int_equal(sample(f, pid)->rank, rank);
}

static void test_descendants_belong_others_do_not(void **state)
{
	struct fixture *f = *state;

	add(f, 1, 0, 1);
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	add(f, 102, 101, 70);
	add(f, 103, 102, 80);
	add(f, 200, 1, 60);
	add_root(f, 101, 3, 7);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_in_job(f, 101, 3, 7);
	assert_in_job(f, 102, 3, 7);
	assert_in_job(f, 103, 3, 7);
	assert_null(sample(f, 1)->job_id);
	assert_null(sample(f, 200)->job_id);
	assert_null(sample(f, RUNNER)->job_id); /* the runner is not its own job */
	assert_int_equal(count_all(f), 3);
}

/* After pids have wrapped, a child stands before its parent in /proc. */
static void test_order_of_pids_does_not_matter(void **state)
{
	struct fixture *f = *state;

	add(f, 5, 7, 90);
	add(f, 7, 900, 80);
	add(f, RUNNER, 1, 50);
	add(f, 900, RUNNER, 60);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_in_job(f, 5, 1, RANK_NONE);
	assert_in_job(f, 7, 1, RANK_NONE);
}

static void test_orphan_keeps_its_sheet(void **state)
{
	struct fixture *f = *state;

	add_root(f, 101, 2, 4);
	assert_true(start_of(f->m, 101, 102));
	assert_true(membership_exit(f->m, 101, RUNNER));
	membership_set_sheet(f->m, 9);
	add(f, RUNNER, 1, 50);
	add(f, 102, RUNNER, 70); /* its parent died: the subreaper has it now */
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_in_job(f, 102, 2, 4);
}

static void test_reused_pid_is_another_process(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_in_job(f, 101, 1, RANK_NONE);

	snapshot_reset(&f->snap);
	add(f, 1, 0, 1);
	add(f, RUNNER, 1, 50);
	add(f, 101, 1, 99); /* same pid, later start, other parent */
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_null(sample(f, 101)->job_id);
	assert_null(membership_find(f->m, 101));
}

/* The number of a dead parent may belong to somebody younger by now. */
static void test_parent_younger_than_child_is_none(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 80);
	add(f, 102, 101, 70);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_null(sample(f, 102)->job_id);
}

/* The news of a birth may come after the parent has left /proc. */
static void test_missing_member_is_kept_until_its_death_is_told(void **state)
{
	struct fixture *f = *state;

	add_root(f, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_true(start_of(f->m, 101, 102));
	assert_true(membership_exit(f->m, 101, RUNNER));
	assert_true(membership_exit(f->m, 102, RUNNER));
	assert_int_equal(count_all(f), 0);
}

static void test_missing_member_is_forgotten_where_nobody_tells(void **state)
{
	struct fixture *f = *state;

	add_root(f, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_int_equal(count_all(f), 0);
}

static void test_foreign_births_and_deaths_are_ignored(void **state)
{
	struct fixture *f = *state;

	assert_false(start_of(f->m, 500, 501));
	assert_false(membership_exit(f->m, 501, RUNNER));
	assert_true(start_of(f->m, RUNNER, 101)); /* what the runner starts is the job's */
}

/* Its death was told; nobody tells when its parent waits for it. */
static void test_zombie_is_marked_and_no_member(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	add(f, 102, 101, 70);
	f->snap.processes[2].state = 'Z';
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_in_job(f, 102, 1, RANK_NONE);
	assert_null(membership_find(f->m, 102));
}

/* Missing twice, with the queue emptied in between, is gone: its pid may be anybody's. */
static void test_stale_member_is_forgotten(void **state)
{
	struct fixture *f = *state;

	add_root(f, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_non_null(membership_find(f->m, 101));
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_null(membership_find(f->m, 101));
}

static void test_pid_born_to_a_stranger_leaves_the_job(void **state)
{
	struct fixture *f = *state;

	add_root(f, 101, 1, RANK_NONE);
	assert_false(start_of(f->m, 500, 101));
	assert_null(membership_find(f->m, 101));
}

/* A shell that started a helper and then became proctor by exec. */
static void test_children_from_before_the_job_are_strangers(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 55);
	add(f, 102, 101, 56);
	assert_int_equal(membership_note_strangers(f->m, &f->snap), 2);
	assert_false(start_of(f->m, 101, 103));
	assert_true(start_of(f->m, RUNNER, 104));

	snapshot_reset(&f->snap);
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 55);
	add(f, 102, RUNNER, 56); /* orphaned meanwhile */
	add(f, 103, 101, 70);
	add(f, 104, RUNNER, 80);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_null(sample(f, 101)->job_id);
	assert_null(sample(f, 102)->job_id);
	assert_null(sample(f, 103)->job_id);
	assert_in_job(f, 104, 1, RANK_NONE);

	/* A root that gets the pid of a dead stranger is a root. */
	assert_int_equal(add_root(f, 101, 2, RANK_NONE), 0);
	assert_false(membership_is_stranger(f->m, 101));
	membership_exit(f->m, 102, RUNNER);
	assert_true(membership_is_stranger(f->m, 102)); /* still to be waited for, by us */
	membership_exit(f->m, 103, 101);
	assert_false(membership_is_stranger(f->m, 103));
}

/* What the runner starts for itself, whichever comes first: its word, a scan, or the kernel's. */
static void test_what_the_runner_needs_is_no_part_of_the_job(void **state)
{
	struct fixture *f = *state;

	add_root(f, 102, 1, RANK_NONE);
	assert_int_equal(membership_add_stranger(f->m, 101), 0);
	assert_false(start_of(f->m, RUNNER, 101));
	assert_true(start_of(f->m, RUNNER, 102));
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	add(f, 102, RUNNER, 61);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_null(sample(f, 101)->job_id);
	assert_in_job(f, 102, 1, RANK_NONE);

	/* Whoever gets its pid is another. */
	f->snap.processes[1].key.start_ticks = 70;
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_in_job(f, 101, 1, RANK_NONE);
}

/* The news of its birth come later, and from the runner. */
static void test_what_the_runner_starts_for_itself_is_a_stranger(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(membership_add_stranger(f->m, 101), 0);
	assert_false(start_of(f->m, RUNNER, 101));
	assert_false(start_of(f->m, 101, 102));
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 55);
	add(f, 102, 101, 56);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_null(sample(f, 101)->job_id);
	assert_null(sample(f, 102)->job_id);
	assert_true(membership_is_stranger(f->m, 101));

	/* Who is born with its pid later is of the job. */
	assert_true(start_of(f->m, RUNNER, 101));
	assert_false(membership_is_stranger(f->m, 101));
}

/* Hostile input: a loop of parents must not hang. */
static void test_loop_of_parents_ends(void **state)
{
	struct fixture *f = *state;

	add(f, 10, 11, 5);
	add(f, 11, 10, 5);
	add(f, 12, 12, 5);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_null(sample(f, 10)->job_id);
	assert_null(sample(f, 12)->job_id);
}

/* A chain as long as the table: linear, and no recursion to run out of stack. */
static void test_long_chain(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	for (pid_t pid = 50000; pid > 1000; pid--)
		add(f, pid, pid == 1001 ? RUNNER : pid - 1, 60 + (uint64_t)pid);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_FORGET_MISSING, NULL), 0);
	assert_int_equal(count_all(f), 49000);
	assert_in_job(f, 50000, 1, RANK_NONE);
}

static void count(void *ctx, const struct job_member *member)
{
	(void)member;
	++*(int *)ctx;
}

/* Only what the last scan saw may be signalled: its start time is known. */
static void test_only_seen_members_are_visited(void **state)
{
	struct fixture *f = *state;
	size_t n_pids;
	int n = 0;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	start_of(f->m, 101, 102);
	membership_each(f->m, MEMBERSHIP_SEEN, SHEET_NONE, count, &n);
	assert_int_equal(n, 1);
	assert_int_equal(membership_each(f->m, MEMBERSHIP_SEEN, SHEET_NONE, NULL, NULL), 1);
	assert_int_equal(count_all(f), 2);
	assert_int_equal(membership_pids(f->m, &n_pids)[0] + membership_pids(f->m, &n_pids)[1],
			 203);
	assert_int_equal(n_pids, 2);
}

/* Who has ended and was not waited for is looked at again, and no longer than that. */
static void test_the_ended_are_looked_at_until_somebody_waits(void **state)
{
	struct fixture *f = *state;
	size_t n;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	add(f, 102, 101, 70);
	add(f, 103, RUNNER, 80);
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_true(membership_exit(f->m, 102, 101));
	assert_true(membership_exit(f->m, 103, RUNNER)); /* for whom the runner waits */
	assert_non_null(membership_pids(f->m, &n));
	assert_int_equal(n, 2);
	assert_int_equal(membership_pids(f->m, &n)[1], 102);
	f->snap.processes[2].state = 'Z';
	f->snap.n_processes = 3;
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	assert_non_null(f->snap.processes[2].job_id);
	assert_int_equal(membership_each(f->m, MEMBERSHIP_SEEN, SHEET_NONE, NULL, NULL), 1);
	membership_pids(f->m, &n);
	assert_int_equal(n, 2);
	f->snap.n_processes = 2;
	assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	membership_pids(f->m, &n);
	assert_int_equal(n, 1);
}

/* The pid of a zombie that was waited for is given to the next child: it is one process. */
static void test_a_pid_that_is_born_again_is_looked_at_once(void **state)
{
	struct fixture *f = *state;
	size_t n;

	assert_int_equal(add_root(f, 101, 1, RANK_NONE), 0);
	assert_true(start_of(f->m, 101, 102));
	assert_true(membership_exit(f->m, 102, 101));
	assert_true(start_of(f->m, 101, 102));
	assert_non_null(membership_pids(f->m, &n));
	assert_int_equal(n, 2);
	assert_true(membership_exit(f->m, 102, 101));
	assert_true(start_of(f->m, 101, 102));
	assert_true(membership_exit(f->m, 102, 101));
	assert_non_null(membership_pids(f->m, &n));
	assert_int_equal(n, 2);
}

/* ---- many jobs ---- */

struct row {
	pid_t pid, ppid;
	uint64_t start;
	const char *job_id; /* what is wanted */
	int sheet_num;
};

static const char job_a[] = "a", job_b[] = "b";

static int scan(struct membership *m, struct snapshot *s, const struct membership_job *jobs,
		size_t n_jobs, size_t *n_of)
{
	assert_int_equal(membership_set_jobs(m, jobs, n_jobs), 0);
	return membership_scan(m, s, MEMBERSHIP_FORGET_MISSING, n_of);
}

static int remember(struct membership *m, struct proc_key key, int64_t attempt_id, int sheet_num)
{
	return membership_add(m, &(struct job_member){ .key = key,
						       .attempt_id = attempt_id,
						       .sheet_num = sheet_num });
}

static void fill(struct snapshot *s, const struct row *rows, size_t n)
{
	snapshot_reset(s);
	for (size_t i = 0; i < n; i++) {
		struct proc_sample *p = snapshot_add_process(s);

		p->key = (struct proc_key){ rows[i].pid, rows[i].start };
		p->ppid = rows[i].ppid;
		p->job_id = "stale";
	}
}

static void check(struct membership *m, const struct row *rows, size_t n,
		  const struct membership_job *roots, size_t n_roots)
{
	CLEANUP(snapshot_release) struct snapshot s;
	size_t n_of[8], want_of[8] = { 0 };

	snapshot_init(&s);
	fill(&s, rows, n);
	assert_int_equal(scan(m, &s, roots, n_roots, n_of), 0);
	for (size_t i = 0; i < n; i++) {
		if (s.processes[i].job_id != rows[i].job_id)
			fail_msg("pid %d is of %s", rows[i].pid, s.processes[i].job_id);
		if (rows[i].job_id)
			assert_int_equal(s.processes[i].sheet_num, rows[i].sheet_num);
		for (size_t k = 0; k < n_roots; k++)
			want_of[k] += rows[i].job_id && rows[i].job_id == roots[k].job_id;
	}
	assert_memory_equal(n_of, want_of, n_roots * sizeof(*n_of));
}

static void test_descendants_of_runners(void **state)
{
	const struct membership_job roots[] = {
		{ MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 },
		{ MEMBERSHIP_RUNNER, { 22, 220 }, job_b, 2, 3 }, /* inside the job a */
	};
	const struct row rows[] = {
		{ 1, 0, 1, NULL, 0 },	   { 5, 30, 350, job_a, 1 }, /* its parent comes later */
		{ 10, 1, 100, NULL, 0 },   { 11, 10, 110, job_a, 1 }, { 20, 11, 200, job_a, 1 },
		{ 22, 20, 220, job_a, 1 }, { 23, 22, 230, job_b, 3 }, { 24, 23, 240, job_b, 3 },
		{ 30, 20, 300, job_a, 1 }, { 40, 1, 400, NULL, 0 },
	};
	struct membership *m = membership_new();

	(void)state;
	check(m, rows, ARRAY_SIZE(rows), roots, 2);
	membership_free(m);
}

/* An orphan of an attached tree goes to init, and stays the job's; also when its sheet is over. */
static void test_members_stay(void **state)
{
	struct membership_job root = { MEMBERSHIP_ATTACHED, { 10, 100 }, job_a, 1, 1 };
	const struct row before[] = {
		{ 1, 0, 1, NULL, 0 },
		{ 10, 1, 100, job_a, 1 },
		{ 11, 10, 110, job_a, 1 },
		{ 12, 11, 120, job_a, 1 },
	};
	const struct row after[] = {
		{ 1, 0, 1, NULL, 0 },
		{ 12, 1, 120, job_a, 1 },
		{ 13, 12, 130, job_a, 1 }, /* of its parent's */
		{ 14, 1, 140, NULL, 0 },
	};
	/* Its pid is another process by now. */
	const struct row reused[] = { { 1, 0, 1, NULL, 0 }, { 12, 1, 999, NULL, 0 } };
	struct membership *m = membership_new();

	(void)state;
	check(m, before, ARRAY_SIZE(before), &root, 1);
	root.sheet_num = 2;
	check(m, after, ARRAY_SIZE(after), &root, 1);
	check(m, reused, ARRAY_SIZE(reused), &root, 1);
	membership_free(m);
}

/* A pid that was the runner's, and is another process: nobody's root. */
static void test_reused_roots(void **state)
{
	const struct membership_job root = { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 };
	const struct row rows[] = { { 10, 1, 555, NULL, 0 }, { 11, 10, 600, NULL, 0 } };
	const struct membership_job unknown = {
		MEMBERSHIP_RUNNER, { 10, U64_UNKNOWN }, job_a, 1, 1
	};
	struct membership *m = membership_new();

	(void)state;
	check(m, rows, ARRAY_SIZE(rows), &root, 1);
	check(m, rows, ARRAY_SIZE(rows), &unknown, 1);
	membership_free(m);
}

static void test_circles(void **state)
{
	const struct membership_job root = { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 };
	const struct row rows[] = {
		{ 5, 5, 1, NULL, 0 }, { 6, 7, 1, NULL, 0 },	{ 7, 6, 1, NULL, 0 },
		{ 8, 6, 1, NULL, 0 }, { 10, 11, 100, NULL, 0 }, { 11, 10, 1, NULL, 0 },
	};
	struct membership *m = membership_new();

	(void)state;
	check(m, rows, ARRAY_SIZE(rows), &root, 1);
	membership_free(m);
}

/* A job that is not watched any more takes its members with it. */
static void test_jobs_end(void **state)
{
	const struct membership_job roots[] = { { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 },
						{ MEMBERSHIP_RUNNER, { 20, 200 }, job_b, 2, 1 } };
	const struct row before[] = { { 10, 1, 100, NULL, 0 },
				      { 11, 10, 110, job_a, 1 },
				      { 20, 1, 200, NULL, 0 },
				      { 21, 20, 210, job_b, 1 } };
	const struct row after[] = { { 11, 1, 110, NULL, 0 },
				     { 21, 20, 210, job_b, 1 },
				     { 20, 1, 200, NULL, 0 } };
	struct membership *m = membership_new();

	(void)state;
	check(m, before, ARRAY_SIZE(before), roots, 2);
	check(m, after, ARRAY_SIZE(after), roots + 1, 1);
	membership_free(m);
}

/* Noted down earlier, or told of by the kernel: its parent is gone when it is first looked at. */
static void test_remembered(void **state)
{
	const struct membership_job root = { MEMBERSHIP_ATTACHED, { 10, 100 }, job_a, 1, 1 };
	const struct proc_key known = { 11, 110 }, reused = { 12, 120 };
	const struct row rows[] = {
		{ 1, 0, 1, NULL, 0 },
		{ 11, 1, 110, job_a, 3 },
		{ 12, 1, 999, NULL, 0 }, /* somebody else has the pid by now */
		{ 13, 11, 130, job_a, 3 },
	};
	struct membership *m = membership_new();

	(void)state;
	assert_int_equal(remember(m, known, 1, 3), 0);
	assert_int_equal(remember(m, reused, 1, 3), 0);
	check(m, rows, ARRAY_SIZE(rows), &root, 1);
	membership_free(m);
}

/* The address of its id may be another job's soon. */
static void test_a_job_is_forgotten(void **state)
{
	const struct membership_job root = { MEMBERSHIP_ATTACHED, { 10, 100 }, job_a, 1, 1 },
				    other = { MEMBERSHIP_ATTACHED, { 20, 200 }, job_a, 1, 1 };
	const struct row before[] = { { 10, 1, 100, job_a, 1 }, { 11, 10, 110, job_a, 1 } };
	const struct row after[] = { { 11, 1, 110, NULL, 0 }, { 20, 1, 200, job_a, 1 } };
	struct membership *m = membership_new();

	(void)state;
	check(m, before, ARRAY_SIZE(before), &root, 1);
	membership_forget_job(m, 1);
	check(m, after, ARRAY_SIZE(after), &other, 1);
	membership_free(m);
}

static void find_all(const struct membership *m, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(membership_index(m, rows[i].pid), (int)i);
}

/* What is not looked up anew while everybody stands where he stood must not outlive a change. */
static void test_the_same_places(void **state)
{
	const struct membership_job roots[] = { { MEMBERSHIP_ATTACHED, { 5, 50 }, job_b, 2, 1 },
						{ MEMBERSHIP_ATTACHED, { 10, 100 }, job_a, 1, 1 } };
	struct row rows[] = {
		{ 5, 1, 50, job_b, 1 },
		{ 10, 1, 100, job_a, 1 },
		{ 11, 10, 110, job_a, 1 },
		{ 12, 10, 120, job_a, 1 },
	};
	const size_t n = ARRAY_SIZE(rows);
	struct membership *m = membership_new();

	(void)state;
	for (int i = 0; i < 3; i++)
		check(m, rows, n, roots, 2);
	rows[2] = (struct row){ 11, 1, 999, NULL, 0 }; /* another process */
	check(m, rows, n, roots, 2);
	assert_int_equal(remember(m, (struct proc_key){ 12, 120 }, 2, 3), 0);
	rows[3].job_id = job_b;
	rows[3].sheet_num = 3;
	check(m, rows, n, roots, 2);
	rows[3].pid = 13; /* as many as before, and one of them another */
	rows[3].job_id = job_a;
	rows[3].sheet_num = 1;
	check(m, rows, n, roots, 2);
	find_all(m, rows, n);
	assert_int_equal(membership_index(m, 12), -1);
	membership_forget_job(m, 1); /* another job has the address of its id */
	rows[1].job_id = rows[3].job_id = NULL;
	check(m, rows, n,
	      (struct membership_job[]){ roots[0], { MEMBERSHIP_RUNNER, { 20, 1 }, job_a, 1, 1 } },
	      2);
	membership_free(m);
}

/* Who is too young for anybody to know the sheet is of that of the nearest who is not. */
static void test_sheets_are_inherited(void **state)
{
	CLEANUP(snapshot_release) struct snapshot s;
	const struct membership_job roots[] = { { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 },
						{ MEMBERSHIP_RUNNER, { 13, 130 }, job_b, 2, 1 } };
	/* The runner's child, its child and grandchild, which runs another job, a child of the
	 * runner that nobody knows, and its child. */
	const struct row rows[] = {
		{ 10, 1, 100, NULL, 0 },   { 11, 10, 110, NULL, 2 },  { 12, 11, 120, NULL, -1 },
		{ 13, 12, 130, NULL, -1 }, { 14, 13, 140, NULL, -1 }, { 15, 10, 150, NULL, -1 },
		{ 9, 15, 160, NULL, -1 },
	};
	const int wanted[] = { SHEET_NONE, 2, 2, 2, SHEET_NONE, SHEET_NONE, SHEET_NONE };
	struct membership *m = membership_new();
	size_t n_of[2];

	(void)state;
	snapshot_init(&s);
	fill(&s, rows, ARRAY_SIZE(rows));
	assert_int_equal(scan(m, &s, roots, 2, n_of), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (membership_owner(m, i) >= 0)
			s.processes[i].sheet_num = rows[i].sheet_num;
	assert_int_equal(membership_index(m, 12), 2);
	assert_int_equal(membership_index(m, 999), -1);
	s.processes[5].ppid = 9; /* the table was read while it changed */
	membership_inherit_sheets(m, &s);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(s.processes[i].sheet_num, wanted[i]);
	membership_free(m);
}

/* ---- starts and exits, of many jobs ---- */

static void test_starts_of_other_runners(void **state)
{
	const struct membership_job jobs[] = {
		{ MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 },
		{ MEMBERSHIP_ATTACHED, { 20, 200 }, job_b, 2, 5 },
	};
	const struct row rows[] = {
		{ 10, 1, 100, NULL, 0 },  { 11, 1, 110, job_a, 1 }, /* inherited by init meanwhile
								     */
		{ 20, 1, 200, job_b, 5 }, { 22, 1, 220, job_b, 5 }, { 23, 22, 230, job_b, 5 },
		{ 30, 1, 300, NULL, 0 },
	};
	struct membership *m = membership_new();

	(void)state;
	assert_int_equal(membership_set_jobs(m, jobs, 2), 0);
	assert_true(start_of(m, 10, 11));
	assert_true(start_of(m, 10, 11)); /* told twice */
	assert_true(start_of(m, 20, 22));
	assert_false(start_of(m, 29, 30));
	assert_int_equal(membership_find(m, 11)->attempt_id, 1);
	assert_int_equal(membership_find(m, 22)->sheet_num, 5);
	check(m, rows, ARRAY_SIZE(rows), jobs, 2);
	assert_int_equal(membership_find(m, 11)->key.start_ticks, 110);
	assert_true(membership_exit(m, 22, 20));
	assert_false(membership_exit(m, 22, 20));
	assert_null(membership_find(m, 22));
	membership_free(m);
}

struct telling {
	pid_t pid;
	int n;
};

static void note_told(void *ctx, const struct job_member *member)
{
	struct telling *told = ctx;

	told->pid = member->key.pid;
	told->n++;
}

static void look_at(struct membership *m, const struct row *rows, size_t n)
{
	CLEANUP(snapshot_release) struct snapshot s;

	snapshot_init(&s);
	fill(&s, rows, n);
	for (size_t i = 0; i < n; i++)
		s.processes[i].start_wall_ns = 5000000000;
	assert_int_equal(membership_scan(m, &s, MEMBERSHIP_KEEP_ONCE, NULL), 0);
}

/* Its exit was told before the start of its child: they belong together all the same. */
static void test_the_dead_still_have_children(void **state)
{
	const struct membership_job job = { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 7, 1 };
	const struct row rows[] = { { 10, 1, 100, NULL, 0 }, { 12, 1, 120, job_a, 1 } };
	struct membership *m = membership_new();

	(void)state;
	assert_int_equal(membership_add_job(m, &job), 0);
	assert_int_equal(membership_attempt_of(m, 10), 7); /* the root, which is no member */
	assert_null(membership_find(m, 10));
	assert_true(start_of(m, 10, 11));
	assert_true(membership_exit(m, 11, 10));
	assert_false(membership_exit(m, 11, 10));
	assert_null(membership_find(m, 11));
	assert_true(start_of(m, 11, 12));
	assert_int_equal(membership_attempt_of(m, 12), 7);
	check(m, rows, ARRAY_SIZE(rows), &job, 1);
	assert_false(start_of(m, 99, 11)); /* of a stranger, whose children are not ours */
	assert_false(start_of(m, 11, 13));
	membership_free(m);
}

/* A scan may be quicker than the news: it is one start, and told once. */
static void test_a_start_is_told_once(void **state)
{
	const struct membership_job job = { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 7, 1 };
	const struct row rows[] = { { 10, 1, 100, NULL, 0 }, { 11, 10, 2000, job_a, 1 } };
	const struct proc_key same = { 11, 2000 }, timed = { 11, U64_UNKNOWN },
			      other = { 11, 2001 };
	struct membership *m = membership_new();
	struct telling told = { 0 };
	bool is_new;

	(void)state;
	assert_int_equal(membership_add_job(m, &job), 0);
	look_at(m, rows, ARRAY_SIZE(rows));
	membership_each(m, MEMBERSHIP_UNTOLD, 0, note_told, &told);
	membership_each(m, MEMBERSHIP_UNTOLD, 0, note_told, &told);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.pid, 11);
	assert_non_null(membership_start(m, 10, &same, 5001000000, &is_new));
	assert_false(is_new);
	assert_non_null(membership_start(m, 10, &timed, 5001000000, &is_new));
	assert_false(is_new);
	assert_int_equal(membership_find(m, 11)->key.start_ticks, 2000);
	assert_non_null(membership_start(m, 10, &timed, 9000000000, &is_new)); /* the pid again */
	assert_true(is_new);
	assert_non_null(membership_start(m, 10, &other, 9000000000, &is_new));
	look_at(m, (struct row[]){ rows[0], { 11, 10, 2001, job_a, 1 } }, 2);
	membership_each(m, MEMBERSHIP_UNTOLD, 0, note_told, &told);
	assert_int_equal(told.n, 1);
	membership_free(m);
}

/* The news of its exit may still have been on its way at the first. */
static void test_the_missing_are_told_of(void **state)
{
	const struct membership_job job = { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 7, 1 };
	const struct row rows[] = { { 10, 1, 100, NULL, 0 },
				    { 11, 10, 110, job_a, 1 },
				    { 12, 10, 120, job_a, 1 } };
	struct membership *m = membership_new();
	struct telling gone = { 0 };

	(void)state;
	membership_on_missing(m, note_told, &gone);
	assert_int_equal(membership_add_job(m, &job), 0);
	look_at(m, rows, 3);
	assert_true(membership_exit(m, 12, 10));
	look_at(m, rows, 1);
	assert_int_equal(gone.n, 0);
	look_at(m, rows, 1);
	assert_int_equal(gone.n, 1);
	assert_int_equal(gone.pid, 11);
	membership_free(m);
}

/* Between two scans the dead do not pile up. */
static void test_a_flood_of_starts(void **state)
{
	const struct membership_job job = { MEMBERSHIP_ATTACHED, { 10, 100 }, job_a, 7, 1 };
	struct membership *m = membership_new();
	struct telling left = { 0 };
	size_t n;

	(void)state;
	assert_int_equal(membership_add_job(m, &job), 0);
	for (pid_t pid = 11; pid < 300000; pid++) {
		assert_true(start_of(m, 10, pid));
		assert_true(membership_exit(m, pid, 10));
	}
	assert_true(start_of(m, 10, 300000));
	membership_pids(m, &n);
	assert_true(n <= MEMBERSHIP_MAX_DEAD + 2);
	membership_each(m, MEMBERSHIP_LIVING, 7, note_told, &left);
	assert_int_equal(left.n, 1);
	membership_free(m);
}

/* The exit was quicker than the start: what is left of it is gone after two scans. */
static void test_an_exit_before_its_start(void **state)
{
	struct fixture *f = *state;

	add_root(f, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	assert_false(membership_exit(f->m, 102, 101));
	assert_true(start_of(f->m, 101, 102));
	for (int i = 0; i < 2; i++) {
		assert_non_null(membership_find(f->m, 102));
		assert_int_equal(membership_scan(f->m, &f->snap, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	}
	assert_null(membership_find(f->m, 102));
	assert_int_equal(membership_each(f->m, MEMBERSHIP_SEEN, SHEET_NONE, NULL, NULL), 1);
}

/* A runner whose ancestors go round in a circle is not of its own job. */
static void test_a_circle_with_a_runner(void **state)
{
	const struct membership_job job = { MEMBERSHIP_RUNNER, { 10, 100 }, job_a, 1, 1 };
	const struct row rows[] = { { 10, 11, 100, NULL, 0 },
				    { 11, 10, 100, NULL, 0 },
				    { 12, 10, 120, job_a, 1 } };
	struct membership *m = membership_new();

	(void)state;
	check(m, rows, ARRAY_SIZE(rows), &job, 1);
	membership_free(m);
}

/* ---- against a model ---- */

#define MODEL_PIDS 40
#define MODEL_STEPS 20000

/* What is true of each pid; the tracker hears of starts and exits, and sees all at each scan. */
struct truth {
	bool lives, is_member;
	pid_t ppid;
	uint64_t start;
	int sheet_num;
};

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

static void compare_with_truth(struct membership *m, const struct truth *all, bool is_scan)
{
	CLEANUP(snapshot_release) struct snapshot s;

	snapshot_init(&s);
	for (pid_t pid = 2; is_scan && pid < MODEL_PIDS; pid++) {
		struct proc_sample *p = all[pid].lives ? snapshot_add_process(&s) : NULL;

		if (!p)
			continue;
		p->key = (struct proc_key){ pid, all[pid].start };
		p->ppid = all[pid].ppid;
	}
	if (is_scan)
		assert_int_equal(membership_scan(m, &s, MEMBERSHIP_KEEP_ONCE, NULL), 0);
	for (size_t i = 0; i < s.n_processes; i++)
		assert_true(!s.processes[i].job_id == !all[s.processes[i].key.pid].is_member);
	for (pid_t pid = 2; pid < MODEL_PIDS; pid++) {
		const struct job_member *member = membership_find(m, pid);

		assert_true(!member == !(all[pid].lives && all[pid].is_member));
		if (member)
			assert_int_equal(member->sheet_num, all[pid].sheet_num);
	}
}

/*
 * Processes start others, end and leave their children to the runner (of the job) or to init, and
 * pids are used again at once: the tracker knows at each step who belongs, and to which sheet.
 */
static void test_any_history(void **state)
{
	const pid_t runner = 2, init = 1, stranger = 3;
	struct truth all[MODEL_PIDS] = {
		[2] = { true, false, 1, 5, 0 }, [3] = { true, false, 1, 6, 0 }
	};
	struct membership *m = membership_new_own("job", runner);
	uint64_t clock = 10;
	uint32_t seed = 7;

	(void)state;
	for (int step = 0; step < MODEL_STEPS; step++) {
		pid_t a = (pid_t)(2 + next_random(&seed) % (MODEL_PIDS - 2));
		pid_t b = (pid_t)(2 + next_random(&seed) % (MODEL_PIDS - 2));

		if (step % 500 == 0)
			membership_set_sheet(m, step / 500);
		if (all[a].lives && !all[b].lives) {
			all[b] = (struct truth){ true, a == runner || all[a].is_member, a, clock++,
						 a == runner ? step / 500 : all[a].sheet_num };
			assert_true(start_of(m, a, b) == all[b].is_member);
		} else if (a != runner && a != stranger && all[a].lives) {
			assert_true(membership_exit(m, a, all[a].ppid) == all[a].is_member);
			all[a].lives = false;
			for (pid_t child = 2; child < MODEL_PIDS; child++)
				if (all[child].ppid == a)
					all[child].ppid = all[child].is_member ? runner : init;
		}
		compare_with_truth(m, all, next_random(&seed) % 8 == 0);
	}
	membership_free(m);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_descendants_belong_others_do_not),
		TEST(test_order_of_pids_does_not_matter),
		TEST(test_orphan_keeps_its_sheet),
		TEST(test_reused_pid_is_another_process),
		TEST(test_parent_younger_than_child_is_none),
		TEST(test_missing_member_is_kept_until_its_death_is_told),
		TEST(test_missing_member_is_forgotten_where_nobody_tells),
		TEST(test_foreign_births_and_deaths_are_ignored),
		TEST(test_zombie_is_marked_and_no_member),
		TEST(test_stale_member_is_forgotten),
		TEST(test_pid_born_to_a_stranger_leaves_the_job),
		TEST(test_children_from_before_the_job_are_strangers),
		TEST(test_what_the_runner_needs_is_no_part_of_the_job),
		TEST(test_what_the_runner_starts_for_itself_is_a_stranger),
		TEST(test_loop_of_parents_ends),
		TEST(test_long_chain),
		TEST(test_only_seen_members_are_visited),
		TEST(test_the_ended_are_looked_at_until_somebody_waits),
		TEST(test_a_pid_that_is_born_again_is_looked_at_once),
		cmocka_unit_test(test_descendants_of_runners),
		cmocka_unit_test(test_members_stay),
		cmocka_unit_test(test_reused_roots),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_jobs_end),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_a_job_is_forgotten),
		cmocka_unit_test(test_the_same_places),
		cmocka_unit_test(test_sheets_are_inherited),
		cmocka_unit_test(test_starts_of_other_runners),
		TEST(test_an_exit_before_its_start),
		cmocka_unit_test(test_the_dead_still_have_children),
		cmocka_unit_test(test_a_start_is_told_once),
		cmocka_unit_test(test_the_missing_are_told_of),
		cmocka_unit_test(test_a_flood_of_starts),
		cmocka_unit_test(test_a_circle_with_a_runner),
		cmocka_unit_test(test_any_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
