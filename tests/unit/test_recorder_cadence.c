#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "recorder/cadence.h"

#define SECOND UINT64_C(1000000000)

static void test_falls_on_whole_multiples_of_the_wall_clock(void **state)
{
	struct cadence c = { 0 };

	(void)state;
	assert_int_equal(cadence_plan(&c, 5, 1003 * SECOND, 77 * SECOND), 2 * SECOND);
	assert_int_equal(cadence_plan(&c, 5, 1005 * SECOND, 79 * SECOND), 5 * SECOND);
	assert_int_equal(cadence_plan(&c, 0.1, 1000 * SECOND + 1, 79 * SECOND), SECOND / 10 - 1);
}

/* How many are left out if a tick that was due at 79 is over then. */
static uint64_t missed_at(uint64_t boot_ns)
{
	struct cadence before = { 0 }, after;

	cadence_plan(&before, 5, 1003 * SECOND, 77 * SECOND);
	after = before;
	cadence_plan(&after, 5, boot_ns + 926 * SECOND, boot_ns);
	return cadence_missed(&before, &after);
}

/* Whether it began late or took long. */
static void test_a_late_tick_leaves_out_those_before_it(void **state)
{
	struct cadence c = { 0 };

	(void)state;
	cadence_plan(&c, 5, 1003 * SECOND, 77 * SECOND); /* due at 79 */
	assert_int_equal(cadence_lag(&c, 79 * SECOND + 7), 7);
	assert_int_equal(cadence_lag(&c, 78 * SECOND), 0); /* a timer that fires a bit early */
	assert_int_equal(missed_at(79 * SECOND + 7), 0);
	assert_int_equal(missed_at(83 * SECOND), 0);
	assert_int_equal(missed_at(84 * SECOND + 7), 1);
	assert_int_equal(missed_at(96 * SECOND), 3);
}

/* The wall clock jumps by an hour in between: the tick is on time, and the next is aligned. */
static void test_a_clock_that_is_set_makes_no_tick_late(void **state)
{
	struct cadence c = { 0 }, before;

	(void)state;
	cadence_plan(&c, 5, 1003 * SECOND, 77 * SECOND);
	assert_int_equal(cadence_lag(&c, 79 * SECOND), 0);
	before = c;
	assert_int_equal(cadence_plan(&c, 5, 4606 * SECOND, 79 * SECOND), 4 * SECOND);
	assert_int_equal(cadence_missed(&before, &c), 0);
	before = c;
	assert_int_equal(cadence_plan(&c, 5, 1006 * SECOND, 83 * SECOND), 4 * SECOND);
	assert_int_equal(cadence_missed(&before, &c), 0);
}

static void test_the_first_tick_is_not_late(void **state)
{
	struct cadence c = { 0 }, before = c;

	(void)state;
	assert_int_equal(cadence_lag(&c, 99 * SECOND), 0);
	cadence_plan(&c, 5, 1003 * SECOND, 77 * SECOND);
	assert_int_equal(cadence_missed(&before, &c), 0);
}

/* A database that is locked takes some of the time, and the samples keep their distance. */
static void test_what_a_tick_took_is_not_waited_again(void **state)
{
	(void)state;
	assert_int_equal(cadence_rest_ms(200, 0, 20), 200);
	assert_int_equal(cadence_rest_ms(200, 36, 20), 164);
	assert_int_equal(cadence_rest_ms(200, 180, 20), 20);
	assert_int_equal(cadence_rest_ms(200, 5000, 20), 20);
	assert_int_equal(cadence_rest_ms(20, 5, 20), 20);
	assert_int_equal(cadence_rest_ms(10, 5, 20), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_falls_on_whole_multiples_of_the_wall_clock),
		cmocka_unit_test(test_a_late_tick_leaves_out_those_before_it),
		cmocka_unit_test(test_a_clock_that_is_set_makes_no_tick_late),
		cmocka_unit_test(test_the_first_tick_is_not_late),
		cmocka_unit_test(test_what_a_tick_took_is_not_waited_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
