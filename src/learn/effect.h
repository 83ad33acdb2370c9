/*
 * effect - how much a feature says about failure: where to cut, and what happened
 * on each side.
 *
 * The cut is the one that separates best (failure rate among those that failed
 * minus that among those that passed, Youden's J), chosen by leave-one-out: for
 * each run anew from all others, and of these cuts the median. How often the cut
 * that was made without a run puts it on the right side is the accuracy, which
 * nobody's own data has flattered.
 */
#ifndef PROCTOR_LEARN_EFFECT_H
#define PROCTOR_LEARN_EFFECT_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/probability.h"

/* One side of the cut. */
struct effect_side {
	size_t n, n_failed;
	double rate;		  /* NaN for none */
	struct interval interval; /* Wilson, 95 % */
};

struct effect {
	bool is_above;	  /* those above the cut fail more often; else those at or below it */
	double threshold; /* halfway between two values; of a yes-or-no feature 0.5 */
	struct effect_side in, out; /* where more fail, and the rest */
	double risk_difference;
	double odds_ratio; /* 0.5 added to each count */
	double loo_accuracy;
};

/* Unknown values are left out. -EDOM: there is no cut. -ENOMEM. */
int effect_measure(const double *values, const bool *has_failed, size_t n, bool is_above,
		   struct effect *ret);

/* The sides of a cut that is given. */
void effect_split(const double *values, const bool *has_failed, size_t n, struct effect *effect);

#endif
