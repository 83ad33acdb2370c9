/*
 * probability - the normal distribution, Fisher's exact test, Wilson's interval of a rate.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* P(Z > z) of the normal distribution. */
double normal_tail(double z);

/* The z with P(Z > z) = p, for 0 < p < 1; at most 38 from 0, where doubles end. */
double normal_tail_quantile(double p);

/*
 * Fisher's exact test of a table of four counts:
 *
 *		failed	passed
 *	with	a	b
 *	without	c	d
 *
 * Both return the probability, with these sums of rows and columns, of a table at
 * least as far out: to both sides as no more likely than this one; to one side
 * with at least so many failures among those with it.
 */
double fisher_two_sided(size_t a, size_t b, size_t c, size_t d);
double fisher_at_least(size_t a, size_t b, size_t c, size_t d);

/* The logarithm of n over k; k <= n. */
double log_choose(size_t n, size_t k);

/* The bounds of a rate, of which k in n were seen. */
struct interval {
	double low, high;
};

/* Holds the rate in about 95 of 100 cases (level 0.95); n = 0 is 0 to 1. Wilson's. */
struct interval interval_wilson(size_t k, size_t n, double level);

/*
 * ---- random numbers that a seed makes the same every time; not for secrets ----
 *
 * Whoever reports a number that chance had a part in says the seed, so that
 * another can get the same.
 */

struct rng {
	uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);

uint64_t rng_u64(struct rng *rng);

/* From 0 to n - 1, each as likely as the others; n > 0. */
uint32_t rng_below(struct rng *rng, uint32_t n);
