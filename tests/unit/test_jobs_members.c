#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/unknown.h"
#include "jobs/members.h"

static int make(void **state)
{
	*state = members_new();
	return *state ? 0 : -1;
}

static int drop(void **state)
{
	members_free(*state);
	return 0;
}

static int see(struct members *m, pid_t pid, uint64_t start_ticks, int64_t attempt_id)
{
	const struct member seen = { .key = { pid, start_ticks }, .attempt_id = attempt_id };

	return members_see(m, &seen);
}

static const struct member *fork_of(struct members *m, pid_t parent, pid_t child)
{
	const struct proc_key key = { child, U64_UNKNOWN };

	return members_fork(m, parent, &key, 0);
}

static void look(struct members *m, const pid_t *pids, size_t n)
{
	members_begin_look(m);
	for (size_t i = 0; i < n; i++)
		see(m, pids[i], 1000, 1);
	members_end_look(m, NULL, NULL);
}

/* Born and gone between two looks, and its own child too. */
static void test_short_lives_are_known(void **state)
{
	struct members *m = *state;

	assert_int_equal(see(m, 10, 1000, 7), 1);
	assert_int_equal(fork_of(m, 10, 11)->attempt_id, 7);
	assert_int_equal(fork_of(m, 11, 12)->attempt_id, 7);
	assert_int_equal(members_exit(m, 11)->attempt_id, 7);
	assert_int_equal(members_exit(m, 12)->attempt_id, 7);
	assert_null(members_exit(m, 12)); /* nobody dies twice */
	assert_null(members_find(m, 12));
	assert_non_null(members_find(m, 10));
}

static void test_others_are_nobodys(void **state)
{
	struct members *m = *state;

	see(m, 10, 1000, 7);
	assert_null(fork_of(m, 99, 100));
	assert_null(members_exit(m, 100));
	assert_null(members_find(m, 100));
}

static void test_a_runner_passes_on_what_it_is_not(void **state)
{
	struct members *m = *state;
	const struct member runner = { .key = { 10, 1000 }, .attempt_id = 7, .is_runner = true };

	assert_int_equal(members_see(m, &runner), 1);
	assert_false(fork_of(m, 10, 11)->is_runner);
	assert_true(members_exit(m, 10)->is_runner);
}

/* A child is of the sheet of who started it, until a look knows better. */
static void test_sheets_are_passed_on(void **state)
{
	struct members *m = *state;
	const struct member runner = {
		.key = { 10, 1000 }, .attempt_id = 7, .sheet_num = SHEET_NONE, .is_runner = true
	};
	struct member shell = { .key = { 11, 1001 }, .attempt_id = 7, .sheet_num = 2 };

	members_see(m, &runner);
	assert_int_equal(fork_of(m, 10, 11)->sheet_num, SHEET_NONE);
	members_see(m, &shell);
	assert_int_equal(fork_of(m, 11, 12)->sheet_num, 2);
	assert_int_equal(fork_of(m, 12, 13)->sheet_num, 2);
	shell.sheet_num = SHEET_NONE; /* not told this time */
	members_see(m, &shell);
	assert_int_equal(members_find(m, 11)->sheet_num, 2);
}

/* Its death was told, and the look that was under way shows it still. */
static void test_the_dead_do_not_come_back(void **state)
{
	struct members *m = *state;
	const pid_t both[] = { 10, 11 };

	look(m, both, 2);
	assert_non_null(members_exit(m, 11));
	members_begin_look(m);
	assert_int_equal(see(m, 10, 1000, 1), 0);
	assert_int_equal(see(m, 11, 1000, 1), 0);
	members_end_look(m, NULL, NULL);
	assert_null(members_find(m, 11));
}

static void test_a_pid_is_used_again(void **state)
{
	struct members *m = *state;

	see(m, 10, 1000, 1);
	see(m, 11, 1000, 1);
	members_exit(m, 11);
	assert_int_equal(see(m, 11, 2000, 2), 1); /* by another, as a look shows */
	assert_int_equal(members_find(m, 11)->attempt_id, 2);
	assert_non_null(fork_of(m, 10, 11)); /* and by a birth */
	assert_int_equal(members_find(m, 11)->attempt_id, 1);
	assert_null(fork_of(m, 99, 11)); /* of a stranger */
	assert_null(fork_of(m, 11, 12)); /* whose children are not ours */
	assert_null(members_find(m, 11));
}

/* The look was quicker than the news: it is one birth, and was told. */
static void test_a_birth_is_told_once(void **state)
{
	struct members *m = *state;
	const struct member shown = { .key = { 11, 2000 },
				      .attempt_id = 1,
				      .born_wall_ns = 5000000000,
				      .sheet_num = 4,
				      .is_told = true };
	const struct proc_key same = { 11, 2000 }, timed = { 11, U64_UNKNOWN },
			      other = { 11, 2001 };

	see(m, 10, 1000, 1);
	assert_int_equal(members_see(m, &shown), 1);
	assert_true(members_fork(m, 10, &same, 5001000000)->is_told);
	assert_int_equal(members_find(m, 11)->sheet_num, 4);
	assert_true(members_fork(m, 10, &timed, 5001000000)->is_told);
	assert_false(members_fork(m, 10, &timed, 9000000000)->is_told); /* the pid again */
	assert_false(members_fork(m, 10, &other, 9000000000)->is_told);
	assert_int_equal(members_see(m, &shown), 0);
	assert_true(members_find(m, 11)->is_told);
	members_exit(m, 11);
	assert_false(members_fork(m, 10, &timed, 9000000000)->is_told);
}

static void note_gone(void *ctx, const struct member *member)
{
	*(pid_t *)ctx = member->key.pid;
}

static void test_who_is_missing_twice_is_gone(void **state)
{
	struct members *m = *state;
	const pid_t both[] = { 10, 11 };
	pid_t gone = 0;

	look(m, both, 2);
	look(m, both, 1);
	assert_non_null(members_find(m, 11));
	members_begin_look(m);
	see(m, 10, 1000, 1);
	members_end_look(m, note_gone, &gone);
	assert_int_equal(gone, 11);
	assert_null(members_find(m, 11));
	assert_int_equal(members_count(m), 1);
}

/* A flood between two looks: the dead do not pile up. */
static void test_a_flood(void **state)
{
	struct members *m = *state;

	see(m, 1, 1000, 7);
	for (pid_t pid = 2; pid < 1000000; pid++) {
		assert_non_null(fork_of(m, 1, pid));
		assert_non_null(members_exit(m, pid));
	}
	assert_true(members_count(m) <= 65537);
	assert_non_null(members_find(m, 1));
}

static void test_many(void **state)
{
	struct members *m = *state;

	see(m, 1, 1000, 7);
	for (pid_t pid = 2; pid < 50000; pid++)
		assert_non_null(fork_of(m, pid - 1, pid));
	for (pid_t pid = 2; pid < 50000; pid++)
		assert_non_null(members_exit(m, pid));
	look(m, NULL, 0);
	look(m, NULL, 0);
	assert_int_equal(members_count(m), 0);
}

#define MEMBERS_TEST(test_) cmocka_unit_test_setup_teardown(test_, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MEMBERS_TEST(test_short_lives_are_known),
		MEMBERS_TEST(test_others_are_nobodys),
		MEMBERS_TEST(test_a_runner_passes_on_what_it_is_not),
		MEMBERS_TEST(test_sheets_are_passed_on),
		MEMBERS_TEST(test_the_dead_do_not_come_back),
		MEMBERS_TEST(test_a_pid_is_used_again),
		MEMBERS_TEST(test_a_birth_is_told_once),
		MEMBERS_TEST(test_who_is_missing_twice_is_gone),
		MEMBERS_TEST(test_a_flood),
		MEMBERS_TEST(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
