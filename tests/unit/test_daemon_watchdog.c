#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/notify.h"

static void test_ticks_on_time(void **state)
{
	struct watchdog w = { .period_ms = 1000 };

	(void)state;
	for (uint64_t n = 0; n < 100; n++)
		assert_true(watchdog_is_content(&w, n, 1));
}

/* One every five minutes is on time, however often the question comes. */
static void test_rare_ticks(void **state)
{
	struct watchdog w = { .period_ms = 1000 };

	(void)state;
	for (uint64_t n = 0; n < 1000; n++)
		assert_true(watchdog_is_content(&w, n / 300, 300));
}

static void test_no_more_ticks(void **state)
{
	struct watchdog w = { .period_ms = 1000 };
	int n = 0;

	(void)state;
	assert_true(watchdog_is_content(&w, 7, 5));
	while (n < 100 && watchdog_is_content(&w, 7, 5))
		n++;
	assert_int_equal(n, 7); /* five seconds, and two of patience */
	assert_false(watchdog_is_content(&w, 7, 5));
	assert_true(watchdog_is_content(&w, 8, 5));
	assert_true(watchdog_is_content(&w, 8, 5));
}

/* The first tick has the same time as the others. */
static void test_no_tick_at_all(void **state)
{
	struct watchdog w = { .period_ms = 250 };
	int n = 0;

	(void)state;
	while (n < 100 && watchdog_is_content(&w, 0, 0.5))
		n++;
	assert_int_equal(n, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ticks_on_time),
		cmocka_unit_test(test_rare_ticks),
		cmocka_unit_test(test_no_more_ticks),
		cmocka_unit_test(test_no_tick_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
