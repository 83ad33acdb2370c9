/*
 * change_point - where a series takes another level.
 *
 * Looks for the cut at which the means of both sides differ the most (CUSUM),
 * with values scaled by the median absolute deviation of their differences and
 * single wild ones clipped, so that neither a step nor an outlier makes the scale. A cut counts
 * if the same values in other orders seldom (p <= 0.02, by ranks) have one as good: values
 * that come now from one level and now from another are no change.
 */
#pragma once

#include <stddef.h>

#define CHANGE_MIN_SEGMENT 5 /* fewer values are no level */

/*
 * *ret is where the last level begins, 0: all of it is one level. Known values
 * only. Less noise than least_noise (> 0, in their unit) is not believed in. -ENOMEM;
 * -E2BIG: more than RANK_MAX_VALUES.
 */
int change_find_last(const double *values, size_t n, double least_noise, size_t *ret);
