/*
 * select - the k-th smallest of an array, without sorting it all.
 *
 *	DEFINE_SELECT_NTH(select_nth, double)
 *
 * makes a function of that name for arrays of that type: it puts what belongs at v[k] there,
 * smaller ones before it and larger ones behind it. n > k. Values have an order: no NaN.
 */
#ifndef PROCTOR_STATS_SELECT_H
#define PROCTOR_STATS_SELECT_H

#include <stddef.h>

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

#endif
