/*
 * segments - a series cut where its course changes, each part a straight line.
 *
 * Optimal cuts (PELT): the sum of squared distances in units of sigma, and a price for each
 * part so that noise alone is not cut. Steps, ramps and saw-teeth come out as lines that
 * do not meet, or that turn.
 */
#ifndef PROCTOR_STATS_SEGMENTS_H
#define PROCTOR_STATS_SEGMENTS_H

#include <stddef.h>

struct segment {
	size_t from, to;   /* points [from, to) */
	double begin, end; /* the line at its first and at its last point */
	double slope;	   /* per unit of t; 0 for one point */
};

/*
 * Cuts n points; t ascends, sigma > 0. ret has room for n. Takes time of the order of n
 * squared at worst: thin out long series before. -ENOMEM.
 */
int segments_find(const double *t, const double *y, size_t n, double sigma, struct segment *ret,
		  size_t *ret_n);

#endif
