/*
 * series - the memory of one rank as a series that is cut into straight parts, and what goes up in
 * it.
 *
 * Inside of rises.c and rise_onset.c. Long streams are thinned out to SERIES_BINS points.
 */
#ifndef PROCTOR_CROSSRANK_SERIES_H
#define PROCTOR_CROSSRANK_SERIES_H

#include <math.h>

#include "crossrank/rises.h"
#include "stats/segments.h"

#define SERIES_BINS 512
#define SERIES_BYTES_PER_MIB (1024.0 * 1024.0)
#define SERIES_MIN_RISE_MIB 16.0
#define SERIES_BESIDE_SHARE 0.1 /* of a step: more before or behind it, and it is none */
#define SERIES_LEVEL_SIGMAS 4.0 /* less than so much up or down is level */

/* Samples [lo, hi) of a stream, which begins to count with one of them; the caller sets these five.
 */
struct series {
	const struct stream *stream;
	int64_t origin_ns;
	size_t begin; /* no later than lo */
	size_t lo, hi;
	size_t per_bin, n;
	double t[SERIES_BINS], y[SERIES_BINS]; /* seconds after the origin, MiB */
	double high;			       /* the highest */
	double range;			       /* from the lowest to that */
	double sigma;			       /* the scatter */
	double min_rise;		       /* less is none */
	struct segment segments[SERIES_BINS];
	size_t n_segments;		  /* 0: there are fewer than two points */
	bool is_passing[2 * SERIES_BINS]; /* by move: part of a spike, or of a dip, that leaves
					     nothing */
};

/* What is a rise where nothing scatters, in MiB. */
double series_least_rise(const struct series *s);

/* Fills all but the parts. */
void series_fill(struct series *s);

/* The same, and the parts. -ENOMEM. */
int series_cut(struct series *s);

/*
 * How much goes up at once between b and c, with a before and d behind them; 0: nothing, or not at
 * once. What is between b and c may be one sample, taken in the middle of it.
 */
static inline double series_step(double a, double b, double c, double d)
{
	double step = c - b, beside = SERIES_BESIDE_SHARE * step;

	return step > 0 && fabs(b - a) <= beside && fabs(d - c) <= beside ? step : 0;
}

/* Move 2i is along part i, move 2i + 1 the jump behind it. */
struct move {
	double from, to; /* times */
	double gain;
};

size_t series_count_moves(const struct series *s);
struct move series_move(const struct series *s, size_t i);

/* Moves [first, last] that go up together. */
struct run {
	size_t first, last;
	double gain;
	bool is_head; /* the slow beginning of the run behind it */
};

struct run_list {
	struct run items[SERIES_BINS];
	size_t n;
};

/* All runs that gain min_rise or more, by time; spikes on top of them are passed over. */
void series_find_runs(struct series *s, struct run_list *ret);

/* When the run began, and what kind of rise it is. */
void rise_describe(const struct series *s, const struct run *run, struct rise *ret);

#endif
