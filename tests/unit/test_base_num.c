#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>

#include "base/num.h"

static void test_u64_is_strict(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_int_equal(num_parse_u64("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(num_parse_u64("18446744073709551616", &v), -ERANGE);
	assert_int_equal(num_parse_u64("", &v), -EINVAL);
	assert_int_equal(num_parse_u64(" 1", &v), -EINVAL);
	assert_int_equal(num_parse_u64("1 ", &v), -EINVAL);
	assert_int_equal(num_parse_u64("-1", &v), -EINVAL);
	assert_true(v == UINT64_MAX);
}

static void test_i64_reaches_both_ends(void **state)
{
	int64_t v = 0;

	(void)state;
	assert_int_equal(num_parse_i64("-9223372036854775808", &v), 0);
	assert_true(v == INT64_MIN);
	assert_int_equal(num_parse_i64("9223372036854775807", &v), 0);
	assert_true(v == INT64_MAX);
	assert_int_equal(num_parse_i64("9223372036854775808", &v), -ERANGE);
	assert_int_equal(num_parse_i64("-9223372036854775809", &v), -ERANGE);
	assert_int_equal(num_parse_i64("-", &v), -EINVAL);
}

static void test_f64_takes_only_decimal(void **state)
{
	double v = 0;

	(void)state;
	assert_int_equal(num_parse_f64("-1.5e3", &v), 0);
	assert_true(v == -1500.0);
	assert_int_equal(num_parse_f64(".5", &v), 0);
	assert_int_equal(num_parse_f64("0x10", &v), -EINVAL);
	assert_int_equal(num_parse_f64("nan", &v), -EINVAL);
	assert_int_equal(num_parse_f64("1e999", &v), -ERANGE);
	assert_int_equal(num_parse_f64("1e", &v), -EINVAL);
	assert_int_equal(num_parse_f64(".", &v), -EINVAL);
}

static void test_duration_units(void **state)
{
	double v = 0;

	(void)state;
	assert_int_equal(num_parse_duration("7d", &v), 0);
	assert_true(v == 604800.0);
	assert_int_equal(num_parse_duration("1d2h3m4s", &v), 0);
	assert_true(v == 93784.0);
	assert_int_equal(num_parse_duration("5", &v), 0);
	assert_true(v == 300.0);
	assert_int_equal(num_parse_duration("1m1h", &v), -EINVAL);
	assert_int_equal(num_parse_duration("1m1m", &v), -EINVAL);
	assert_int_equal(num_parse_duration("s", &v), -EINVAL);
	assert_int_equal(num_parse_duration("  ", &v), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64_is_strict),
		cmocka_unit_test(test_i64_reaches_both_ends),
		cmocka_unit_test(test_f64_takes_only_decimal),
		cmocka_unit_test(test_duration_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
