#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/unknown.h"
#include "jobs/jobs.h"

#define RUNNER 100

struct fixture {
	struct tree *tree;
	struct snapshot snap;
};

static int set_up(void **state)
{
	static struct fixture f;

	f.tree = tree_new("job", RUNNER);
	snapshot_init(&f.snap);
	tree_set_sheet(f.tree, 1);
	*state = &f;
	return f.tree ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	f->tree = tree_free(f->tree);
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
	tree_add_root(f->tree, 101, 3, 7);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_in_job(f, 101, 3, 7);
	assert_in_job(f, 102, 3, 7);
	assert_in_job(f, 103, 3, 7);
	assert_null(sample(f, 1)->job_id);
	assert_null(sample(f, 200)->job_id);
	assert_null(sample(f, RUNNER)->job_id); /* the runner is not its own job */
	assert_int_equal(tree_count(f->tree), 3);
}

/* After pids have wrapped, a child stands before its parent in /proc. */
static void test_order_of_pids_does_not_matter(void **state)
{
	struct fixture *f = *state;

	add(f, 5, 7, 90);
	add(f, 7, 900, 80);
	add(f, RUNNER, 1, 50);
	add(f, 900, RUNNER, 60);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_in_job(f, 5, 1, RANK_NONE);
	assert_in_job(f, 7, 1, RANK_NONE);
}

static void test_orphan_keeps_its_sheet(void **state)
{
	struct fixture *f = *state;

	tree_add_root(f->tree, 101, 2, 4);
	assert_true(tree_on_fork(f->tree, 101, 102));
	assert_true(tree_on_exit(f->tree, 101, RUNNER));
	tree_set_sheet(f->tree, 9);
	add(f, RUNNER, 1, 50);
	add(f, 102, RUNNER, 70); /* its parent died: the subreaper has it now */
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_in_job(f, 102, 2, 4);
}

static void test_reused_pid_is_another_process(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_in_job(f, 101, 1, RANK_NONE);

	snapshot_reset(&f->snap);
	add(f, 1, 0, 1);
	add(f, RUNNER, 1, 50);
	add(f, 101, 1, 99); /* same pid, later start, other parent */
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_null(sample(f, 101)->job_id);
	assert_null(tree_find(f->tree, 101));
}

/* The number of a dead parent may belong to somebody younger by now. */
static void test_parent_younger_than_child_is_none(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 80);
	add(f, 102, 101, 70);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_null(sample(f, 102)->job_id);
}

/* The news of a birth may come after the parent has left /proc. */
static void test_missing_member_is_kept_until_its_death_is_told(void **state)
{
	struct fixture *f = *state;

	tree_add_root(f->tree, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_true(tree_on_fork(f->tree, 101, 102));
	assert_true(tree_on_exit(f->tree, 101, RUNNER));
	assert_true(tree_on_exit(f->tree, 102, RUNNER));
	assert_int_equal(tree_count(f->tree), 0);
}

static void test_missing_member_is_forgotten_where_nobody_tells(void **state)
{
	struct fixture *f = *state;

	tree_add_root(f->tree, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_int_equal(tree_count(f->tree), 0);
}

static void test_foreign_births_and_deaths_are_ignored(void **state)
{
	struct fixture *f = *state;

	assert_false(tree_on_fork(f->tree, 500, 501));
	assert_false(tree_on_exit(f->tree, 501, RUNNER));
	assert_true(tree_on_fork(f->tree, RUNNER, 101)); /* what the runner starts is the job's */
}

/* Its death was told; nobody tells when its parent waits for it. */
static void test_zombie_is_marked_and_no_member(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	add(f, 102, 101, 70);
	f->snap.processes[2].state = 'Z';
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_in_job(f, 102, 1, RANK_NONE);
	assert_null(tree_find(f->tree, 102));
}

/* Missing twice, with the queue emptied in between, is gone: its pid may be anybody's. */
static void test_stale_member_is_forgotten(void **state)
{
	struct fixture *f = *state;

	tree_add_root(f->tree, 101, 1, RANK_NONE);
	add(f, RUNNER, 1, 50);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_non_null(tree_find(f->tree, 101));
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_null(tree_find(f->tree, 101));
}

static void test_pid_born_to_a_stranger_leaves_the_job(void **state)
{
	struct fixture *f = *state;

	tree_add_root(f->tree, 101, 1, RANK_NONE);
	assert_false(tree_on_fork(f->tree, 500, 101));
	assert_null(tree_find(f->tree, 101));
}

/* A shell that started a helper and then became proctor by exec. */
static void test_children_from_before_the_job_are_strangers(void **state)
{
	struct fixture *f = *state;

	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 55);
	add(f, 102, 101, 56);
	assert_int_equal(tree_note_strangers(f->tree, &f->snap), 2);
	assert_false(tree_on_fork(f->tree, 101, 103));
	assert_true(tree_on_fork(f->tree, RUNNER, 104));

	snapshot_reset(&f->snap);
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 55);
	add(f, 102, RUNNER, 56); /* orphaned meanwhile */
	add(f, 103, 101, 70);
	add(f, 104, RUNNER, 80);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_null(sample(f, 101)->job_id);
	assert_null(sample(f, 102)->job_id);
	assert_null(sample(f, 103)->job_id);
	assert_in_job(f, 104, 1, RANK_NONE);

	/* A root that gets the pid of a dead stranger is a root. */
	assert_int_equal(tree_add_root(f->tree, 101, 2, RANK_NONE), 0);
	assert_false(tree_is_stranger(f->tree, 101));
	tree_on_exit(f->tree, 102, RUNNER);
	assert_true(tree_is_stranger(f->tree, 102)); /* still to be waited for, by us */
	tree_on_exit(f->tree, 103, 101);
	assert_false(tree_is_stranger(f->tree, 103));
}

/* What the runner starts for itself, whichever comes first: its word, a scan, or the kernel's. */
static void test_what_the_runner_needs_is_no_part_of_the_job(void **state)
{
	struct fixture *f = *state;

	tree_add_root(f->tree, 102, 1, RANK_NONE);
	assert_int_equal(tree_add_stranger(f->tree, 101), 0);
	assert_false(tree_on_fork(f->tree, RUNNER, 101));
	assert_true(tree_on_fork(f->tree, RUNNER, 102));
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 60);
	add(f, 102, RUNNER, 61);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_null(sample(f, 101)->job_id);
	assert_in_job(f, 102, 1, RANK_NONE);

	/* Whoever gets its pid is another. */
	f->snap.processes[1].key.start_ticks = 70;
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_in_job(f, 101, 1, RANK_NONE);
}

/* The news of its birth come later, and from the runner. */
static void test_what_the_runner_starts_for_itself_is_a_stranger(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(tree_add_stranger(f->tree, 101), 0);
	assert_false(tree_on_fork(f->tree, RUNNER, 101));
	assert_false(tree_on_fork(f->tree, 101, 102));
	add(f, RUNNER, 1, 50);
	add(f, 101, RUNNER, 55);
	add(f, 102, 101, 56);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_null(sample(f, 101)->job_id);
	assert_null(sample(f, 102)->job_id);
	assert_true(tree_is_stranger(f->tree, 101));

	/* Who is born with its pid later is of the job. */
	assert_true(tree_on_fork(f->tree, RUNNER, 101));
	assert_false(tree_is_stranger(f->tree, 101));
}

/* Hostile input: a loop of parents must not hang. */
static void test_loop_of_parents_ends(void **state)
{
	struct fixture *f = *state;

	add(f, 10, 11, 5);
	add(f, 11, 10, 5);
	add(f, 12, 12, 5);
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
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
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_FORGET_MISSING), 0);
	assert_int_equal(tree_count(f->tree), 49000);
	assert_in_job(f, 50000, 1, RANK_NONE);
}

static void count(void *ctx, const struct tree_member *member)
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
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	tree_on_fork(f->tree, 101, 102);
	tree_for_each_seen(f->tree, count, &n);
	assert_int_equal(n, 1);
	assert_int_equal(tree_count_seen(f->tree), 1);
	assert_int_equal(tree_count(f->tree), 2);
	assert_int_equal(tree_pids(f->tree, &n_pids)[0] + tree_pids(f->tree, &n_pids)[1], 203);
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
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_true(tree_on_exit(f->tree, 102, 101));
	assert_true(tree_on_exit(f->tree, 103, RUNNER)); /* for whom the runner waits */
	assert_non_null(tree_pids(f->tree, &n));
	assert_int_equal(n, 2);
	assert_int_equal(tree_pids(f->tree, &n)[1], 102);
	f->snap.processes[2].state = 'Z';
	f->snap.n_processes = 3;
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	assert_non_null(f->snap.processes[2].job_id);
	assert_int_equal(tree_count(f->tree), 1);
	tree_pids(f->tree, &n);
	assert_int_equal(n, 2);
	f->snap.n_processes = 2;
	assert_int_equal(tree_assign(f->tree, &f->snap, TREE_KEEP_ONCE), 0);
	tree_pids(f->tree, &n);
	assert_int_equal(n, 1);
}

/* The pid of a zombie that was waited for is given to the next child: it is one process. */
static void test_a_pid_that_is_born_again_is_looked_at_once(void **state)
{
	struct fixture *f = *state;
	size_t n;

	assert_int_equal(tree_add_root(f->tree, 101, 1, RANK_NONE), 0);
	assert_true(tree_on_fork(f->tree, 101, 102));
	assert_true(tree_on_exit(f->tree, 102, 101));
	assert_true(tree_on_fork(f->tree, 101, 102));
	assert_non_null(tree_pids(f->tree, &n));
	assert_int_equal(n, 2);
	assert_true(tree_on_exit(f->tree, 102, 101));
	assert_true(tree_on_fork(f->tree, 101, 102));
	assert_true(tree_on_exit(f->tree, 102, 101));
	assert_non_null(tree_pids(f->tree, &n));
	assert_int_equal(n, 2);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
