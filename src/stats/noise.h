/*
 * noise - how much a series scatters, whatever else it does.
 */
#ifndef PROCTOR_STATS_NOISE_H
#define PROCTOR_STATS_NOISE_H

#include <stddef.h>

/* The median of v[0..n), which it reorders; NaN for none. */
double noise_median(double *v, size_t n);

#endif
