/*
 * change - where a series takes another level.
 *
 * Looks for the cut at which the means of both sides differ the most (CUSUM),
 * with values scaled by the median absolute deviation of their differences and
 * single wild ones clipped, so that neither a step nor an outlier makes the scale.
 */
#ifndef PROCTOR_STATS_CHANGE_H
#define PROCTOR_STATS_CHANGE_H

#include <stddef.h>

#define CHANGE_MIN_SEGMENT 5 /* fewer values are no level */

/*
 * *ret is where the last level begins, 0: all of it is one level. Known values
 * only. -ENOMEM.
 */
int change_find_last(const double *values, size_t n, size_t *ret);

#endif
