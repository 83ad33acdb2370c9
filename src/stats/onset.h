/*
 * onset - when a rise began, as a distribution over time.
 *
 * A ramp is a constant, then a line or a power of the time from its onset on (a hinge), fitted by
 * least squares; how much worse each other onset fits says how likely that one is. A step
 * has happened between two samples, and nothing says where.
 */
#ifndef PROCTOR_STATS_ONSET_H
#define PROCTOR_STATS_ONSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ONSET_POINTS 257
#define ONSET_MAX_SAMPLES 320

struct onset {
	double from, step;	  /* the grid */
	double cdf[ONSET_POINTS]; /* ends with 1 */
	double median, low, high; /* the middle nine tenths */
	double sd;
	double misfit;	      /* of a hinge: variance around it over that expected; 0 for others */
	double misfit_behind; /* the same of what is behind the onset */
};

/* The onset lies in (from, to), anywhere. */
void onset_uniform(double from, double to, struct onset *ret);

/*
 * The onset was earlier by anything up to `before`, or later by up to `after`, with a probability
 * of share; else it is as it was. Nothing to do for two zeros.
 */
void onset_blur(struct onset *o, double before, double after, double share);

struct hinge_kind {
	bool is_sloped;	  /* what was before rises or falls, too */
	bool may_explode; /* the rise may be an exponential one; else a power of the time */
};

/*
 * The hinge in n points (at most ONSET_MAX_SAMPLES), sigma being the scatter that is expected at
 * least. False: no rise fits, or too few points.
 */
bool onset_hinge(const double *t, const double *y, size_t n, double sigma, struct hinge_kind kind,
		 struct onset *ret);

/* Fills median, low, high and sd from the grid and its cdf. */
void onset_summarise(struct onset *o);

/* The value below which a share p of the distribution lies. */
double onset_quantile(const struct onset *o, double p);

/* ---- who was first ---- */

struct first_entry {
	const struct onset *onset;
	size_t clock;	    /* entries with the same number share it, and its error */
	double clock_error; /* of that clock: at most so much, either way */
};

/*
 * ret[i]: the probability that entry i was the first of n, onsets and clocks drawn together
 * so many times, from a fixed seed. n_clocks: one more than the largest number. -ENOMEM.
 */
int onset_first(const struct first_entry *entries, size_t n, size_t n_clocks, unsigned n_draws,
		double *ret);

/* The probability of a spread as large as theirs if all began at once. */
double onset_equal_p(const struct first_entry *entries, size_t n);

/*
 * The probability that one of them, had it begun `earlier` than it did, began with the n others or
 * behind them, if these began at once: what a spread of many hides, as most of them do not lead.
 */
double onset_behind_p(const struct first_entry *one, double earlier,
		      const struct first_entry *others, size_t n);

#endif
