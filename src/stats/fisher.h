/*
 * fisher - Fisher's exact test of a table of four counts.
 *
 *		failed	passed
 *	with	a	b
 *	without	c	d
 *
 * Both return the probability, with these sums of rows and columns, of a table at
 * least as far out: to both sides as no more likely than this one; to one side
 * with at least so many failures among those with it.
 */
#ifndef PROCTOR_STATS_FISHER_H
#define PROCTOR_STATS_FISHER_H

#include <stddef.h>

double fisher_two_sided(size_t a, size_t b, size_t c, size_t d);
double fisher_at_least(size_t a, size_t b, size_t c, size_t d);

/* The logarithm of n over k; k <= n. */
double log_choose(size_t n, size_t k);

#endif
