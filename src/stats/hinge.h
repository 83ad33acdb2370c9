/*
 * hinge - a level, then a rise, fitted to a series by least squares.
 *
 * Inside of onset.c, which asks how well each onset fits.
 */
#pragma once

#include "stats/onset.h"

/*
 * Onsets are tried by the hundred, so what is added up behind one is made of sums that are there
 * already. They are kept from each point to the last, with times from the last one back: those
 * behind an onset are small then where it is late, and no digits are lost.
 */
#define HINGE_MAX_POWER 3

struct moments {
	double u[2 * HINGE_MAX_POWER + 1]; /* the powers of the time that is left, in spans */
	double uy[HINGE_MAX_POWER + 1];	   /* the same times y */
};

struct growth_sums {
	double e, ee, et, ey; /* e: 1 at the last point */
};

/*
 * A rise goes by a power of the time since its onset, or exponentially. What speeds up is hidden at
 * first, so that a line through what is seen later begins too late: nobody knows how it goes, and
 * all models count, each as far as it fits. Most rises are even.
 */
struct model {
	double power;  /* 0: exponential */
	double growth; /* time in which an exponential one grows by e */
	double weight;
	struct growth_sums behind[ONSET_MAX_SAMPLES + 1]; /* of those: from each point on */
};

#define HINGE_MODELS 13
#define HINGE_GROWTH_WEIGHT 0.0125 /* of each exponential one */

/* Sums over all points that no onset changes; times in spans from the first, values from the mean.
 */
struct hinge {
	const double *t, *y;
	size_t n;
	int k; /* unknowns: a level, the rise, and a slope of what was before */
	double span, mean, sigma;
	struct model models[HINGE_MODELS];
	size_t n_models;
	double st, stt, sy, sty, syy;
	struct moments behind[ONSET_MAX_SAMPLES + 1]; /* from each point on */
};

/*
 * The caller sets t, y, n, k and sigma; the rest is added up, and models are chosen. False: all of
 * it is at one moment.
 */
bool hinge_init(struct hinge *h, bool may_explode);

/* The sum of squared distances to what fits best with an onset at tau; INFINITY: nothing rises. */
double hinge_squares(const struct hinge *h, const struct model *model, double tau);

/* The same by the model that fits best there, which is ret_best. */
double hinge_best_squares(const struct hinge *h, double tau, const struct model **ret_best);

/* How far points are from the fit behind the onset, where a long stretch before hides nothing. */
struct hinge_scatter {
	size_t n;
	double mean_square; /* 0: too few */
	double kept;	    /* by a point of the distance of the one before, on average */
};

struct hinge_scatter hinge_look_behind(const struct hinge *h, const struct model *model,
				       double tau);

/* ---- the sums that an onset is fitted by ---- */

/* x is how far the rise has come. */
struct sums {
	double x, xx, xt, xy;
};

/* The time of a point, in spans. */
static inline double hinge_time(const struct hinge *h, size_t i)
{
	return (h->t[i] - h->t[0]) / h->span;
}

/* The beginning of an exponential rise, in the unit of its sums; 0 for others. */
double hinge_beginning(const struct hinge *h, const struct model *model, double tau);

/* How far a rise has come at point i, behind its onset; in what unit does not matter. */
double hinge_course(const struct hinge *h, const struct model *model, size_t i, double tau,
		    double begun);

/* Of all points behind tau. */
struct sums hinge_add_behind(const struct hinge *h, const struct model *model, double tau,
			     double begun);
