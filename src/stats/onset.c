#include "stats/onset.h"

#include <math.h>

#include "base/macros.h"

#define POINTS 257    /* of the grid */
#define SINGULAR 1e-9 /* what is left of a sum of squares that is so little of it */

/*
 * What speeds up is hidden at first, so that a line through what is seen later begins too late:
 * nobody knows how it goes, and all powers count, each as far as it fits. Most rises are even.
 */
enum { POWER_1, POWER_1_5, POWER_2, POWER_3, N_POWERS };
static const double weights[N_POWERS] = { 0.85, 0.05, 0.05, 0.05 };

/* Times in spans, values from the mean. */
struct hinge {
	const double *t, *y;
	size_t n;
	double span, mean;
	double sum, squares; /* of the values */
};

/* A level, then a rise. */
struct fit {
	double level, rise;
	double squares; /* the sum of squared distances; INFINITY where nothing rises */
};

/* How far each rise has come. */
static void courses(double since, double ret[N_POWERS])
{
	ret[POWER_1] = since;
	ret[POWER_1_5] = since * sqrt(since);
	ret[POWER_2] = since * since;
	ret[POWER_3] = since * since * since;
}

/* By least squares, with an onset at tau. */
static void fit_at(const struct hinge *h, double tau, struct fit ret[N_POWERS])
{
	double x[N_POWERS] = { 0 }, xx[N_POWERS] = { 0 }, xy[N_POWERS] = { 0 };
	double n = (double)h->n, course[N_POWERS];

	for (size_t i = h->n; i-- > 0 && h->t[i] > tau;) {
		courses((h->t[i] - tau) / h->span, course);
		for (size_t k = 0; k < N_POWERS; k++) {
			x[k] += course[k];
			xx[k] += course[k] * course[k];
			xy[k] += course[k] * (h->y[i] - h->mean);
		}
	}
	for (size_t k = 0; k < N_POWERS; k++) {
		double spread = xx[k] - x[k] * x[k] / n;
		double rise = (xy[k] - x[k] * h->sum / n) / spread;
		double level = (h->sum - x[k] * rise) / n;

		ret[k] = (struct fit){ level, rise, INFINITY };
		if (spread > SINGULAR * xx[k] && rise > 0)
			ret[k].squares = fmax(h->squares - level * h->sum - rise * xy[k], 0);
	}
}

static double best_squares(const struct hinge *h, double tau, size_t *ret_power)
{
	struct fit fits[N_POWERS];

	fit_at(h, tau, fits);
	*ret_power = POWER_1;
	for (size_t k = 0; k < N_POWERS; k++)
		if (fits[k].squares < fits[*ret_power].squares)
			*ret_power = k;
	return fits[*ret_power].squares;
}

/* How far points are from the fit behind the onset, where a long stretch before hides nothing. */
struct scatter {
	size_t n;
	double mean_square; /* 0: too few */
	double kept;	    /* by a point of the distance of the one before, on average */
};

static struct scatter look_behind(const struct hinge *h, size_t power, double tau)
{
	struct fit fits[N_POWERS];
	double squares = 0, products = 0, last = 0, course[N_POWERS];
	size_t n = 0;

	fit_at(h, tau, fits);
	for (size_t i = h->n; i-- > 0 && h->t[i] > tau; n++) {
		double off = h->y[i] - h->mean - fits[power].level;

		courses((h->t[i] - tau) / h->span, course);
		off -= fits[power].rise * course[power];
		squares += off * off;
		products += off * last;
		last = off;
	}
	return (struct scatter){ .n = n,
				 .mean_square = n > 2 ? squares / (double)(n - 2) : 0,
				 .kept = squares > 0 ? products / squares : 0 };
}

#define COARSE_PER_INTERVAL 4
#define SHARE_OUTSIDE 0.05	  /* on either side of the interval that is given */
#define GOLDEN 0.6180339887498949 /* of a stretch stays when it is made smaller */
#define REFINE_STEPS 24
#define SMALLEST 1e-9	/* of all the time */
#define NEGLIGIBLE 14.0 /* so much less log-likely does not count */
#define KEPT_SIGMAS 2.0 /* points that follow each other by less may do so by chance */
#define MAX_KEPT 0.9

struct profile {
	double best_tau, best;
	size_t best_power;
	double from, to; /* where it is not negligible */
	double misfit, variance;
	struct scatter behind; /* the best one */
	double squares[ONSET_MAX_SAMPLES * COARSE_PER_INTERVAL];
};

static double coarse_tau(const struct hinge *h, size_t i)
{
	size_t interval = i / COARSE_PER_INTERVAL;
	double share = (double)(i % COARSE_PER_INTERVAL) / COARSE_PER_INTERVAL;

	return h->t[interval] + share * (h->t[interval + 1] - h->t[interval]);
}

/* From one coarse onset to the next, around that moment; samples may be missing there. */
static double coarse_step(const struct hinge *h, double tau)
{
	size_t low = 0, high = h->n - 1; /* the last point before tau, or at it, is among these */
	double longest;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (h->t[middle] <= tau)
			low = middle;
		else
			high = middle;
	}
	longest = h->t[low + 1] - h->t[low];
	if (low > 0 && h->t[low] == tau)
		longest = fmax(longest, tau - h->t[low - 1]);
	return longest / COARSE_PER_INTERVAL;
}

/* Returns how well tau fits. */
static double take_better(const struct hinge *h, double tau, struct profile *p)
{
	size_t power;
	double squares = best_squares(h, tau, &power);

	if (squares < p->best) {
		p->best = squares;
		p->best_power = power;
		p->best_tau = tau;
	}
	return squares;
}

/* A steep rise tells its onset to much less than a coarse step, and fits at no coarse one. */
static void refine_best(const struct hinge *h, struct profile *p)
{
	double step = coarse_step(h, p->best_tau);
	double from = fmax(p->best_tau - step, h->t[0]);
	double to = fmin(p->best_tau + step, h->t[h->n - 2]);

	for (int i = 0; i < REFINE_STEPS && to > from; i++) {
		double left = to - GOLDEN * (to - from), right = from + GOLDEN * (to - from);

		if (take_better(h, left, p) < take_better(h, right, p))
			to = right;
		else
			from = left;
	}
}

/*
 * Points that stay above the fit for long, and below it, tell less than as many that do not: as
 * blocks do that come by chance, which add up. By how much a variance is to be larger.
 */
static double following_factor(const struct scatter *behind)
{
	double n = (double)behind->n, kept = fmin(behind->kept, MAX_KEPT);

	return n > 0 && kept * sqrt(n) > KEPT_SIGMAS ? (1 + kept) / (1 - kept) : 1;
}

/* Over all onsets between the first point and the last but one. */
static bool find_region(const struct hinge *h, double sigma, struct profile *p)
{
	size_t n = (h->n - 2) * COARSE_PER_INTERVAL;
	double freedom = (double)h->n - 3, unexplained; /* a level, a rise and the onset */

	p->best = INFINITY;
	p->best_tau = h->t[0];
	p->best_power = POWER_1;
	for (size_t i = 0; i < n; i++)
		p->squares[i] = take_better(h, coarse_tau(h, i), p);
	if (!isfinite(p->best))
		return false;
	refine_best(h, p);
	p->behind = look_behind(h, p->best_power, p->best_tau);
	/* What the model does not explain widens the answer. */
	unexplained = p->best / fmax(freedom, 1);
	p->misfit = fmax(1, unexplained / (sigma * sigma));
	p->variance = fmax(sigma * sigma, unexplained * following_factor(&p->behind));
	p->from = p->to = p->best_tau;
	for (size_t i = 0; i < n; i++)
		if ((p->squares[i] - p->best) / (2 * p->variance) <= NEGLIGIBLE) {
			p->from = fmin(p->from, coarse_tau(h, i));
			p->to = fmax(p->to, coarse_tau(h, i));
		}
	return true;
}

static bool is_negligible(const struct hinge *h, const struct profile *p, double tau)
{
	size_t power;

	return (best_squares(h, tau, &power) - p->best) / (2 * p->variance) > NEGLIGIBLE;
}

/* How likely an onset is beside the best one, by all powers. */
static double likelihood(const struct hinge *h, const struct profile *p, double tau)
{
	struct fit fits[N_POWERS];
	double sum = 0;

	fit_at(h, tau, fits);
	for (size_t k = 0; k < N_POWERS; k++)
		sum += weights[k] * exp(-fmax((fits[k].squares - p->best) / (2 * p->variance), 0));
	return sum;
}

/* The distribution over a grid, up to each of its points; the last is 1. */
struct grid {
	double from, step;
	double cdf[POINTS];
};

/* The value below which a share p of the distribution lies. */
static double quantile(const struct grid *g, double p)
{
	double width;
	size_t i = 0;

	while (i < POINTS - 1 && g->cdf[i] < p)
		i++;
	if (i == 0)
		return g->from;
	width = g->cdf[i] - g->cdf[i - 1];
	return g->from +
	       g->step * ((double)(i - 1) + (width > 0 ? (p - g->cdf[i - 1]) / width : 0));
}

bool onset_hinge(const double *t, const double *y, size_t n, double sigma, struct onset *ret)
{
	struct hinge h = { .t = t, .y = y, .n = n };
	double total = 0, step;
	struct profile p;
	struct grid grid;

	if (n < 4 || n > ONSET_MAX_SAMPLES || !(t[n - 1] > t[0]))
		return false;
	h.span = t[n - 1] - t[0];
	for (size_t i = 0; i < n; i++)
		h.mean += y[i] / (double)n;
	for (size_t i = 0; i < n; i++) {
		h.sum += y[i] - h.mean;
		h.squares += (y[i] - h.mean) * (y[i] - h.mean);
	}
	if (!find_region(&h, sigma, &p))
		return false;
	/* The grid reaches a coarse step further than what was found, or less where that says
	 * nothing. */
	step = fmax(coarse_step(&h, p.from), coarse_step(&h, p.to));
	while (step > h.span * SMALLEST && is_negligible(&h, &p, p.from - step / 2) &&
	       is_negligible(&h, &p, p.to + step / 2))
		step /= 2;
	p.from = fmax(p.from - step, h.t[0]);
	p.to = fmin(p.to + step, h.t[h.n - 1]);
	grid = (struct grid){ .from = p.from, .step = (p.to - p.from) / (POINTS - 1) };
	for (size_t i = 1; i < POINTS; i++) {
		total += likelihood(&h, &p, p.from + ((double)i - 0.5) * grid.step);
		grid.cdf[i] = total;
	}
	if (!(total > 0) || !(grid.step > 0))
		return false;
	for (size_t i = 1; i < POINTS; i++)
		grid.cdf[i] /= total;
	*ret = (struct onset){
		.median = quantile(&grid, 0.5),
		.low = quantile(&grid, SHARE_OUTSIDE),
		.high = quantile(&grid, 1 - SHARE_OUTSIDE),
		.misfit = p.misfit,
		.misfit_behind = p.behind.mean_square / (sigma * sigma),
	};
	return true;
}
