#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/unknown.h"
#include "report/page.h"

#define SEC UINT64_C(1000000000)

/* One second a column. */
static const struct chart_span span = { 0, CHART_COLUMNS *SEC, 1 };

static struct attempt attempt_of(struct series_point *points, size_t n)
{
	struct attempt a;

	attempt_init(&a);
	a.details.series = points;
	a.details.n_series = n;
	a.interval_seconds = 1;
	a.started_wall_ns = 0;
	a.ended_wall_ns = CHART_COLUMNS * SEC;
	return a;
}

static struct series_point point(double second, uint64_t rss, double cpu)
{
	return (struct series_point){ .wall_ns = (uint64_t)(second * 1e9),
				      .rss_bytes = rss,
				      .cpu_percent = cpu };
}

static void test_column_shows_its_highest_value(void **state)
{
	struct series_point points[] = { point(0.1, 10, NAN), point(0.5, 90, NAN),
					 point(0.9, 20, NAN), point(1.5, 5, NAN) };
	struct attempt a = attempt_of(points, 4);
	double columns[CHART_COLUMNS];

	(void)state;
	chart_resample(&a, &span, CHART_MEMORY, columns);
	assert_true(columns[0] == 90);
	assert_true(columns[1] == 5);
}

static void test_memory_holds_until_the_next_sample_but_not_over_a_gap(void **state)
{
	struct series_point points[] = { point(1, 10, 1), point(3, 20, 1), point(20, 30, 1) };
	struct attempt a = attempt_of(points, 3);
	double columns[CHART_COLUMNS];

	(void)state;
	chart_resample(&a, &span, CHART_MEMORY, columns);
	assert_true(isnan(columns[0]));
	assert_true(columns[1] == 10 && columns[2] == 10);
	assert_true(columns[3] == 20 && columns[4] == 20);
	assert_true(isnan(columns[6]) && isnan(columns[19]));
	assert_true(columns[20] == 30);
	assert_true(isnan(columns[23]) && isnan(columns[CHART_COLUMNS - 1]));
}

static void test_cpu_is_about_the_time_before_its_sample(void **state)
{
	struct series_point points[] = { point(1, 1, NAN), point(3, 1, 50), point(20, 1, 70) };
	struct attempt a = attempt_of(points, 3);
	double columns[CHART_COLUMNS];

	(void)state;
	chart_resample(&a, &span, CHART_CPU, columns);
	assert_true(isnan(columns[0]));
	assert_true(columns[1] == 50 && columns[2] == 50);
	assert_true(isnan(columns[3]) && isnan(columns[16]));
	assert_true(columns[18] == 70 && columns[19] == 70);
	assert_true(isnan(columns[20]));
}

static void test_zero_draws_a_line_and_unknown_does_not(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct series_point points[] = { point(0, 0, NAN), point(1, U64_UNKNOWN, NAN),
					 point(2, 1 << 20, NAN), point(3, 0, NAN) };
	struct attempt a = attempt_of(points, 4);

	(void)state;
	a.ended_wall_ns = 4 * SEC;
	chart_add(&out, &a);
	assert_non_null(strstr(out.data, "    1 MB ┤"));
	assert_non_null(strstr(out.data, "       0 ┤▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁                "
					 "████████████████▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁\n"));
	assert_null(strstr(out.data, "CPU"));
}

static void test_nothing_to_draw(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct series_point one = point(0, 5, 5);
	struct attempt a = attempt_of(&one, 0);

	(void)state;
	chart_add(&out, &a);
	assert_string_equal(out.data, "");

	a.details.n_series = 1; /* no length in time, no interval: still no division by zero */
	a.interval_seconds = 0;
	a.ended_wall_ns = U64_UNKNOWN;
	chart_add(&out, &a);
	assert_non_null(strstr(out.data, "     5 B ┤"));
}

static void test_sheets_are_marked_where_they_begin(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct series_point points[] = { point(0, 5, 5) };
	struct sheet_record sheets[] = {
		{ .num = 1, .started_wall_ns = 0 },
		{ .num = 2, .started_wall_ns = 8 * SEC },
		{ .num = 10, .started_wall_ns = 9 * SEC },
		{ .num = 11, .started_wall_ns = 11 * SEC },
		{ .num = 12, .started_wall_ns = U64_UNKNOWN },
	};
	struct attempt a = attempt_of(points, 1);

	(void)state;
	a.sheets = sheets;
	a.n_sheets = 5;
	chart_add(&out, &a);
	assert_non_null(strstr(out.data, "   sheet  │1      210│11\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_column_shows_its_highest_value),
		cmocka_unit_test(test_memory_holds_until_the_next_sample_but_not_over_a_gap),
		cmocka_unit_test(test_cpu_is_about_the_time_before_its_sample),
		cmocka_unit_test(test_zero_draws_a_line_and_unknown_does_not),
		cmocka_unit_test(test_nothing_to_draw),
		cmocka_unit_test(test_sheets_are_marked_where_they_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
