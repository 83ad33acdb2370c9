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
#include "sources/gpu/gpu.h"

#define SECOND UINT64_C(1000000000)

static struct gpu_spans spans;
static struct gpu_reading reading;

static int begin(void **state)
{
	(void)state;
	gpu_spans_reset(&spans);
	return 0;
}

static struct gpu_process make_process(pid_t pid, int device, double percent)
{
	return (struct gpu_process){ .key = { pid, 7 },
				     .device = device,
				     .memory_bytes = 1 << 20,
				     .utilization_pct = percent };
}

static void make_reading(const struct gpu_process *p, uint32_t n)
{
	gpu_reading_init(&reading);
	for (uint32_t i = 0; i < n; i++)
		gpu_add_process(&reading, &p[i]);
	gpu_sort_processes(&reading);
}

/* One that came so many seconds after the one before. */
static void add(unsigned seconds, const struct gpu_process *p, uint32_t n)
{
	make_reading(p, n);
	gpu_spans_add(&spans, &reading, seconds * SECOND);
}

static void add_one(unsigned seconds, double percent)
{
	struct gpu_process p = make_process(5, 0, percent);

	add(seconds, &p, 1);
}

static bool is_same(double a, double b)
{
	return isnan(a) ? isnan(b) : fabs(a - b) < 1e-6;
}

/* Of a process of which the last reading says these. */
static void check_told_of(pid_t pid, double last_percent, double last_idleness, double percent,
			  double idleness)
{
	const struct proc_key key = { pid, 7 };

	gpu_spans_tell(&spans, &key, &last_percent, &last_idleness);
	assert_true(is_same(percent, last_percent));
	assert_true(is_same(idleness, last_idleness));
}

/* Busy for three seconds of five: the last reading alone would say that it did nothing. */
static void test_each_reading_counts(void **state)
{
	(void)state;
	add_one(3, 90);
	add_one(1, 0);
	add_one(1, 0);
	check_told_of(5, 0, 1, 54, 0.4);
}

static void test_no_reading_since(void **state)
{
	(void)state;
	check_told_of(5, 70, 0, 70, 0);
}

/* Who comes late did nothing before. */
static void test_one_that_came_late(void **state)
{
	struct gpu_process both[] = { make_process(6, 0, 10), make_process(5, 0, 80) };

	(void)state;
	add(3, both, 1);
	add(1, both, 2);
	check_told_of(6, 10, 0, 10, 0);
	check_told_of(5, 80, 0, 20, 0);
}

/* Who has left the GPU has done what it did. */
static void test_one_that_has_left(void **state)
{
	(void)state;
	add_one(2, 90);
	add_one(1, 0);
	add(1, NULL, 0);
	check_told_of(5, 0, 0, 45, 0.25);
	check_told_of(4, 0, 0, 0, 0);
}

static void test_devices_of_a_process_add_up(void **state)
{
	struct gpu_process two[] = { make_process(5, 0, 100), make_process(5, 1, 0) };

	(void)state;
	add(1, two, 2);
	add(1, two, 1);
	check_told_of(5, 100, 0, 100, 0.5);
}

/* A time in which the share was not told is none in which it was 0. */
static void test_shares_that_are_not_told(void **state)
{
	(void)state;
	add_one(4, F64_UNKNOWN);
	add_one(1, 60);
	check_told_of(5, 60, 0, 60, 0);
	add_one(1, F64_UNKNOWN);
	check_told_of(5, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN);
}

/* Nor is one in which a GPU could not be read, and who was on it is listed without one. */
static void test_a_device_that_could_not_be_read(void **state)
{
	struct gpu_process dark = make_process(5, GPU_DEVICE_UNKNOWN, F64_UNKNOWN);

	(void)state;
	dark.memory_bytes = U64_UNKNOWN;
	add_one(2, 100);
	add(3, &dark, 1);
	add_one(2, 50);
	check_told_of(5, 50, 0, 75, 0);
}

/* Or in which not all could be told of. */
static void test_readings_that_leave_some_out(void **state)
{
	struct gpu_process other = make_process(6, 0, 30);

	(void)state;
	add_one(1, 100);
	make_reading(&other, 1);
	reading.n_left_out = 1;
	gpu_spans_add(&spans, &reading, 3 * SECOND);
	check_told_of(5, 0, 0, 100, 0);
	check_told_of(6, 30, 0, 22.5, 0);
}

/* The share is known where only the memory is not. */
static void test_memory_that_is_not_told(void **state)
{
	struct gpu_process p = make_process(5, 0, 0);

	(void)state;
	p.memory_bytes = U64_UNKNOWN;
	add(1, &p, 1);
	check_told_of(5, 0, F64_UNKNOWN, 0, F64_UNKNOWN);
	p.utilization_pct = 40;
	add(1, &p, 1);
	check_told_of(5, 40, 0, 20, 0);
}

/* Whom there was no room for is not said to have done nothing. */
static void test_more_than_there_is_room_for(void **state)
{
	struct gpu_process p = make_process(1, 0, 50);

	(void)state;
	for (uint32_t i = 0; i <= GPU_MAX_PROCESSES; i++) {
		p.key.pid = (pid_t)(GPU_MAX_PROCESSES + 1 - i);
		add(1, &p, 1);
	}
	check_told_of(1, 50, 0, F64_UNKNOWN, F64_UNKNOWN);
	check_told_of(2, 0, 0, 50.0 / (GPU_MAX_PROCESSES + 1), 0);
}

/* No more than the time there was, of a device that is either busy or held in vain. */
static void test_busy_and_idle_are_a_whole_at_most(void **state)
{
	const struct proc_key key = { 5, 7 };

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		double percent = i % 2 ? 100 : 0, idleness = i % 2 ? 0 : 1;

		add_one(1 + i % 3, percent);
		gpu_spans_tell(&spans, &key, &percent, &idleness);
		assert_true(is_same(percent / 100 + idleness, 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_reading_counts, begin),
		cmocka_unit_test_setup(test_no_reading_since, begin),
		cmocka_unit_test_setup(test_one_that_came_late, begin),
		cmocka_unit_test_setup(test_shares_that_are_not_told, begin),
		cmocka_unit_test_setup(test_one_that_has_left, begin),
		cmocka_unit_test_setup(test_devices_of_a_process_add_up, begin),
		cmocka_unit_test_setup(test_a_device_that_could_not_be_read, begin),
		cmocka_unit_test_setup(test_readings_that_leave_some_out, begin),
		cmocka_unit_test_setup(test_memory_that_is_not_told, begin),
		cmocka_unit_test_setup(test_more_than_there_is_room_for, begin),
		cmocka_unit_test_setup(test_busy_and_idle_are_a_whole_at_most, begin),
	};

	return cmocka_run_group_tests_name("sources_gpu_spans", tests, NULL, NULL);
}
