#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/calls.h"

static void test_sums(void **state)
{
	const struct syscall_use first[] = {
		{ "read", 10, 1, 100, 50 },
		{ "futex", 2, 0, U64_UNKNOWN, U64_UNKNOWN },
	};
	const struct syscall_use second[] = {
		{ "write", 3, 0, 900, 0 },
		{ "read", 5, 2, 20, U64_UNKNOWN },
		{ "futex", 1, 1, 7, 7 },
	};
	CLEANUP(call_sums_release) struct call_sums sums = { 0 };

	(void)state;
	call_sums_add(&sums, first, ARRAY_SIZE(first));
	call_sums_add(&sums, second, ARRAY_SIZE(second));
	call_sums_sort(&sums);
	assert_int_equal(sums.n, 3);
	assert_string_equal(sums.uses[0].name, "write");
	assert_string_equal(sums.uses[1].name, "read");
	assert_int_equal(sums.uses[1].count, 15);
	assert_int_equal(sums.uses[1].errors, 3);
	assert_int_equal(sums.uses[1].cpu_ns, 120);
	assert_false(u64_known(sums.uses[1].wait_ns)); /* unknown and anything is unknown */
	assert_string_equal(sums.uses[2].name, "futex");
	assert_false(u64_known(sums.uses[2].cpu_ns));
}

/* Of a process of which no call was timed the others tell how long they take. */
static void test_sampled_times(void **state)
{
	const struct syscall_use first[] = { { "read", 30, 0, 300, 60 },
					     { "exit", 1, 0, U64_UNKNOWN, U64_UNKNOWN } };
	const struct syscall_use second[] = { { "read", 10, 0, U64_UNKNOWN, U64_UNKNOWN } };
	CLEANUP(call_sums_release) struct call_sums sums = { .is_sampled = true };

	(void)state;
	call_sums_add(&sums, second, ARRAY_SIZE(second));
	call_sums_add(&sums, first, ARRAY_SIZE(first));
	call_sums_settle(&sums);
	call_sums_sort(&sums);
	assert_string_equal(sums.uses[0].name, "read");
	assert_int_equal(sums.uses[0].count, 40);
	assert_int_equal(sums.uses[0].cpu_ns, 400);
	assert_int_equal(sums.uses[0].wait_ns, 80);
	assert_false(u64_known(sums.uses[1].cpu_ns));
}

/* A program can call what it likes: as many names as that do not fill the memory. */
static void test_made_up_names(void **state)
{
	CLEANUP(call_sums_release) struct call_sums sums = { 0 };
	char name[32];

	(void)state;
	for (int i = 0; i < 10000; i++) {
		const struct syscall_use use = { name, 1, 0, 0, 0 };

		snprintf(name, sizeof(name), "syscall_%d", i);
		call_sums_add(&sums, &use, 1);
	}
	assert_int_equal(sums.n, 4095);
	assert_int_equal(sums.n_left_out, 10000 - 4095);
	assert_string_equal(sums.uses[4094].name, "syscall_4094");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sampled_times),
		cmocka_unit_test(test_made_up_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
