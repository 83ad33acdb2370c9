/*
 * noise - how much a series scatters, whatever else it does.
 */
#ifndef PROCTOR_STATS_NOISE_H
#define PROCTOR_STATS_NOISE_H

#include <stddef.h>

/*
 * The standard deviation of the scatter of y around its own course: from the
 * median distance of a point to the line between those lag before and behind it, which
 * neither a slope nor a few steps move. A larger lag sees what wanders slowly, too. t
 * ascends. 0 for too few points, or where nothing scatters. scratch has room for n.
 */
double noise_sigma(const double *t, const double *y, size_t n, size_t lag, double *scratch);

/* The median of v[0..n), which it reorders; NaN for none. */
double noise_median(double *v, size_t n);

#endif
