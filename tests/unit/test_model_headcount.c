#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>

#include "base/unknown.h"
#include "model/headcount.h"

#define SECOND UINT64_C(1000000000)
#define MB (UINT64_C(1024) * 1024)
#define BOOT_A "11111111-0000-4000-8000-000000000001"
#define BOOT_B "22222222-0000-4000-8000-000000000002"

/* A tick of one process. */
static void see(struct headcount *h, const char *boot_id, pid_t pid, uint64_t start_ticks,
		uint64_t cpu_ns)
{
	headcount_begin_tick(h, boot_id);
	assert_int_equal(headcount_add(h, (struct proc_key){ pid, start_ticks }, cpu_ns), 0);
}

static void begin(struct headcount *h)
{
	assert_int_equal(headcount_init(h), 0);
}

/* Compares, and ends it. */
static void check(struct headcount *h, uint64_t n_pids, uint64_t n_processes, uint64_t cpu_ns)
{
	assert_int_equal(h->n_pids, n_pids);
	assert_int_equal(h->n_processes, n_processes);
	assert_true(headcount_cpu_ns(h) == cpu_ns);
	headcount_release(h);
}

static void test_nothing_seen(void **state)
{
	struct headcount h;

	(void)state;
	begin(&h);
	check(&h, 0, 0, U64_UNKNOWN);
}

static void test_cpu_is_the_most_of_each_process(void **state)
{
	struct headcount h;

	(void)state;
	begin(&h);
	see(&h, BOOT_A, 10, 1, 2 * SECOND);
	see(&h, BOOT_A, 11, 1, 1 * SECOND);
	see(&h, BOOT_A, 10, 1, 5 * SECOND);
	see(&h, BOOT_A, 10, 1, 4 * SECOND); /* counters do not fall: an odd reading */
	see(&h, BOOT_A, 10, 1, U64_UNKNOWN);
	see(&h, BOOT_A, 10, 1, 6 * SECOND);
	check(&h, 2, 2, 7 * SECOND);
}

static void test_cpu_that_does_not_fit_is_unknown(void **state)
{
	struct headcount h;

	(void)state;
	begin(&h);
	see(&h, BOOT_A, 10, 1, UINT64_MAX - 1);
	see(&h, BOOT_A, 11, 1, UINT64_MAX - 1);
	see(&h, BOOT_A, 12, 1, SECOND);
	check(&h, 3, 3, U64_UNKNOWN);
}

static void test_a_pid_used_twice_is_two_processes(void **state)
{
	struct headcount h;

	(void)state;
	begin(&h);
	see(&h, BOOT_A, 10, 100, 5 * SECOND);
	see(&h, BOOT_A, 10, 900, 1 * SECOND);
	see(&h, BOOT_A, 10, 100, 5 * SECOND); /* a late row of the first */
	see(&h, BOOT_A, 10, 900, 2 * SECOND);
	check(&h, 1, 2, 7 * SECOND);
}

static void test_after_a_boot_pids_begin_anew(void **state)
{
	struct headcount h;

	(void)state;
	begin(&h);
	see(&h, BOOT_A, 10, 900, 5 * SECOND);
	see(&h, "", 10, 900, 6 * SECOND);
	see(&h, BOOT_B, 10, 900, 2 * SECOND);
	see(&h, BOOT_B, 11, 100, 1 * SECOND);
	check(&h, 2, 3, 9 * SECOND);
}

static void test_without_start_times_the_pid_decides(void **state)
{
	struct headcount h;

	(void)state;
	begin(&h);
	see(&h, NULL, 10, U64_UNKNOWN, 5 * SECOND);
	see(&h, NULL, 10, 100, 6 * SECOND);
	see(&h, NULL, 10, U64_UNKNOWN, 7 * SECOND);
	see(&h, NULL, -1, 100, SECOND); /* no pids */
	see(&h, NULL, 1 << 22, 100, SECOND);
	check(&h, 1, 1, 7 * SECOND);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Each is seen for one tick, a hundred at a time. */
static void test_a_million_processes_need_little_memory(void **state)
{
	const uint64_t n = 1000000;
	size_t before = heap_bytes();
	struct headcount h;

	(void)state;
	begin(&h);
	for (uint64_t i = 0; i < n; i++) {
		struct proc_key key = { (pid_t)i + 1, 1000 + i / 100 };

		if (i % 100 == 0)
			headcount_begin_tick(&h, BOOT_A);
		assert_int_equal(headcount_add(&h, key, SECOND), 0);
	}
	assert_true(heap_bytes() - before < 8 * MB);
	check(&h, n, n, n * SECOND);
}

/* What was forgotten may come back: it is not counted again. */
static void test_a_forgotten_process_counts_once(void **state)
{
	static const uint64_t starts[] = { 50, U64_UNKNOWN };
	const pid_t n = HEADCOUNT_MAX + 10;
	struct headcount h;

	(void)state;
	for (int i = 0; i < 2; i++) {
		begin(&h);
		see(&h, BOOT_A, 1, starts[i], 9 * SECOND);
		for (pid_t pid = 2; pid <= n; pid++)
			see(&h, BOOT_A, pid, 60 + (uint64_t)pid, 0);
		see(&h, BOOT_A, 1, starts[i], 9 * SECOND);
		check(&h, n, n, 9 * SECOND);
	}
}

/* Without start times none is forgotten, and so there is no room for more. */
static void test_pids_alone_are_not_forgotten(void **state)
{
	const pid_t n = HEADCOUNT_MAX + 10;
	struct headcount h;

	(void)state;
	begin(&h);
	for (int round = 0; round < 2; round++)
		for (pid_t pid = 1; pid <= n; pid++)
			see(&h, BOOT_A, pid, U64_UNKNOWN, SECOND);
	check(&h, n, HEADCOUNT_MAX, HEADCOUNT_MAX * SECOND);
}

static void test_too_many_at_once_are_not_counted(void **state)
{
	const pid_t n = HEADCOUNT_MAX + 1000;
	struct headcount h;

	(void)state;
	begin(&h);
	for (int tick = 0; tick < 3; tick++) {
		headcount_begin_tick(&h, BOOT_A);
		for (pid_t pid = 1; pid <= n; pid++)
			assert_int_equal(headcount_add(&h, (struct proc_key){ pid, 1 }, SECOND), 0);
	}
	check(&h, n, HEADCOUNT_MAX, HEADCOUNT_MAX * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_seen),
		cmocka_unit_test(test_cpu_is_the_most_of_each_process),
		cmocka_unit_test(test_cpu_that_does_not_fit_is_unknown),
		cmocka_unit_test(test_a_pid_used_twice_is_two_processes),
		cmocka_unit_test(test_after_a_boot_pids_begin_anew),
		cmocka_unit_test(test_without_start_times_the_pid_decides),
		cmocka_unit_test(test_a_million_processes_need_little_memory),
		cmocka_unit_test(test_a_forgotten_process_counts_once),
		cmocka_unit_test(test_pids_alone_are_not_forgotten),
		cmocka_unit_test(test_too_many_at_once_are_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
