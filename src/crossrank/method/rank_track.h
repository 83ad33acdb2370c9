/*
 * rank_track - the memory that one rank keeps, and how much of it is scatter.
 *
 * Kept memory at a moment is the least that the rank holds from then to the end of its record.
 * Saw-teeth, spikes and evaluations are not part of it, and it never falls. A rank's scale is the
 * least gain of kept memory that is no scatter.
 *
 * Inside of method/.
 */
#pragma once

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

/* The value below which a share of v[0..n) lies, which it reorders; NaN for none. */
double track_quantile(double *v, size_t n, double share);

/* The number of values that are at most `value`; v ascends. */
size_t track_count_to(const double *v, size_t n, double value);

/*
 * rise - when a rank's memory began to grow for good, apart from what its peers do, and how sure
 * that moment is.
 *
 * Inside of method/.
 */

#define GRAIN 0.2      /* of an interval: stairs too short to be seen move an onset by that */
#define RISE_MINOR 0.1 /* of the largest gain: smaller ones are not the fault */

/* The movement that a rank shares with its peers: known in cells, then a line. */
struct common {
	const double *at, *mib;
	size_t n;
	double trend;  /* MiB/s behind the last cell */
	bool is_sharp; /* best, low and high of a rise are wanted: that costs a fit of several
			  shapes */
};

/*
 * The main rise of a track between two moments, beyond the common movement. Returns 1 and fills
 * ret, 0: there is none; -ENOMEM.
 */
int rise_find(const struct track *track, double from, double stop, const struct common *common,
	      struct culprit_rise *ret);
