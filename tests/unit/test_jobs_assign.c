#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "jobs/assign.h"

struct row {
	pid_t pid, ppid;
	uint64_t start;
	const char *job_id; /* what is wanted */
	int sheet_num;
};

static const char job_a[] = "a", job_b[] = "b";

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

static void check(struct assigner *a, const struct row *rows, size_t n,
		  const struct assign_root *roots, size_t n_roots)
{
	CLEANUP(snapshot_release) struct snapshot s;
	size_t n_of[8], want_of[8] = { 0 };

	snapshot_init(&s);
	fill(&s, rows, n);
	assert_int_equal(assign_processes(a, &s, roots, n_roots, n_of), 0);
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
	const struct assign_root roots[] = {
		{ { 10, 100 }, true, job_a, 0, 1 },
		{ { 22, 220 }, true, job_b, 0, 3 }, /* inside the job a */
	};
	const struct row rows[] = {
		{ 1, 0, 1, NULL, 0 },	   { 5, 30, 50, job_a, 1 }, /* its parent comes later */
		{ 10, 1, 100, NULL, 0 },   { 11, 10, 110, job_a, 1 }, { 20, 11, 200, job_a, 1 },
		{ 22, 20, 220, job_a, 1 }, { 23, 22, 230, job_b, 3 }, { 24, 23, 240, job_b, 3 },
		{ 30, 20, 300, job_a, 1 }, { 40, 1, 400, NULL, 0 },
	};
	struct assigner *a = assigner_new();

	(void)state;
	check(a, rows, ARRAY_SIZE(rows), roots, 2);
	assigner_free(a);
}

/* An orphan of an attached tree goes to init, and stays the job's; also when its sheet is over. */
static void test_members_stay(void **state)
{
	struct assign_root root = { { 10, 100 }, false, job_a, 0, 1 };
	const struct row before[] = {
		{ 1, 0, 1, NULL, 0 },
		{ 10, 1, 100, job_a, 1 },
		{ 11, 10, 110, job_a, 1 },
		{ 12, 11, 120, job_a, 1 },
	};
	const struct row after[] = {
		{ 1, 0, 1, NULL, 0 },
		{ 12, 1, 120, job_a, 1 },
		{ 13, 12, 130, job_a, 2 },
		{ 14, 1, 140, NULL, 0 },
	};
	/* Its pid is another process by now. */
	const struct row reused[] = { { 1, 0, 1, NULL, 0 }, { 12, 1, 999, NULL, 0 } };
	struct assigner *a = assigner_new();

	(void)state;
	check(a, before, ARRAY_SIZE(before), &root, 1);
	root.sheet_num = 2;
	check(a, after, ARRAY_SIZE(after), &root, 1);
	check(a, reused, ARRAY_SIZE(reused), &root, 1);
	assigner_free(a);
}

/* A pid that was the runner's, and is another process: nobody's root. */
static void test_reused_roots(void **state)
{
	const struct assign_root root = { { 10, 100 }, true, job_a, 0, 1 };
	const struct row rows[] = { { 10, 1, 555, NULL, 0 }, { 11, 10, 600, NULL, 0 } };
	const struct assign_root unknown = { { 10, U64_UNKNOWN }, true, job_a, 0, 1 };
	struct assigner *a = assigner_new();

	(void)state;
	check(a, rows, ARRAY_SIZE(rows), &root, 1);
	check(a, rows, ARRAY_SIZE(rows), &unknown, 1);
	assigner_free(a);
}

static void test_circles(void **state)
{
	const struct assign_root root = { { 10, 100 }, true, job_a, 0, 1 };
	const struct row rows[] = {
		{ 5, 5, 1, NULL, 0 }, { 6, 7, 1, NULL, 0 },	{ 7, 6, 1, NULL, 0 },
		{ 8, 6, 1, NULL, 0 }, { 10, 11, 100, NULL, 0 }, { 11, 10, 1, NULL, 0 },
	};
	struct assigner *a = assigner_new();

	(void)state;
	check(a, rows, ARRAY_SIZE(rows), &root, 1);
	assigner_free(a);
}

/* A job that is not watched any more takes its members with it. */
static void test_jobs_end(void **state)
{
	const struct assign_root roots[] = { { { 10, 100 }, true, job_a, 0, 1 },
					     { { 20, 200 }, true, job_b, 0, 1 } };
	const struct row before[] = { { 10, 1, 100, NULL, 0 },
				      { 11, 10, 110, job_a, 1 },
				      { 20, 1, 200, NULL, 0 },
				      { 21, 20, 210, job_b, 1 } };
	const struct row after[] = { { 11, 1, 110, NULL, 0 },
				     { 21, 20, 210, job_b, 1 },
				     { 20, 1, 200, NULL, 0 } };
	struct assigner *a = assigner_new();

	(void)state;
	check(a, before, ARRAY_SIZE(before), roots, 2);
	check(a, after, ARRAY_SIZE(after), roots + 1, 1);
	assigner_free(a);
}

/* Noted down earlier, or told of by the kernel: its parent is gone when it is first looked at. */
static void test_remembered(void **state)
{
	const struct assign_root root = { { 10, 100 }, false, job_a, 0, 1 };
	const struct proc_key known = { 11, 110 }, reused = { 12, 120 };
	const struct row rows[] = {
		{ 1, 0, 1, NULL, 0 },
		{ 11, 1, 110, job_a, 3 },
		{ 12, 1, 999, NULL, 0 }, /* somebody else has the pid by now */
		{ 13, 11, 130, job_a, 1 },
	};
	struct assigner *a = assigner_new();

	(void)state;
	assert_int_equal(assign_remember(a, &known, job_a, 3), 0);
	assert_int_equal(assign_remember(a, &reused, job_a, 3), 0);
	check(a, rows, ARRAY_SIZE(rows), &root, 1);
	assigner_free(a);
}

/* The address of its id may be another job's soon. */
static void test_a_job_is_forgotten(void **state)
{
	const struct assign_root root = { { 10, 100 }, false, job_a, 0, 1 },
				 other = { { 20, 200 }, false, job_a, 0, 1 };
	const struct row before[] = { { 10, 1, 100, job_a, 1 }, { 11, 10, 110, job_a, 1 } };
	const struct row after[] = { { 11, 1, 110, NULL, 0 }, { 20, 1, 200, job_a, 1 } };
	struct assigner *a = assigner_new();

	(void)state;
	check(a, before, ARRAY_SIZE(before), &root, 1);
	assigner_forget_job(a, job_a);
	check(a, after, ARRAY_SIZE(after), &other, 1);
	assigner_free(a);
}

static void find_all(const struct assigner *a, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(assign_find(a, rows[i].pid), (int)i);
}

/* What is not looked up anew while everybody stands where he stood must not outlive a change. */
static void test_the_same_places(void **state)
{
	const struct assign_root roots[] = { { { 5, 50 }, false, job_b, 0, 1 },
					     { { 10, 100 }, false, job_a, 0, 1 } };
	struct row rows[] = {
		{ 5, 1, 50, job_b, 1 },
		{ 10, 1, 100, job_a, 1 },
		{ 11, 10, 110, job_a, 1 },
		{ 12, 10, 120, job_a, 1 },
	};
	const size_t n = ARRAY_SIZE(rows);
	struct assigner *a = assigner_new();

	(void)state;
	for (int i = 0; i < 3; i++)
		check(a, rows, n, roots, 2);
	rows[2] = (struct row){ 11, 1, 999, NULL, 0 }; /* another process */
	check(a, rows, n, roots, 2);
	assert_int_equal(assign_remember(a, &(struct proc_key){ 12, 120 }, job_b, 3), 0);
	rows[3].job_id = job_b;
	rows[3].sheet_num = 3;
	check(a, rows, n, roots, 2);
	rows[3].pid = 13; /* as many as before, and one of them another */
	rows[3].job_id = job_a;
	rows[3].sheet_num = 1;
	check(a, rows, n, roots, 2);
	find_all(a, rows, n);
	assert_int_equal(assign_find(a, 12), -1);
	assigner_forget_job(a, job_a); /* another job has the address of its id */
	rows[1].job_id = rows[3].job_id = NULL;
	check(a, rows, n, (struct assign_root[]){ roots[0], { { 20, 1 }, true, job_a, 0, 1 } }, 2);
	assigner_free(a);
}

/* Who is too young for anybody to know the sheet is of that of the nearest who is not. */
static void test_sheets_are_inherited(void **state)
{
	CLEANUP(snapshot_release) struct snapshot s;
	const struct assign_root roots[] = { { { 10, 100 }, true, job_a, 0, 1 },
					     { { 13, 130 }, true, job_b, 0, 1 } };
	/* The runner's child, its child and grandchild, which runs another job, a child of the
	 * runner that nobody knows, and its child. */
	const struct row rows[] = {
		{ 10, 1, 100, NULL, 0 },   { 11, 10, 110, NULL, 2 },  { 12, 11, 120, NULL, -1 },
		{ 13, 12, 130, NULL, -1 }, { 14, 13, 140, NULL, -1 }, { 15, 10, 150, NULL, -1 },
		{ 9, 15, 160, NULL, -1 },
	};
	const int wanted[] = { SHEET_NONE, 2, 2, 2, SHEET_NONE, SHEET_NONE, SHEET_NONE };
	struct assigner *a = assigner_new();
	size_t n_of[2];

	(void)state;
	snapshot_init(&s);
	fill(&s, rows, ARRAY_SIZE(rows));
	assert_int_equal(assign_processes(a, &s, roots, 2, n_of), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (assign_owner(a, i) >= 0)
			s.processes[i].sheet_num = rows[i].sheet_num;
	assert_int_equal(assign_find(a, 12), 2);
	assert_int_equal(assign_find(a, 999), -1);
	s.processes[5].ppid = 9; /* the table was read while it changed */
	assign_inherit_sheets(a, &s);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(s.processes[i].sheet_num, wanted[i]);
	assigner_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descendants_of_runners),
		cmocka_unit_test(test_members_stay),
		cmocka_unit_test(test_reused_roots),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_jobs_end),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_a_job_is_forgotten),
		cmocka_unit_test(test_the_same_places),
		cmocka_unit_test(test_sheets_are_inherited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
