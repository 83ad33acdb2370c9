/*
 * Memory that goes down and up again: a dip, a release before a rise, a cache that is filled again.
 */
#include "rank_levels.h"

#include <math.h>

static void expect_onsets_seen(const struct first_cause *f)
{
	for (size_t i = 0; i < f->n_candidates; i++) {
		const struct onset *o = &f->candidates[i].rise->onset;

		assert_true(o->low >= -1e-6);
		assert_true(o->low <= o->median && o->median <= o->high);
	}
}

/* ---- a dip to the old level ---- */

static int64_t dipping(int rank, int second)
{
	bool is_up = second >= (rank == 0 ? 30 : 35) && !(rank == 0 && second == 32);

	return BASE_MIB + (is_up ? 600 : 0);
}

static void test_a_dip_hides_nobody(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(dipping, 2, 60, &t, &a);
	expect_onsets_seen(a.finding);
	assert_true(a.finding->verdict != VERDICT_NAMED || a.finding->rank->rank == 0);
	release(t, &a);
}

/* ---- a rise right behind a release ---- */

#define RELEASED_AT 60

/* Each gives back another amount, and climbs from there at once: the last rank first, or all. */
static int64_t climbing(int rank, int since)
{
	return 3 * BASE_MIB + (since < 0 ? 0 : 50 * since - 100 - 50 * rank);
}

static int64_t climbing_at_once(int rank, int second)
{
	return climbing(rank, second - RELEASED_AT);
}

static int64_t climbing_behind_the_last(int rank, int second)
{
	return climbing(rank, second - RELEASED_AT - (rank == 7 ? 0 : 3));
}

static void test_a_rise_begins_at_the_low_behind_a_release(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(climbing_at_once, 8, 120, &t, &a);
	assert_int_not_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->n_candidates, 8);
	for (size_t i = 0; i < 8; i++) {
		assert_true(a.finding->candidates[i].rise->onset.low <= RELEASED_AT);
		assert_true(a.finding->candidates[i].rise->onset.high >= RELEASED_AT);
	}
	release(t, &a);
	analyze(climbing_behind_the_last, 8, 120, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->rank->rank, 7);
	release(t, &a);
}

/* A rank gives back 1000 MiB and is where it was 5 s later; or goes on, by as much again. */
static int64_t refilling(int rank, int second, int most)
{
	int since = second - RELEASED_AT, up = 200 * since < most ? 200 * since : most;

	return 3 * BASE_MIB + (rank == 3 && since >= 0 ? up - 1000 : 0);
}

static int64_t refilling_only(int rank, int second)
{
	return refilling(rank, second, 1000);
}

static int64_t refilling_and_more(int rank, int second)
{
	return refilling(rank, second, 2000);
}

static void test_a_refill_to_the_old_level_is_no_rise(void **unused)
{
	struct rank_analysis a;
	struct telemetry *t;

	(void)unused;
	analyze(refilling_only, 5, 120, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NONE);
	assert_int_equal(a.finding->why, WHY_NO_RISE);
	release(t, &a);
	analyze(refilling_and_more, 5, 120, &t, &a);
	assert_int_equal(a.finding->verdict, VERDICT_NAMED);
	assert_int_equal(a.finding->rank->rank, 3);
	assert_float_equal(a.finding->candidates[0].rise->onset.median, RELEASED_AT, 1);
	release(t, &a);
}

/* Rank 1 leaks, and another one empties its cache before, or behind it. */
static int64_t leaking_beside(int rank, int second, int leaks_at)
{
	int leak = rank == 1 && second > leaks_at ? 50 * (second - leaks_at) : 0;

	return refilling_only(rank, second) + (leak < 600 ? leak : 600);
}

static int64_t leaking_before(int rank, int second)
{
	return leaking_beside(rank, second, 30);
}

static int64_t leaking_behind(int rank, int second)
{
	return leaking_beside(rank, second, 90);
}

static void test_a_refill_hides_nobody(void **unused)
{
	(void)unused;
	expect_answer(leaking_before, 5, 120, WHY_ALONE, 1);
	expect_answer(leaking_behind, 5, 120, WHY_ALONE, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_dip_hides_nobody),
		cmocka_unit_test(test_a_rise_begins_at_the_low_behind_a_release),
		cmocka_unit_test(test_a_refill_to_the_old_level_is_no_rise),
		cmocka_unit_test(test_a_refill_hides_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
