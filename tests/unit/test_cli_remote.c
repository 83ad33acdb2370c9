#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/macros.h"
#include "cli/remote.h"

static struct attempt make_attempt(int num, uint64_t uid, uint64_t started_wall_ns)
{
	return (struct attempt){
		.job_id = "k", .attempt_num = num, .uid = uid, .started_wall_ns = started_wall_ns
	};
}

#define SECOND UINT64_C(1000000000)

/* The daemon counts over all users, and has not heard of what was short. */
static void test_the_same_attempt_has_two_numbers(void **state)
{
	struct attempt ours[] = { make_attempt(1, 7, 100 * SECOND),
				  make_attempt(2, 7, 200 * SECOND) };
	struct attempt others[] = { make_attempt(1, 7, 200 * SECOND + 1000),
				    make_attempt(2, 8, 300 * SECOND),
				    make_attempt(3, 7, 400 * SECOND) };
	const struct attempt_list own = { .items = ours, .n = ARRAY_SIZE(ours) };
	const struct attempt_list theirs = { .items = others, .n = ARRAY_SIZE(others) };

	(void)state;
	assert_int_equal(remote_match_number(&own, &theirs, 2), 1);
	assert_int_equal(remote_match_number(&own, &theirs, 1), 0); /* which it has not heard of */
	assert_int_equal(remote_match_number(&own, &theirs, 3), 3); /* recorded there alone */
	assert_int_equal(remote_match_number(&own, &theirs, 4), 0);
	assert_int_equal(remote_number_here(&own, &others[0]), 2);
	assert_int_equal(remote_number_here(&own, &others[2]), 3);
}

/* A number of the daemon's is not taken for another of ours. */
static void test_what_we_call_otherwise_is_not_meant(void **state)
{
	struct attempt ours[] = { make_attempt(2, 7, 200 * SECOND) };
	struct attempt others[] = { make_attempt(4, 7, 200 * SECOND) };
	const struct attempt_list own = { .items = ours, .n = 1 };
	const struct attempt_list theirs = { .items = others, .n = 1 };

	(void)state;
	assert_int_equal(remote_match_number(&own, &theirs, 2), 4);
	assert_int_equal(remote_match_number(&own, &theirs, 4), 0);
}

static void test_of_one_database_each_keeps_its_number(void **state)
{
	struct attempt both[] = { make_attempt(1, 7, 100 * SECOND),
				  make_attempt(2, 7, 100 * SECOND) };
	const struct attempt_list list = { .items = both, .n = ARRAY_SIZE(both) };
	const struct attempt_list none = { 0 };

	(void)state;
	assert_int_equal(remote_match_number(&list, &list, 1), 1);
	assert_int_equal(remote_match_number(&list, &list, 2), 2);
	assert_int_equal(remote_match_number(&none, &list, 2), 2);
	assert_int_equal(remote_match_number(&list, &none, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_same_attempt_has_two_numbers),
		cmocka_unit_test(test_what_we_call_otherwise_is_not_meant),
		cmocka_unit_test(test_of_one_database_each_keeps_its_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
