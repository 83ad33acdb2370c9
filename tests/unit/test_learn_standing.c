#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "draws.h"
#include "learn/learn.h"

#define MAX_RUNS 100

static void fill(struct run_record *run, enum outcome outcome, double wall_seconds, double peak_mb)
{
	run_record_init(run);
	run->outcome = outcome;
	run->wall_seconds = wall_seconds;
	run->peak_rss_mb = peak_mb;
}

/* Runs of 1, 2, 3… seconds. */
static size_t fill_all(struct run_record *runs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fill(&runs[i], OUTCOME_SUCCESS, (double)(1 + (i * 7) % n), NAN);
	return n;
}

static struct standing judge(const struct run_record *runs, size_t n, double wall_seconds)
{
	struct run_record run;
	struct standing s = { 0 };

	fill(&run, OUTCOME_SUCCESS, wall_seconds, 100);
	assert_int_equal(standing_judge(&run, runs, n, &s), 0);
	return s;
}

static void test_what_is_usual(void **state)
{
	struct run_record runs[MAX_RUNS];
	struct standing s = judge(runs, fill_all(runs, 9), 5);
	const struct standing_value *wall = &s.values[STANDING_WALL];

	(void)state;
	assert_int_equal(s.n_others, 9);
	assert_true(s.is_by_success);
	assert_true(wall->value == 5 && wall->median == 5 && wall->low == 1 && wall->high == 9);
	assert_true(wall->n == 9 && wall->n_below == 4 && wall->n_above == 4 && !wall->is_unusual);
	/* Of what no other has a value nothing is said; nor of what it has none of. */
	assert_int_equal(s.values[STANDING_PEAK].n, 0);
	assert_true(isnan(s.values[STANDING_PEAK].median));
	assert_false(s.values[STANDING_PEAK].is_unusual);
	assert_true(isnan(s.values[STANDING_CPU].value) && !s.values[STANDING_CPU].is_unusual);
	s = judge(runs, 0, 5);
	assert_true(s.n_others == 0 && s.values[STANDING_WALL].n == 0);
}

/* 38 others cannot make anything unusual; 39 can: 2 / 40. Of 99 the middle 95 % are 3 to 97. */
static void test_what_is_not(void **state)
{
	struct run_record runs[MAX_RUNS];
	struct standing s = judge(runs, fill_all(runs, 38), 1000);

	(void)state;
	assert_false(s.values[STANDING_WALL].is_unusual);
	assert_int_equal(s.values[STANDING_WALL].n_below, 38);
	fill_all(runs, 39);
	assert_true(judge(runs, 39, 1000).values[STANDING_WALL].is_unusual);
	assert_true(judge(runs, 39, 0).values[STANDING_WALL].is_unusual);
	assert_false(judge(runs, 39, 38.5).values[STANDING_WALL].is_unusual);
	s = judge(runs, fill_all(runs, 99), 97.5);
	assert_true(s.values[STANDING_WALL].low == 2 && s.values[STANDING_WALL].high == 98);
	assert_false(s.values[STANDING_WALL].is_unusual); /* 2 are beyond: 2 * 3 / 100 */
	assert_true(judge(runs, 99, 99.5).values[STANDING_WALL].is_unusual);
}

/* A few KB and a few ms are no news, however many others there are. */
static void test_nearly_the_same_is_the_same(void **state)
{
	struct run_record runs[MAX_RUNS], run;
	struct standing s = { 0 };

	(void)state;
	for (size_t i = 0; i < MAX_RUNS; i++)
		fill(&runs[i], OUTCOME_SUCCESS, 0.30, 98.001);
	fill(&run, OUTCOME_SUCCESS, 0.34, 98.9);
	assert_int_equal(standing_judge(&run, runs, MAX_RUNS, &s), 0);
	assert_int_equal(s.values[STANDING_PEAK].n_below, 0);
	assert_false(s.values[STANDING_PEAK].is_unusual || s.values[STANDING_WALL].is_unusual);
	fill(&run, OUTCOME_SUCCESS, 0.36, 99.1);
	assert_int_equal(standing_judge(&run, runs, MAX_RUNS, &s), 0);
	assert_true(s.values[STANDING_PEAK].is_unusual && s.values[STANDING_WALL].is_unusual);
	for (size_t i = 0; i < MAX_RUNS; i++)
		fill(&runs[i], OUTCOME_SUCCESS, 1000, 1000);
	fill(&run, OUTCOME_SUCCESS, 1009, 991);
	assert_int_equal(standing_judge(&run, runs, MAX_RUNS, &s), 0);
	assert_false(s.values[STANDING_PEAK].is_unusual || s.values[STANDING_WALL].is_unusual);
}

/* Those that failed at once do not make a run of the usual length a long one. */
static void test_failures_are_not_the_usual(void **state)
{
	struct run_record runs[MAX_RUNS];
	struct standing s;

	(void)state;
	for (size_t i = 0; i < 50; i++)
		fill(&runs[i], i < 45 ? OUTCOME_FAILURE : OUTCOME_SUCCESS, i < 45 ? 1 : 100, NAN);
	s = judge(runs, 50, 100);
	assert_true(s.n_others == 50 && s.n_failed == 45 && s.is_by_success);
	assert_true(s.values[STANDING_WALL].median == 100);
	assert_false(s.values[STANDING_WALL].is_unusual);
	s = judge(runs, 47, 100); /* two successes are too few */
	assert_false(s.is_by_success);
	assert_true(s.values[STANDING_WALL].median == 1);
}

/* Of runs that are like the others at most 1 in 20 is called unusual, and not far fewer. */
static void test_how_often_it_is_said_of_nothing(void **state)
{
	size_t n_unusual = 0, rounds = 4000;
	struct run_record runs[MAX_RUNS];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 8);
	for (size_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < 60; i++)
			fill(&runs[i], OUTCOME_SUCCESS, exp(rng_normal(&rng)), NAN);
		n_unusual +=
			judge(runs, 60, exp(rng_normal(&rng))).values[STANDING_WALL].is_unusual;
	}
	print_message("# 60 others: %.3f of runs like them are called unusual\n",
		      (double)n_unusual / (double)rounds);
	assert_true((double)n_unusual <= 0.06 * (double)rounds);
	assert_true((double)n_unusual >= 0.02 * (double)rounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_usual),
		cmocka_unit_test(test_what_is_not),
		cmocka_unit_test(test_nearly_the_same_is_the_same),
		cmocka_unit_test(test_failures_are_not_the_usual),
		cmocka_unit_test(test_how_often_it_is_said_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
