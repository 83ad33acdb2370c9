#include "stats/change_point.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/order.h"
#include "stats/probability.h"

/*
 * How many standard errors apart both sides are. Over 10 to 10,000 values of one
 * level the largest passes 4 in about one case in 100 (see the test).
 */
#define THRESHOLD 4.0
#define CLIP 4.0	 /* spreads from the median: farther is as far as this */
#define DEALS 299	 /* orders that a change is held against */
#define MAX_HITS 5	 /* of these with a cut as good: p <= 0.02 */
#define SEED UINT64_C(5) /* any; fixed, so that the same series gives the same */

/* In noises from the median, clipped where a value is far from its neighbours too. */
static void scale(const double *values, size_t n, double noise, double *scratch, double *ret)
{
	for (size_t i = 0; i < n; i++) {
		size_t first = i < 2 ? 0 : i - 2, end = i + 3 > n ? n : i + 3;
		double near;

		for (size_t k = first; k < end; k++)
			scratch[k - first] = values[k];
		order_sort(scratch, end - first);
		near = order_median(scratch, end - first);
		ret[i] = fmin(fmax((values[i] - near) / noise, -CLIP), CLIP) + near / noise;
	}
}

/* The best cut of v[0..n), 0 if none is good enough. */
static size_t find_cut(const double *v, size_t n)
{
	double total = 0, left = 0, best = THRESHOLD;
	size_t cut = 0;

	for (size_t i = 0; i < n; i++)
		total += v[i];
	for (size_t k = 1; k + CHANGE_MIN_SEGMENT <= n; k++) {
		double a = (double)k, b = (double)(n - k), apart;

		left += v[k - 1];
		if (k < CHANGE_MIN_SEGMENT)
			continue;
		apart = fabs(left / a - (total - left) / b) / sqrt(1 / a + 1 / b);
		if (apart > best) {
			best = apart;
			cut = k;
		}
	}
	return cut;
}

/* ---- whether any order would do ---- */

/* How far the ranks on both sides of the best cut lie apart. */
static double best_cut(const int32_t *ranks, size_t n)
{
	double total = 0, left = 0, best = 0;

	for (size_t i = 0; i < n; i++)
		total += ranks[i];
	for (size_t k = 1; k + CHANGE_MIN_SEGMENT <= n; k++) {
		double a = (double)k, b = (double)(n - k);

		left += ranks[k - 1];
		if (k >= CHANGE_MIN_SEGMENT)
			best = fmax(best, fabs(left - total * a / (double)n) / sqrt(a * b));
	}
	return best;
}

/*
 * Runs that now need much and now little have a spread that differences do not show, and
 * cuts that look good. In any other order they have such cuts as well; a change of level
 * has not. 1, 0, -ENOMEM.
 */
static int depends_on_order(const double *values, size_t n)
{
	CLEANUP(free_ptr) int32_t *ranks = calloc(n, sizeof(*ranks));
	struct rank_sums sums;
	double observed;
	size_t n_hits = 0;
	struct rng rng;
	int r = ranks ? rank_doubled(values, n, ranks, &sums) : -ENOMEM;

	if (r < 0)
		return r;
	observed = best_cut(ranks, n);
	rng_seed(&rng, SEED);
	for (int i = 0; i < DEALS && n_hits <= MAX_HITS; i++) {
		for (size_t k = n; k > 1; k--) {
			size_t other = rng_below(&rng, (uint32_t)k);
			int32_t rank = ranks[k - 1];

			ranks[k - 1] = ranks[other];
			ranks[other] = rank;
		}
		n_hits += best_cut(ranks, n) >= observed - 1e-9;
	}
	return n_hits <= MAX_HITS;
}

int change_find_last(const double *values, size_t n, double least_noise, size_t *ret)
{
	CLEANUP(free_ptr) double *scratch = NULL;
	size_t begin = 0, cut;
	double noise;
	int r = 1;

	*ret = 0;
	if (n < 2 * CHANGE_MIN_SEGMENT)
		return 0;
	scratch = calloc(3 * n, sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	/* The noise from one value to the next; a step is only one of the differences. */
	for (size_t i = 0; i + 1 < n; i++)
		scratch[n + i] = values[i + 1] - values[i];
	noise = order_spread(scratch + n, n - 1, scratch) / sqrt(2);
	scale(values, n, fmax(noise, least_noise), scratch, scratch + 2 * n);
	while (r > 0 && (cut = find_cut(scratch + 2 * n + begin, n - begin)) > 0) {
		r = depends_on_order(values + begin, n - begin);
		if (r > 0)
			begin += cut;
	}
	if (r < 0)
		return r;
	*ret = begin;
	return 0;
}
