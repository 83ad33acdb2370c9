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

/* Seeds are fixed, so what passes once passes always: a true 5 % gets here once in 10,000. */
#define LEAST_DOUBT 1e-4

/* All rows of a table together. */
struct pool {
	size_t n_found, n_all;
};

static void assert_seldom(struct rng *rng, const struct bars_case *c, size_t times,
			  struct pool *pool)
{
	size_t n_found = bars_count(rng, c, times, ANALYSIS_LEVEL);
	double doubt;

	assert_true(n_found <= times);
	doubt = bars_doubt(n_found, times, ANALYSIS_LEVEL);
	print_message("# %3zu  %-8s %3.0f %%  %7zu   %6zu   %6zu   %.3f  %.3f\n", c->n,
		      bars_kind_names[c->kind], 100 * c->share, c->n_classes, times, n_found,
		      (double)n_found / (double)times, doubt);
	assert_true(doubt >= LEAST_DOUBT);
	pool->n_found += n_found;
	pool->n_all += times;
}

/*
 * A row of some hundred analyses would let 8 % pass. All of them together are held to the
 * bar itself: what is found is at most 5 %.
 */
static void assert_pool(const struct pool *pool)
{
	print_message("# all of these: %zu of %zu, %.4f\n", pool->n_found, pool->n_all,
		      (double)pool->n_found / (double)pool->n_all);
	if (ROUNDS(10) == 10) /* of fewer chance makes more */
		assert_true((double)pool->n_found <= ANALYSIS_LEVEL * (double)pool->n_all);
}

static void print_noise_heading(void)
{
	print_message("# noise in 14 features or more: \"supported\" at most 5 %%\n");
	print_message("#   n  features fails  classes  analyses  found   share  chance of that\n");
}

/* Each on its own: one that passes the bar is not made up for by another that stays below. */
static void test_noise_is_seldom_supported_at_any_size(void **state)
{
	static const size_t sizes[] = { 5,  6,	7,  8,	9,  10, 11, 12, 13,  14,  15,  16,  18,
					20, 25, 30, 40, 41, 50, 70, 80, 100, 120, 150, 175, 200 };
	struct bars_case c = { BARS_NORMAL, 0, 1, 0.3, false, 0 };
	struct pool pool = { 0, 0 };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 20);
	print_noise_heading();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		c.n = sizes[i];
		assert_seldom(&rng, &c, ROUNDS(c.n <= 40 ? (size_t)400 : 200), &pool);
	}
	assert_pool(&pool);
}

static void test_noise_of_any_kind_is_seldom_supported(void **state)
{
	static const size_t sizes[] = { 14, 25, 60 };
	static const double shares[] = { 0.1, 0.4, 0.8 };
	struct pool pool = { 0, 0 };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 23);
	print_noise_heading();
	for (enum bars_kind kind = 0; kind < BARS_KINDS; kind++)
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
			for (size_t k = 0; k < ARRAY_SIZE(shares); k++) {
				struct bars_case c = { kind, sizes[i], 1, shares[k], false, 0 };

				assert_seldom(&rng, &c, ROUNDS(150), &pool);
			}
	assert_pool(&pool);
}

/* However many classes one analysis looks at. */
static void test_noise_of_many_classes_is_seldom_supported(void **state)
{
	static const size_t sizes[] = { 8, 14, 25, 60 };
	struct bars_case c = { BARS_NORMAL, 0, BARS_MAX_CLASSES, 0.4, false, 0 };
	struct pool pool = { 0, 0 };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 24);
	print_noise_heading();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		c.n = sizes[i];
		assert_seldom(&rng, &c, ROUNDS(100), &pool);
	}
	assert_pool(&pool);
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
	print_message("#   n   analyses  p <= 0.10   bar\n");
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		const struct bars_case c = { BARS_NORMAL, rows[k].n, 1, 0.4, true, 2.5 };
		size_t times = ROUNDS(rows[k].times), n_found = bars_count(&rng, &c, times, 0.10);

		assert_true(n_found <= times);
		print_message("# %3zu    %6zu    %.3f      %.2f\n", rows[k].n, times,
			      (double)n_found / (double)times, rows[k].bar);
		assert_true((double)n_found >= rows[k].bar * (double)times);
	}
}

/* A test that finds nothing in noise may find nothing at all: the 10 % are used up. */
static void test_the_size_of_the_test_is_used(void **state)
{
	const struct bars_case c = { BARS_NORMAL, 14, 1, 0.5, true, 0 };
	size_t times = ROUNDS(3000), n_found;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 22);
	n_found = bars_count(&rng, &c, times, 0.10);
	print_message("# noise at 14 runs, half failed: p <= 0.10 in %.3f\n",
		      (double)n_found / (double)times);
	assert_true(bars_doubt(n_found, times, 0.10) >= LEAST_DOUBT);
	assert_true((double)n_found >= 0.05 * (double)times);
}

/* A bar that nothing misses is none: 15 % of 200 analyses would be noticed. */
static void test_the_bar_can_be_missed(void **state)
{
	(void)state;
	assert_true(bars_doubt(30, 200, ANALYSIS_LEVEL) < LEAST_DOUBT);
	assert_true(bars_doubt(10, 200, ANALYSIS_LEVEL) > LEAST_DOUBT);
	assert_true(bars_doubt(0, 200, ANALYSIS_LEVEL) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_noise_is_seldom_supported_at_any_size),
		cmocka_unit_test(test_noise_of_any_kind_is_seldom_supported),
		cmocka_unit_test(test_noise_of_many_classes_is_seldom_supported),
		cmocka_unit_test(test_a_true_shift_is_found),
		cmocka_unit_test(test_the_size_of_the_test_is_used),
		cmocka_unit_test(test_the_bar_can_be_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
