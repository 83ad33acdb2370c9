/*
 * lead - whether one of several rises led the others.
 *
 * Inside of method/.
 */
#ifndef PROCTOR_CROSSRANK_METHOD_LEAD_H
#define PROCTOR_CROSSRANK_METHOD_LEAD_H

#include "crossrank/method/rank_grid.h"

struct lead {
	double error;	     /* the largest of their clocks, in seconds */
	size_t first;	     /* number of the rise */
	double probability;  /* that it began first, and that its lead is more than their spread */
	double seconds;	     /* before the next one */
	double range;	     /* from the first to the last, by the clock that has them closest */
	bool is_since_start; /* counted from the start of each rank, the others are closest */
	bool is_unordered;   /* a clock follows nothing: the rest says nothing */
};

/*
 * Of n rises (2 at least) of the tracks of g; n_members ranks were there then and were
 * compared for `seconds`. is_early:
 * the first one is soon after its rank's start. Fills the probability of each rise of being the
 * first by the wall clock, unless they are very many. -ENOMEM.
 */
int lead_find(const struct grid *g, struct culprit_rise *const *rises, size_t n, size_t n_members,
	      double seconds, bool is_early, const struct culprit_rise *by_wall, size_t n_by_wall,
	      struct lead *ret);

/*
 * The probability that a rise is more than ranks wander from their peers, by the windows of span
 * [s, ..) before its onset that are as long as `seconds`. -ENOMEM.
 */
int lead_control(struct grid *g, const size_t *members, size_t n, size_t s,
		 const struct culprit_rise *rise, double seconds, double tail, double *ret);

/* The largest change of a member against the others within `width` cells of [s, to). -ENOMEM. */
int lead_largest_change(struct grid *g, const size_t *members, size_t n, size_t s, size_t to,
			size_t width, double *ret);

/*
 * The probability that a gain is no wandering: it is `ratio` times the largest change in the
 * windows. Changes are taken to have a tail of 1 / x^3, and beside the windows there is a chance of
 * tail / x^2 for what they do not show.
 */
#define LEAD_TAIL 0.2
#define LEAD_TAIL_RAMP 0.1 /* of a ramp that the others follow: a lone block is none */
double lead_beyond(double ratio, double windows, size_t n, double tail);

#endif
