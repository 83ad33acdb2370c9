/*
 * rng - random numbers that a seed makes the same every time; not for secrets.
 *
 * Whoever reports a number that chance had a part in says the seed, so that
 * another can get the same.
 */
#ifndef PROCTOR_STATS_RNG_H
#define PROCTOR_STATS_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);

uint64_t rng_u64(struct rng *rng);

/* From 0 to n - 1, each as likely as the others; n > 0. */
uint32_t rng_below(struct rng *rng, uint32_t n);

#endif
