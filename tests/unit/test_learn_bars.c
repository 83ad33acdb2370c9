/*
 * The bars of docs/statistics.md, on made-up runs with a seed: how often noise is
 * called supported, and how often a true shift is found. tests/bench/bench_learn
 * does the same for longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "learn_bars.h"

/* Instrumented code takes its time: there the same, only less of it. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS(n) ((n) / 10)
#else
#define ROUNDS(n) (n)
#endif

/* So many of n come out at most, if the true share is at most this: 3 standard deviations. */
static double most_of(size_t n, double share)
{
	return (double)n * share + 3 * sqrt((double)n * share * (1 - share));
}

static void test_noise_is_seldom_supported(void **state)
{
	/* All sizes from..to, each so many times. */
	static const struct {
		size_t from, to, times;
	} bands[] = {
		{ 5, 9, 100 }, { 10, 19, 60 }, { 20, 49, 20 }, { 50, 99, 6 }, { 100, 200, 3 }
	};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 20);
	print_message("# noise, 14 features, correlation 0.5, 30 %% failures\n");
	print_message("#        n   analyses  supported  share   bar\n");
	for (size_t b = 0; b < ARRAY_SIZE(bands); b++) {
		size_t n_analyses = 0, n_supported = 0;

		for (size_t n = bands[b].from; n <= bands[b].to; n++)
			for (size_t i = 0; i < ROUNDS(bands[b].times) + 1; i++) {
				double p = bars_analyze(&rng, n, 0.3, false, 0);

				assert_true(p >= 0);
				n_analyses++;
				n_supported += p <= ANALYSIS_LEVEL;
			}
		print_message("# %3zu to %3zu   %6zu   %6zu    %.3f   0.05\n", bands[b].from,
			      bands[b].to, n_analyses, n_supported,
			      (double)n_supported / (double)n_analyses);
		assert_true((double)n_supported <= most_of(n_analyses, 0.05));
	}
}

static void test_a_true_shift_is_found(void **state)
{
	static const struct {
		size_t n;
		size_t times;
		double bar;
	} rows[] = { { 12, 2000, 0.7 }, { 20, 1000, 0.95 } };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 21);
	print_message(
		"# a shift of 2.5 standard deviations in one of 14 features, 40 %% failures\n");
	print_message("#   n   analyses  p <= 0.10  p <= 0.05  bar at 0.10\n");
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		size_t times = ROUNDS(rows[k].times), n_10 = 0, n_05 = 0;

		for (size_t i = 0; i < times; i++) {
			double p = bars_analyze(&rng, rows[k].n, 0.4, true, 2.5);

			assert_true(p >= 0);
			n_10 += p <= 0.10;
			n_05 += p <= 0.05;
		}
		print_message("# %3zu    %6zu    %.3f      %.3f      %.2f\n", rows[k].n, times,
			      (double)n_10 / (double)times, (double)n_05 / (double)times,
			      rows[k].bar);
		/* Missed no more often than the bar lets it. */
		assert_true((double)(times - n_10) <= most_of(times, 1 - rows[k].bar));
	}
}

/* A test that finds nothing in noise may find nothing at all; and the other way round. */
static void test_the_size_of_the_test_is_used(void **state)
{
	size_t times = ROUNDS(3000), n_10 = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 22);
	for (size_t i = 0; i < times; i++)
		n_10 += bars_analyze(&rng, 14, 0.5, true, 0) <= 0.10;
	print_message("# noise at 14 runs, half failed: p <= 0.10 in %.3f\n",
		      (double)n_10 / (double)times);
	assert_true((double)n_10 <= most_of(times, 0.10));
	assert_true((double)n_10 >= 0.05 * (double)times);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_noise_is_seldom_supported),
		cmocka_unit_test(test_a_true_shift_is_found),
		cmocka_unit_test(test_the_size_of_the_test_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
