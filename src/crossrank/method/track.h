/*
 * track - the memory that one rank keeps, and how much of it is scatter.
 *
 * Kept memory at a moment is the least that the rank holds from then to the end of its record.
 * Saw-teeth, spikes and evaluations are not part of it, and it never falls. A rank's scale is the
 * least gain of kept memory that is no scatter.
 *
 * Inside of method/.
 */
#ifndef PROCTOR_CROSSRANK_METHOD_TRACK_H
#define PROCTOR_CROSSRANK_METHOD_TRACK_H

#include "base/arena.h"
#include "crossrank/method/method.h"

/* Memory that was up for a while and was given back. */
struct spike {
	double from, seconds, mib;
};

struct track {
	size_t rank;   /* its own number */
	size_t record; /* its number in the input */
	const struct culprit_rank *in;
	const double *t;  /* seconds */
	double *x, *kept; /* MiB: the running median of three, and its minimum to the end */
	size_t n;	  /* samples */
	double interval;  /* half of the record has samples at most that far apart */
	double sigma, tooth, scale; /* MiB: between neighbours, up and down, the least rise */
	struct spike *spikes;	    /* of its own */
	struct spike *all_spikes;   /* those that its peers have at the same time, too */
	size_t n_spikes, n_all_spikes;
};

#define TRACK_MIN_SAMPLES 6

/* in->n is TRACK_MIN_SAMPLES at least. The arrays are the arena's. -ENOMEM. */
int track_make(const struct culprit_rank *in, size_t rank, struct arena *arena, struct track *ret);

/* Computes all that follows from x, which was changed: kept, tooth, scale, spikes. -ENOMEM. */
int track_finish(struct track *track, struct arena *arena);

/* Minimum of x[i..n) for each i; ret may be x. */
void track_keep(const double *x, size_t n, double *ret);

/* The value below which a share of v[0..n) lies, which it reorders; NaN for none. */
double track_quantile(double *v, size_t n, double share);

/* The number of values that are at most `value`; v ascends. */
size_t track_count_to(const double *v, size_t n, double value);

#endif
