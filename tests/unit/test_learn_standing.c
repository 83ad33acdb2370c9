#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/macros.h"
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

/* 18 others cannot make anything unusual; 19 can: 1 / 20. Of 99 19 in 20 have at most 95. */
static void test_what_is_not(void **state)
{
	struct run_record runs[MAX_RUNS];
	struct standing s = judge(runs, fill_all(runs, 18), 1000);

	(void)state;
	assert_false(s.values[STANDING_WALL].is_unusual);
	assert_int_equal(s.values[STANDING_WALL].n_below, 18);
	assert_int_equal(s.values[STANDING_WALL].side, 1); /* but it is more than any */
	assert_int_equal(judge(runs, 2, 1000).values[STANDING_WALL].side, 0);
	fill_all(runs, 19);
	s = judge(runs, 19, 1000);
	assert_true(s.values[STANDING_WALL].is_unusual && s.values[STANDING_WALL].side == 1);
	s = judge(runs, 19, 0);
	assert_true(s.values[STANDING_WALL].is_unusual && s.values[STANDING_WALL].side == -1);
	s = judge(runs, 19, 18.5);
	assert_true(!s.values[STANDING_WALL].is_unusual && s.values[STANDING_WALL].side == 0);
	s = judge(runs, fill_all(runs, 99), 94.5);
	assert_true(s.values[STANDING_WALL].low == 5 && s.values[STANDING_WALL].high == 95);
	assert_false(s.values[STANDING_WALL].is_unusual); /* 5 have more: 6 / 100 */
	assert_true(judge(runs, 99, 95.98).values[STANDING_WALL].is_unusual);
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

/* By the same judgement, of what can be a reason alone. */
static void test_reasons(void **state)
{
	struct standing_reason reasons[STANDING_MAX_REASONS];
	struct run_record runs[MAX_RUNS], run;

	(void)state;
	for (size_t i = 0; i < MAX_RUNS; i++) {
		fill(&runs[i], OUTCOME_SUCCESS, 1, 100);
		runs[i].io_stall_pct = 1;
		runs[i].cpu_stall_pct = 50;
		runs[i].major_faults = (double)(i % 50);
	}
	fill(&run, OUTCOME_SUCCESS, 9, 900);
	run.io_stall_pct = 80;
	run.cpu_stall_pct = 10; /* less */
	run.major_faults = 30;
	assert_int_equal(standing_list_reasons(&run, runs, MAX_RUNS, reasons), 1);
	assert_string_equal(reasons[0].name, "stalled for I/O");
	assert_true(reasons[0].value.value == 80 && reasons[0].value.high == 1);
	assert_int_equal(standing_list_reasons(&run, runs, 18, reasons), 0); /* too few */
}

/* ---- two runs side by side ---- */

static void test_diff(void **state)
{
	CLEANUP(diff_release) struct diff d = { .arena = ARENA_INIT };
	struct run_record runs[22];

	(void)state;
	for (size_t i = 0; i < 22; i++) {
		run_record_init(&runs[i]);
		runs[i].attempt = (int64_t)i + 1;
		runs[i].peak_rss_mb = 100 + (double)i;
		runs[i].cpu_seconds = 10 + (double)(i % 3);
		runs[i].syscalls = "read 60 write 40";
	}
	runs[21].peak_rss_mb = 400;
	runs[21].syscalls = "read 10 write 90";
	assert_int_equal(diff_runs(&runs[2], &runs[21], runs, 21, &d), 0);
	assert_int_equal(d.n, 4);
	assert_int_equal(d.n_others, 20); /* the first of the two is no other */
	assert_string_equal(d.rows[0].key, "cpu_seconds");
	assert_int_equal(d.rows[0].judgement, DIFF_USUAL);
	assert_string_equal(d.rows[1].key, "peak_rss_mb");
	assert_int_equal(d.rows[1].judgement, DIFF_MORE);
	assert_true(fabs(d.rows[1].p - 3.0 / 462) < 1e-12); /* 3 of 231 pairs, in one order */
	assert_true(d.rows[1].usual == 19); /* 23 pairs differ by as much: 21 of them by 280 */
	assert_string_equal(d.rows[2].key, "syscall:read");
	assert_true(fabs(d.rows[2].after - 10) < 1e-12);
	assert_int_equal(d.rows[2].judgement, DIFF_LESS);
	assert_int_equal(d.rows[3].judgement, DIFF_MORE);
	assert_true(fabs(diff_expected_by_chance(&d) - 4 * 0.05) < 1e-12);
	diff_release(&d);
	runs[21].syscalls = "read 40 write 40 futex 20"; /* equal shares are two calls */
	assert_int_equal(diff_runs(&runs[21], &runs[21], NULL, 0, &d), 0);
	assert_int_equal(d.n, 5);
	assert_string_equal(d.rows[3].key, "syscall:write");
	assert_true(diff_expected_by_chance(&d) == 0);
	diff_release(&d);
	assert_int_equal(diff_runs(&runs[2], &runs[21], runs, 3, &d), 0);
	assert_int_equal(d.rows[1].judgement, DIFF_UNKNOWN);
	assert_true(isnan(d.rows[1].usual));
}

/* ---- how often it is stated of nothing ---- */

#define ROUNDS 4000
#define TOO_OFTEN (0.05 + 4 * 0.0035)	    /* 4 standard deviations of a share of 0.05 */
#define TOO_OFTEN_AT_ALL (0.1 + 4 * 0.0048) /* the same of 0.1, for both sides together */

/* How often of so many rounds each is called more, and less. */
struct rates {
	size_t n_more, n_less, n_diff_more, n_diff_less;
};

static struct rates measure(size_t n, uint64_t seed)
{
	struct run_record runs[MAX_RUNS + 1];
	struct rates rates = { 0 };
	struct rng rng;

	rng_seed(&rng, seed);
	for (size_t round = 0; round < ROUNDS; round++) {
		struct diff d = { .arena = ARENA_INIT };
		struct standing s = { 0 };

		/* Others, the first of the two and the second. */
		for (size_t i = 0; i < n + 2; i++) {
			fill(&runs[i], OUTCOME_SUCCESS, exp(rng_normal(&rng)), NAN);
			runs[i].attempt = (int64_t)i + 1;
		}
		assert_int_equal(standing_judge(&runs[n + 1], runs, n + 1, &s), 0);
		assert_int_equal(diff_runs(&runs[n], &runs[n + 1], runs, n + 1, &d), 0);
		rates.n_more += s.values[0].is_unusual && s.values[0].side > 0;
		rates.n_less += s.values[0].is_unusual && s.values[0].side < 0;
		rates.n_diff_more += d.rows[0].judgement == DIFF_MORE;
		rates.n_diff_less += d.rows[0].judgement == DIFF_LESS;
		/* One definition: what the one calls more the other does not call usual, or less.
		 */
		assert_true(d.rows[0].judgement != DIFF_MORE || s.values[0].side > 0);
		assert_true(d.rows[0].judgement != DIFF_LESS || s.values[0].side < 0);
		assert_true(d.rows[0].judgement != DIFF_MORE || d.rows[0].after > d.rows[0].before);
		diff_release(&d);
	}
	return rates;
}

/* Of runs like the others at most 1 in 20 is called more, and as many less: 1 in 10 together. */
static void test_how_often_it_is_stated_of_nothing(void **state)
{
	static const size_t sizes[] = { 3, 4, 5, 7, 10, 18, 19, 40, 80 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct rates r = measure(sizes[i], 8 + i);
		const double n = ROUNDS;

		print_message(
			"# %2zu others: report more %.3f, less %.3f; diff more %.3f, less %.3f\n",
			sizes[i], (double)r.n_more / n, (double)r.n_less / n,
			(double)r.n_diff_more / n, (double)r.n_diff_less / n);
		assert_true((double)r.n_more <= TOO_OFTEN * n && (double)r.n_less <= TOO_OFTEN * n);
		assert_true((double)r.n_diff_more <= TOO_OFTEN * n);
		assert_true((double)r.n_diff_less <= TOO_OFTEN * n);
		assert_true((double)(r.n_more + r.n_less) <= TOO_OFTEN_AT_ALL * n);
		assert_true((double)(r.n_diff_more + r.n_diff_less) <= TOO_OFTEN_AT_ALL * n);
		assert_true(r.n_diff_more > 0);
		assert_true((r.n_more > 0) == (sizes[i] >= 18)); /* with the first it is 19 */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_usual),
		cmocka_unit_test(test_what_is_not),
		cmocka_unit_test(test_nearly_the_same_is_the_same),
		cmocka_unit_test(test_failures_are_not_the_usual),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_how_often_it_is_stated_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
