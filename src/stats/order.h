/*
 * order - what the order of values says, whatever they are distributed like.
 */
#ifndef PROCTOR_STATS_ORDER_H
#define PROCTOR_STATS_ORDER_H

#include <stddef.h>

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

#endif
