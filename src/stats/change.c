#include "stats/change.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/order.h"

/*
 * How many standard errors apart both sides are. Over 10 to 10,000 values of one
 * level the largest passes 4 in about one case in 100 (see the test).
 */
#define THRESHOLD 4.0
#define CLIP 4.0	 /* spreads from the median: farther is as far as this */
#define LEAST_SHARE 1e-3 /* of the median: less spread than that is none worth noting */

/* What noise there is from one value to the next; a step is only one of the differences. */
static double noise_of(const double *values, size_t n, double *scratch)
{
	double *differences = scratch + n;
	double noise, median;

	for (size_t i = 0; i + 1 < n; i++)
		differences[i] = values[i + 1] - values[i];
	noise = order_spread(differences, n - 1, scratch) / sqrt(2);
	for (size_t i = 0; i < n; i++)
		scratch[i] = values[i];
	order_sort(scratch, n);
	median = fabs(order_median(scratch, n));
	return fmax(noise, fmax(median * LEAST_SHARE, 1e-9));
}

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

int change_find_last(const double *values, size_t n, size_t *ret)
{
	CLEANUP(free_ptr) double *scratch = NULL;
	size_t begin = 0, cut;

	*ret = 0;
	if (n < 2 * CHANGE_MIN_SEGMENT)
		return 0;
	scratch = calloc(3 * n, sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	scale(values, n, noise_of(values, n, scratch), scratch, scratch + 2 * n);
	while ((cut = find_cut(scratch + 2 * n + begin, n - begin)) > 0)
		begin += cut;
	*ret = begin;
	return 0;
}
