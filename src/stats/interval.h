/*
 * interval - between which bounds a rate lies, of which k in n were seen.
 */
#ifndef PROCTOR_STATS_INTERVAL_H
#define PROCTOR_STATS_INTERVAL_H

#include <stddef.h>

struct interval {
	double low, high;
};

/* Both hold the rate in about so many of 100 cases (level 0.95); n = 0 is 0 to 1. */
struct interval interval_wilson(size_t k, size_t n, double level);
struct interval interval_jeffreys(size_t k, size_t n, double level);

/* P(X <= x) of the beta distribution; a, b > 0. */
double beta_share(double a, double b, double x);

#endif
