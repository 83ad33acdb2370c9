/*
 * order - what the order of values says, whatever they are distributed like: medians, spreads,
 * and ranks with ties, which the Mann-Whitney statistic is made of.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Ascending; no NaN among them. */
void order_sort(double *values, size_t n);

/* Of sorted values; the middle two are averaged. NaN for none. */
double order_median(const double *sorted, size_t n);

/*
 * The median distance from the median, times 1.4826: of normal values it is their
 * standard deviation. scratch has room for n. NaN for none.
 */
double order_spread(const double *values, size_t n, double *scratch);

/*
 * The k of the order statistic that the next value, if it is like the n so far,
 * does not pass with a probability of level: ceil((n + 1) level). Where there
 * are too few for that, n: the largest. The probability is k / (n + 1).
 */
size_t order_bound(size_t n, double level);

/*
 * ---- the k-th smallest of an array, without sorting it all ----
 *
 *	DEFINE_SELECT_NTH(select_nth, double)
 *
 * makes a function of that name for arrays of that type: it puts what belongs at v[k] there,
 * smaller ones before it and larger ones behind it. n > k. Values have an order: no NaN.
 */

/* clang-format off */
#define DEFINE_SELECT_NTH(name, type)                                         \
	static void name(type *v, size_t n, size_t k)                         \
	{                                                                     \
		size_t from = 0, to = n - 1;                                  \
                                                                              \
		while (from < to) {                                           \
			type pivot = v[from + (to - from) / 2];               \
			size_t low = from, high = to;                         \
                                                                              \
			while (low <= high) {                                 \
				type kept;                                    \
                                                                              \
				while (v[low] < pivot)                        \
					low++;                                \
				while (v[high] > pivot)                       \
					high--;                               \
				if (low > high)                               \
					break;                                \
				kept = v[low];                                \
				v[low++] = v[high];                           \
				v[high] = kept;                               \
				if (high == 0)                                \
					break;                                \
				high--;                                       \
			}                                                     \
			if (k <= high)                                        \
				to = high;                                    \
			else if (k >= low)                                    \
				from = low;                                   \
			else                                                  \
				return;                                       \
		}                                                             \
	}
/* clang-format on */

/* The median of v[0..n), which it reorders; NaN for none. */
double noise_median(double *v, size_t n);

/* ---- ranks: NaN is unknown, has no rank, and the others are ranked among themselves ---- */

#define RANK_MAX_VALUES 30000 /* so that a sum of doubled ranks fits into 31 bits */

struct rank_sums {
	size_t n_known;
	double ties; /* sum of t^3 - t over the groups of t equal values */
};

/*
 * Twice the rank of each value, from 2 up: those that are equal share the middle of
 * their ranks, so all are whole numbers. 0: NaN. -ENOMEM; -E2BIG: more than
 * RANK_MAX_VALUES.
 */
int rank_doubled(const double *values, size_t n, int32_t *ret, struct rank_sums *ret_sums);

/*
 * The doubled rank sum of n_chosen among those known, without any connection: its
 * mean, and its standard deviation with ties taken into account (0: all are
 * chosen, none is, or all values are equal).
 */
double rank_sum_mean(const struct rank_sums *sums, size_t n_chosen);
double rank_sum_deviation(const struct rank_sums *sums, size_t n_chosen);

/*
 * The probability that one of the chosen has a larger value than one of the
 * others, ties counted half: the area under the ROC curve. NaN where one of both
 * groups is empty.
 */
double rank_auc(double doubled_sum, size_t n_chosen, size_t n_known);
