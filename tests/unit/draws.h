/*
 * draws - made-up values for tests, the same in every run.
 */
#ifndef PROCTOR_TESTS_DRAWS_H
#define PROCTOR_TESTS_DRAWS_H

#include <math.h>

#include "stats/probability.h"

/* From 0 up to, not including, 1. */
static inline double rng_unit(struct rng *rng)
{
	return (double)(rng_u64(rng) >> 11) * 0x1p-53;
}

/* Mean 0, standard deviation 1: Box and Muller. */
static inline double rng_normal(struct rng *rng)
{
	double radius = sqrt(-2 * log(1 - rng_unit(rng)));

	return radius * cos(2 * M_PI * rng_unit(rng));
}

#endif
