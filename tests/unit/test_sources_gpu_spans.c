/*
 * What processes did with GPUs between two looks, where readings are closer than looks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/unknown.h"
#include "sources/gpu.h"

#define SECOND UINT64_C(1000000000)

static struct gpu_spans spans;
static struct gpu_reading reading;

static int begin(void **state)
{
	(void)state;
	spans.ns = spans.n = 0;
	return 0;
}

static struct gpu_process make_process(pid_t pid, int device, double percent)
{
	return (struct gpu_process){ .key = { pid, 7 },
				     .device = device,
				     .memory_bytes = 1 << 20,
				     .utilization_pct = percent };
}

/* One that came so many seconds after the one before. */
static void add(unsigned seconds, const struct gpu_process *p, uint32_t n)
{
	gpu_reading_init(&reading);
	for (uint32_t i = 0; i < n; i++)
		gpu_add_process(&reading, &p[i]);
	gpu_spans_add(&spans, &reading, seconds * SECOND);
}

static void add_one(unsigned seconds, double percent)
{
	struct gpu_process p = make_process(5, 0, percent);

	add(seconds, &p, 1);
}

static void check_told(const struct gpu_process *p, double percent, double idleness)
{
	double got_percent, got_idleness;

	gpu_spans_tell(&spans, p, &got_percent, &got_idleness);
	assert_true(isnan(percent) ? isnan(got_percent) : fabs(got_percent - percent) < 1e-6);
	assert_true(isnan(idleness) ? isnan(got_idleness) : fabs(got_idleness - idleness) < 1e-9);
}

/* Busy for three seconds of five: the last reading alone would say that it did nothing. */
static void test_each_reading_counts(void **state)
{
	struct gpu_process last = make_process(5, 0, 0);

	(void)state;
	add_one(3, 90);
	add_one(1, 0);
	add_one(1, 0);
	check_told(&last, 54, 0.4);
	last.device = 1; /* where it was not told of */
	check_told(&last, 0, 1);
}

static void test_no_reading_since(void **state)
{
	struct gpu_process last = make_process(5, 0, 70);

	(void)state;
	check_told(&last, 70, 0);
}

/* Who comes late did nothing before. */
static void test_one_that_came_late(void **state)
{
	struct gpu_process both[] = { make_process(5, 0, 10), make_process(6, 0, 80) };

	(void)state;
	add(3, both, 1);
	add(1, both, 2);
	check_told(&both[0], 10, 0);
	check_told(&both[1], 20, 0);
}

/* A time in which the share was not told is none in which it was 0. */
static void test_shares_that_are_not_told(void **state)
{
	struct gpu_process last = make_process(5, 0, 60);

	(void)state;
	add_one(4, F64_UNKNOWN);
	add_one(1, 60);
	check_told(&last, 60, 0);
	add_one(1, F64_UNKNOWN);
	last.utilization_pct = F64_UNKNOWN;
	check_told(&last, F64_UNKNOWN, F64_UNKNOWN);
}

/* No more than the time there was, of a device that is either busy or held in vain. */
static void test_busy_and_idle_are_a_whole_at_most(void **state)
{
	struct gpu_process last = make_process(5, 0, 100);
	double percent, idleness;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		add_one(1 + i % 3, i % 2 ? 100 : 0);
		last.utilization_pct = i % 2 ? 100 : 0;
		gpu_spans_tell(&spans, &last, &percent, &idleness);
		assert_true(percent / 100 + idleness < 1 + 1e-9);
		assert_true(percent / 100 + idleness > 1 - 1e-9);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_reading_counts, begin),
		cmocka_unit_test_setup(test_no_reading_since, begin),
		cmocka_unit_test_setup(test_one_that_came_late, begin),
		cmocka_unit_test_setup(test_shares_that_are_not_told, begin),
		cmocka_unit_test_setup(test_busy_and_idle_are_a_whole_at_most, begin),
	};

	return cmocka_run_group_tests_name("sources_gpu_spans", tests, NULL, NULL);
}
