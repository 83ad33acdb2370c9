#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/macros.h"
#include "jobs/orphans.h"

static int make(void **state)
{
	*state = orphans_new();
	return *state ? 0 : -1;
}

static int drop(void **state)
{
	orphans_free(*state);
	return 0;
}

struct row {
	pid_t pid, ppid;
	uint64_t start;
	char state;
	const char *job_id;
};

struct found {
	size_t n, n_gone;
	pid_t pids[16];
	pid_t gone[16];
};

static void on_found(void *ctx, const struct orphan *orphan, const struct proc_sample *p)
{
	struct found *found = ctx;

	assert_int_equal(orphan->key.pid, p->key.pid);
	assert_string_equal(orphan->job_id, "j");
	found->pids[found->n++] = p->key.pid;
}

static void on_gone(void *ctx, const struct orphan *orphan)
{
	struct found *found = ctx;

	found->gone[found->n_gone++] = orphan->key.pid;
}

static size_t look(struct orphans *o, const struct row *rows, size_t n, struct found *ret)
{
	static const struct orphans_ops ops = { on_found, on_gone };
	CLEANUP(snapshot_release) struct snapshot s;

	snapshot_init(&s);
	for (size_t i = 0; i < n; i++) {
		struct proc_sample *p = snapshot_add_process(&s);

		p->key = (struct proc_key){ rows[i].pid, rows[i].start };
		p->ppid = rows[i].ppid;
		p->state = rows[i].state;
		p->job_id = rows[i].job_id;
	}
	*ret = (struct found){ 0 };
	assert_int_equal(orphans_look(o, &s, &ops, ret), 0);
	return ret->n;
}

static int suspect(struct orphans *o, pid_t pid, uint64_t start)
{
	const struct orphan orphan = { .key = { pid, start }, .job_id = "j", .attempt_id = 1 };

	return orphans_suspect(o, &orphan);
}

/* Only those that a look after the end still shows, and each is told once. */
static void test_who_lives_on(void **state)
{
	const struct row rows[] = {
		{ 10, 1, 100, 'S', NULL }, /* lives on */
		{ 11, 1, 999, 'S', NULL }, /* the pid is another's */
		{ 12, 1, 120, 'Z', NULL }, /* waits to be waited for */
		{ 13, 1, 130, 'S', "k" },  /* another job has it */
		{ 20, 1, 200, 'S', NULL }, /* nobody's */
	};
	struct orphans *o = *state;
	struct found found;

	for (pid_t pid = 10; pid < 15; pid++)
		assert_int_equal(suspect(o, pid, (uint64_t)pid * 10), 0);
	assert_int_equal(orphans_count(o), 0);
	assert_int_equal(look(o, rows, ARRAY_SIZE(rows), &found), 1);
	assert_int_equal(found.pids[0], 10);
	assert_int_equal(orphans_count(o), 1);
	assert_int_equal(look(o, rows, ARRAY_SIZE(rows), &found), 0);
	assert_int_equal(orphans_count(o), 1);
	assert_int_equal(look(o, rows + 1, ARRAY_SIZE(rows) - 1, &found), 0);
	assert_int_equal(orphans_count(o), 0);
}

static void test_what_they_start(void **state)
{
	const struct row rows[] = { { 10, 1, 100, 'S', NULL },
				    { 30, 10, 300, 'S', NULL },
				    { 31, 30, 310, 'S', NULL } };
	const struct row later[] = { { 31, 1, 310, 'S', NULL } };
	struct orphans *o = *state;
	struct found found;

	suspect(o, 10, 100);
	assert_int_equal(look(o, rows, 3, &found), 3);
	assert_int_equal(orphans_count(o), 3);
	assert_int_equal(look(o, later, 1, &found), 0); /* known by now, whoever its parent is */
	assert_int_equal(orphans_count(o), 1);
}

static void test_there_is_an_end_to_them(void **state)
{
	struct orphans *o = *state;

	for (pid_t pid = 1; pid <= ORPHANS_MAX; pid++)
		assert_int_equal(suspect(o, pid, 1), 0);
	assert_int_equal(suspect(o, ORPHANS_MAX + 1, 1), -ENOSPC);
	assert_int_equal(suspect(o, 1, 1), 0);
}

/* Each end is told once, and whoever was told to end hands that on to what it starts. */
static void test_their_ends(void **state)
{
	const struct row rows[] = { { 10, 1, 100, 'S', NULL },
				    { 11, 1, 110, 'S', NULL },
				    { 12, 10, 120, 'S', NULL } };
	struct orphans *o = *state;
	struct orphan *orphan = NULL;
	struct found found;

	suspect(o, 10, 100);
	suspect(o, 11, 110);
	suspect(o, 99, 990);
	assert_null(orphans_find(o, 10)); /* only suspected so far */
	assert_int_equal(look(o, rows, 2, &found), 2);
	assert_int_equal(found.n_gone, 0); /* 99 was gone when its job ended */
	while ((orphan = orphans_next(o, orphan)))
		orphan->cancelled_boot_ns = 7;
	assert_int_equal(look(o, rows, 3, &found), 1);
	assert_true(orphans_find(o, 12)->cancelled_boot_ns == 7);

	orphans_find(o, 11)->is_dead = true; /* the kernel has told */
	look(o, rows, 1, &found);
	assert_int_equal(found.n_gone, 1);
	assert_int_equal(found.gone[0], 12);
	look(o, rows, 0, &found);
	assert_int_equal(found.n_gone, 1);
	assert_int_equal(found.gone[0], 10);
}

/* The snapshot was taken before its job ended. */
static void test_one_that_a_look_has_as_its_jobs(void **state)
{
	const struct orphan told = {
		.key = { 10, 100 }, .job_id = "j", .attempt_id = 1, .is_found = true
	};
	const struct row before[] = { { 10, 1, 100, 'S', "j" }, { 11, 1, 110, 'S', "j" } };
	const struct row after[] = { { 10, 1, 100, 'S', NULL }, { 11, 1, 110, 'S', NULL } };
	struct orphans *o = *state;
	struct found found;

	assert_int_equal(orphans_suspect(o, &told), 0);
	suspect(o, 11, 110);
	look(o, before, 2, &found);
	assert_int_equal(found.n_gone, 0);
	assert_int_equal(orphans_count(o), 1);
	assert_int_equal(look(o, after, 2, &found), 1);
	assert_int_equal(found.pids[0], 11);
	look(o, after, 0, &found);
	assert_int_equal(found.n_gone, 2);
}

/* Somebody attaches it: it has not ended. */
static void test_one_that_another_job_takes(void **state)
{
	const struct row before[] = { { 10, 1, 100, 'S', NULL } };
	const struct row after[] = { { 10, 1, 100, 'S', "k" } };
	struct orphans *o = *state;
	struct found found;

	suspect(o, 10, 100);
	assert_int_equal(look(o, before, 1, &found), 1);
	look(o, after, 1, &found);
	assert_int_equal(found.n_gone, 0);
	assert_int_equal(orphans_count(o), 0);
}

/* Pids wrap around: a child may come before its parent. */
static void test_what_they_start_with_a_lower_pid(void **state)
{
	const struct row rows[] = { { 7, 8, 320, 'S', NULL },
				    { 8, 10, 310, 'S', NULL },
				    { 9, 11, 330, 'S', NULL }, /* its parent is gone */
				    { 10, 1, 100, 'S', NULL },
				    { 20, 7, 340, 'S', NULL } };
	struct orphans *o = *state;
	struct found found;

	suspect(o, 10, 100);
	suspect(o, 11, 110);
	assert_int_equal(look(o, rows, 5, &found), 4);
	assert_int_equal(orphans_count(o), 4);
	assert_int_equal(look(o, rows, 5, &found), 0);
	assert_int_equal(found.n_gone, 0);
	assert_int_equal(orphans_count(o), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_lives_on, make, drop),
		cmocka_unit_test_setup_teardown(test_what_they_start, make, drop),
		cmocka_unit_test_setup_teardown(test_their_ends, make, drop),
		cmocka_unit_test_setup_teardown(test_one_that_a_look_has_as_its_jobs, make, drop),
		cmocka_unit_test_setup_teardown(test_one_that_another_job_takes, make, drop),
		cmocka_unit_test_setup_teardown(test_what_they_start_with_a_lower_pid, make, drop),
		cmocka_unit_test_setup_teardown(test_there_is_an_end_to_them, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
