/*
 * interval - between which bounds a rate lies, of which k in n were seen.
 */
#ifndef PROCTOR_STATS_INTERVAL_H
#define PROCTOR_STATS_INTERVAL_H

#include <stddef.h>

struct interval {
	double low, high;
};

/* Holds the rate in about 95 of 100 cases (level 0.95); n = 0 is 0 to 1. Wilson's. */
struct interval interval_wilson(size_t k, size_t n, double level);

#endif
