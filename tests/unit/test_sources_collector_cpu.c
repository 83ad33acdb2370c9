/* The collector over a tree: CPU time, and its share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "collector_fixture.h"

static void test_cpu_percent_is_time_over_time(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 500, 1, 100 });
	scan(t);
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent)); /* first sight of an old process */

	fake_boot_ns += 2 * SECOND;
	write_stat(t, (struct fake){ 7, "a", 600, 1, 100 });
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 50.0); /* 1 s in 2 s */

	fake_boot_ns += SECOND / 2;
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.0);
	scan(t); /* no time has passed: no rate */
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent));

	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 590, 1, 100 }); /* went backwards */
	scan(t);
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent));
}

/* 10 ms in 3 s are 0.333… %; stores and readers get 0.33, and the same number from its text. */
static void test_cpu_percent_is_rounded(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 500, 1, 100 });
	scan(t);
	fake_boot_ns += 3 * SECOND;
	write_stat(t, (struct fake){ 7, "a", 501, 1, 100 });
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.33);
	fake_boot_ns += 3 * SECOND;
	write_stat(t, (struct fake){ 7, "a", 503, 1, 100 });
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.67);
}

static void test_cpu_percent_of_the_newborn(void **state)
{
	struct tree *t = *state;
	unsigned scan_ticks = 1000 * 100; /* when the first scan begins */

	write_stat(t, (struct fake){ 7, "a", 0, 1, 100 });
	scan(t);
	fake_boot_ns += 2 * SECOND;
	/* Born one second after the first scan; in the tick of it; and long before. */
	write_stat(t, (struct fake){ 8, "b", 30, 1, scan_ticks + 100 });
	write_stat(t, (struct fake){ 9, "c", 20, 1, scan_ticks });
	write_stat(t, (struct fake){ 10, "d", 20, 1, scan_ticks - 1 });
	scan(t);
	assert_true(find(&t->snap, 8)->cpu_percent == 15.0); /* 0.3 s in 2 s */
	assert_true(find(&t->snap, 9)->cpu_percent == 10.0);
	assert_false(f64_known(find(&t->snap, 10)->cpu_percent));
}

/* The scheduler counts nanoseconds where stat has ticks of 10 ms. */
static void test_cpu_time_by_the_scheduler(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 1, 100 });
	write_file(t, 7, "schedstat", "512000000 0 3\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 512000000);
	assert_int_equal(find(&t->snap, 7)->user_ns, 500000000);
	assert_false(f64_known(find(&t->snap, 7)->cpu_percent));

	fake_boot_ns += SECOND;
	write_file(t, 7, "schedstat", "516000000 0 4\n"); /* 4 ms, and not one tick */
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 516000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.4);

	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 52, 1, 100 });
	write_file(t, 7, "schedstat", "521000000 0 5\n"); /* two ticks, and 5 ms */
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.5);
}

/* Its start is all the way back to 0: a whole life shorter than a tick is not nothing. */
static void test_cpu_time_of_the_newborn_by_the_scheduler(void **state)
{
	struct tree *t = *state;

	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 0, 1, 1000 * 100 + 50 });
	write_file(t, 7, "schedstat", "3000000 0 1\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 3000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.3);
}

/* Another thread's work is in the ticks alone: then those are compared with those before. */
static void test_cpu_time_changes_its_source_without_a_jump(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 1, 100 });
	write_file(t, 7, "schedstat", "519000000 0 3\n");
	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 80, 2, 100 });
	write_file(t, 7, "schedstat", "520000000 0 4\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 800000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 30.0);

	fake_boot_ns += SECOND;
	write_file(t, 7, "schedstat", "900000000 0 5\n"); /* the first catches up: no ns before */
	write_stat(t, (struct fake){ 7, "a", 90, 2, 100 });
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 900000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 10.0);
}

/* exec in another thread puts that in the place of the first, with less behind it. */
static void test_cpu_time_never_goes_backwards(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 2, 100 });
	write_file(t, 7, "schedstat", "519000000 0 3\n");
	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "b", 51, 1, 100 });
	write_file(t, 7, "schedstat", "4000000 0 1\n");
	scan(t);
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 519000000);
	assert_true(find(&t->snap, 7)->cpu_percent == 1.0);

	fake_boot_ns += SECOND;
	unlinkat(t->root_fd, "proc/7/schedstat", 0);
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0); /* not filled */
	assert_int_equal(find(&t->snap, 7)->cpu_ns, 519000000);
}

/* A percentage is of the time since the snapshot before, filled or not. */
static void test_cpu_time_after_a_snapshot_without_filling(void **state)
{
	struct tree *t = *state;

	write_stat(t, (struct fake){ 7, "a", 50, 1, 100 });
	write_file(t, 7, "schedstat", "500000000 0 3\n");
	scan(t);
	fake_boot_ns += SECOND;
	write_stat(t, (struct fake){ 7, "a", 150, 1, 100 });
	assert_int_equal(collector_scan(t->collector, &t->snap, NULL), 0);
	fake_boot_ns += SECOND;
	write_file(t, 7, "schedstat", "1500000000 0 4\n");
	scan(t);
	assert_true(find(&t->snap, 7)->cpu_percent == 0.0); /* and not 50 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE(test_cpu_percent_is_time_over_time),
		TREE(test_cpu_percent_is_rounded),
		TREE(test_cpu_percent_of_the_newborn),
		TREE(test_cpu_time_by_the_scheduler),
		TREE(test_cpu_time_of_the_newborn_by_the_scheduler),
		TREE(test_cpu_time_changes_its_source_without_a_jump),
		TREE(test_cpu_time_never_goes_backwards),
		TREE(test_cpu_time_after_a_snapshot_without_filling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
