#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "draws.h"
#include "base/macros.h"
#include "stats/change_point.h"
#include "stats/probability.h"
#include "stats/order.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* Where each number is the same for every seed there would be no randomness. */
static void test_rng_is_even_and_repeats(void **state)
{
	unsigned counts[6] = { 0 };
	double sum = 0, squares = 0;
	struct rng a, b;

	(void)state;
	rng_seed(&a, 7);
	rng_seed(&b, 7);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rng_u64(&a), rng_u64(&b));
	rng_seed(&b, 8);
	assert_int_not_equal(rng_u64(&a), rng_u64(&b));
	for (int i = 0; i < 60000; i++)
		counts[rng_below(&a, 6)]++;
	for (size_t i = 0; i < 6; i++)
		assert_in_range(counts[i], 9600, 10400); /* 10,000, within 4 standard deviations */
	for (int i = 0; i < 100000; i++) {
		double v = rng_normal(&a);

		sum += v;
		squares += v * v;
	}
	assert_near(sum / 1e5, 0, 0.015);
	assert_near(squares / 1e5, 1, 0.02);
	assert_int_equal(rng_below(&a, 1), 0);
}

/* The quantiles that every table has. */
static void test_normal(void **state)
{
	(void)state;
	assert_near(normal_tail(0), 0.5, 1e-15);
	assert_near(normal_tail_quantile(0.025), 1.959963984540054, 1e-12);
	assert_near(normal_tail_quantile(0.5), 0, 1e-12);
	assert_near(normal_tail_quantile(0.95), -1.644853626951473, 1e-12);
	assert_near(normal_tail(normal_tail_quantile(1e-100)) / 1e-100, 1, 1e-6);
}

/*
 * The lady tasting tea: 3 of 4 cups right is 17 of 70 tables to one side, 34 of 70
 * to both. All 4: 1 of 70.
 */
static void test_fisher(void **state)
{
	(void)state;
	assert_near(fisher_at_least(3, 1, 1, 3), 17.0 / 70, 1e-12);
	assert_near(fisher_two_sided(3, 1, 1, 3), 34.0 / 70, 1e-12);
	assert_near(fisher_at_least(4, 0, 0, 4), 1.0 / 70, 1e-12);
	assert_near(fisher_two_sided(2, 0, 0, 3), 1.0 / 10, 1e-12);
	assert_near(fisher_two_sided(0, 5, 0, 5), 1, 1e-12);
	assert_near(exp(log_choose(12, 5)), 792, 1e-8);
}

/*
 * Wilson by hand: 8 of 9 with z = 1.96 is (8 + 1.92 -+ 1.96 sqrt(8/9 + 0.96)) / (9 + 3.84).
 */
static void test_intervals(void **state)
{
	struct interval w = interval_wilson(8, 9, 0.95);

	(void)state;
	assert_near(w.low, (8 + 1.920729 - 1.959964 * sqrt(8.0 / 9 + 0.960365)) / (9 + 3.841459),
		    1e-6);
	assert_near(w.low, 0.565, 5e-4);
	assert_near(w.high, 0.980, 5e-4);
	assert_near(interval_wilson(0, 0, 0.95).high, 1, 0);
	assert_near(interval_wilson(0, 10, 0.95).low, 0, 1e-15);
}

static void test_order(void **state)
{
	double values[] = { 4, 1, 100, 3, 2 }, scratch[5];

	(void)state;
	assert_near(order_spread(values, 5, scratch), 1.4826, 1e-12); /* 3; 2 1 0 1 97 */
	order_sort(values, 5);
	assert_near(order_median(values, 5), 3, 0);
	assert_near(order_median(values, 4), 2.5, 0);
	assert_true(isnan(order_median(values, 0)));
	assert_int_equal(order_bound(18, 0.95), 18); /* 18 of 19: the largest, which is too few */
	assert_int_equal(order_bound(19, 0.95), 19);
	assert_int_equal(order_bound(39, 0.95), 38);
	assert_int_equal(order_bound(99, 0.9), 90);
	assert_int_equal(order_bound(0, 0.9), 0);
}

/* By hand: 3 and 3 share the ranks 2 and 3; one of the chosen beats 1 and ties once. */
static void test_ranks(void **state)
{
	const double values[] = { 3, NAN, 1, 5, 3 };
	int32_t ranks[5];
	struct rank_sums sums;

	(void)state;
	assert_int_equal(rank_doubled(values, 5, ranks, &sums), 0);
	assert_int_equal(sums.n_known, 4);
	assert_near(sums.ties, 6, 0);
	assert_int_equal(ranks[0], 5);
	assert_int_equal(ranks[1], 0);
	assert_int_equal(ranks[2], 2);
	assert_int_equal(ranks[3], 8);
	assert_int_equal(ranks[4], 5);
	assert_near(rank_auc(ranks[0], 1, 4), 1.5 / 3, 1e-15);
	assert_near(rank_auc(ranks[3] + ranks[4], 2, 4), 3.5 / 4, 1e-15);
	assert_true(isnan(rank_auc(20, 4, 4)));
	assert_near(rank_sum_mean(&sums, 2), 10, 0);
	/* The six choices of two have the doubled sums 7 13 10 10 7 13: variance 6. */
	assert_near(rank_sum_deviation(&sums, 2), sqrt(6), 1e-12);
	assert_near(rank_sum_deviation(&sums, 4), 0, 0);
}

static void fill_noise(struct rng *rng, double *values, size_t n, double level)
{
	for (size_t i = 0; i < n; i++)
		values[i] = level + rng_normal(rng);
}

static void test_change_is_found_where_it_is(void **state)
{
	double values[60];
	size_t at, near = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	for (int round = 0; round < 100; round++) {
		fill_noise(&rng, values, 40, 100);
		fill_noise(&rng, values + 40, 20, 106);
		values[10] = 1000; /* alone it is no level */
		assert_int_equal(change_find_last(values, 60, 0.1, &at), 0);
		near += at >= 39 && at <= 41;
	}
	assert_in_range(near, 95, 100);
	for (size_t i = 0; i < 60; i++)
		values[i] = i < 30 ? 512 : 1024; /* no noise at all */
	assert_int_equal(change_find_last(values, 60, 0.1, &at), 0);
	assert_int_equal(at, 30);
}

static void test_noise_is_no_change(void **state)
{
	static const size_t sizes[] = { 10, 30, 100, 1000 };
	double values[1000];
	struct rng rng;
	size_t at;

	(void)state;
	rng_seed(&rng, 4);
	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		size_t n_false = 0;

		for (int round = 0; round < 400; round++) {
			fill_noise(&rng, values, sizes[k], 100);
			assert_int_equal(change_find_last(values, sizes[k], 0.1, &at), 0);
			n_false += at > 0;
		}
		print_message("# change points in noise, n = %zu: %zu of 400\n", sizes[k], n_false);
		assert_in_range(n_false, 0, 40);
	}
	assert_int_equal(change_find_last(values, 9, 0.1, &at), 0);
	assert_int_equal(at, 0);
}

/* Now from one level and now from another: that was so all the time. */
static void test_two_levels_by_turns_are_no_change(void **state)
{
	static const double shares[] = { 0.1, 0.2, 0.3, 0.5 }, noises[] = { 0, 0.02 };
	double values[100];
	struct rng rng;
	size_t at;

	(void)state;
	rng_seed(&rng, 8);
	for (size_t k = 0; k < 2 * ARRAY_SIZE(shares); k++) {
		double share = shares[k / 2], noise = noises[k % 2];
		size_t n_false = 0;

		for (int round = 0; round < 300; round++) {
			for (size_t i = 0; i < 100; i++)
				values[i] = (rng_unit(&rng) < share ? 11 : 10) +
					    noise * rng_normal(&rng);
			assert_int_equal(change_find_last(values, 100, 0.01, &at), 0);
			n_false += at > 0;
		}
		print_message("# changes where %.0f %% are larger, noise %.2f: %zu of 300\n",
			      100 * share, noise, n_false);
		assert_in_range(n_false, 0, 15); /* 6, and more than 3 standard deviations */
	}
}

/* What is small does not depend on the unit. */
static void test_a_step_is_one_at_any_level(void **state)
{
	double values[20];
	size_t at[2];

	(void)state;
	for (size_t unit = 0; unit < 2; unit++) {
		for (size_t i = 0; i < 20; i++)
			values[i] = log2((unit ? 1000 : 1) * (i < 10 ? 1 : 1.004));
		assert_int_equal(change_find_last(values, 20, 0.01, &at[unit]), 0);
	}
	assert_int_equal(at[0], at[1]);
	for (size_t i = 0; i < 20; i++)
		values[i] = log2(i < 10 ? 1 : 1.1);
	assert_int_equal(change_find_last(values, 20, 0.01, &at[0]), 0);
	assert_int_equal(at[0], 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rng_is_even_and_repeats),
		cmocka_unit_test(test_normal),
		cmocka_unit_test(test_fisher),
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_change_is_found_where_it_is),
		cmocka_unit_test(test_noise_is_no_change),
		cmocka_unit_test(test_two_levels_by_turns_are_no_change),
		cmocka_unit_test(test_a_step_is_one_at_any_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
