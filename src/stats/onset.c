#include "stats/onset.h"

#include <math.h>

#include "stats/hinge.h"

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
	const struct model *best_model;
	double from, to; /* where it is not negligible */
	double misfit, variance;
	struct hinge_scatter behind; /* the best one */
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
	const struct model *model = NULL;
	double squares = hinge_best_squares(h, tau, &model);

	if (squares < p->best) {
		p->best = squares;
		p->best_model = model;
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
static double following_factor(const struct hinge_scatter *behind)
{
	double n = (double)behind->n, kept = fmin(behind->kept, MAX_KEPT);

	return n > 0 && kept * sqrt(n) > KEPT_SIGMAS ? (1 + kept) / (1 - kept) : 1;
}

/* Over all onsets between the first point and the last but one. */
static bool find_region(const struct hinge *h, double sigma, struct profile *p)
{
	size_t n = (h->n - 2) * COARSE_PER_INTERVAL;
	double freedom = (double)h->n - h->k - 1, unexplained;

	p->best = INFINITY;
	p->best_tau = h->t[0];
	p->best_model = &h->models[0];
	for (size_t i = 0; i < n; i++) {
		const struct model *model;

		p->squares[i] = hinge_best_squares(h, coarse_tau(h, i), &model);
		if (p->squares[i] < p->best) {
			p->best = p->squares[i];
			p->best_model = model;
			p->best_tau = coarse_tau(h, i);
		}
	}
	if (!isfinite(p->best))
		return false;
	refine_best(h, p);
	p->behind = hinge_look_behind(h, p->best_model, p->best_tau);
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
	const struct model *model;

	return (hinge_best_squares(h, tau, &model) - p->best) / (2 * p->variance) > NEGLIGIBLE;
}

/* How likely an onset is beside the best one, by all powers. */
static double likelihood(const struct hinge *h, const struct profile *p, double tau)
{
	double sum = 0;

	for (size_t i = 0; i < h->n_models; i++)
		sum += h->models[i].weight *
		       exp(-fmax((hinge_squares(h, &h->models[i], tau) - p->best) /
					 (2 * p->variance),
				 0));
	return sum;
}

/* The value below which a share p of the distribution lies. */
static double quantile(const struct onset *o, double p)
{
	size_t low = 0, high = ONSET_POINTS - 1;
	double before, width;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (o->cdf[middle] < p)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return o->from;
	before = o->cdf[low - 1];
	width = o->cdf[low] - before;
	return o->from + o->step * ((double)(low - 1) + (width > 0 ? (p - before) / width : 0));
}

bool onset_hinge(const double *t, const double *y, size_t n, double sigma, struct hinge_kind kind,
		 struct onset *ret)
{
	struct hinge h = { .t = t, .y = y, .n = n, .k = kind.is_sloped ? 3 : 2, .sigma = sigma };
	double total = 0;
	struct profile p;
	double step;
	double mean = 0, square = 0;

	if (n < (kind.is_sloped ? 6u : 4u) || n > ONSET_MAX_SAMPLES)
		return false;
	if (!hinge_init(&h, kind.may_explode))
		return false;
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
	ret->misfit = p.misfit;
	ret->misfit_behind = p.behind.mean_square / (sigma * sigma);
	ret->from = p.from;
	ret->step = (p.to - p.from) / (ONSET_POINTS - 1);
	ret->cdf[0] = 0;
	for (size_t i = 1; i < ONSET_POINTS; i++) {
		total += likelihood(&h, &p, p.from + ((double)i - 0.5) * ret->step);
		ret->cdf[i] = total;
	}
	if (!(total > 0) || !(ret->step > 0))
		return false;
	for (size_t i = 1; i < ONSET_POINTS; i++)
		ret->cdf[i] /= total;
	/* Fills median, low, high and sd from the grid and its cdf. */
	for (size_t i = 1; i < ONSET_POINTS; i++) {
		double at = ((double)i - 0.5) * ret->step, share = ret->cdf[i] - ret->cdf[i - 1];

		mean += share * at;
		square += share * at * at;
	}
	ret->sd = sqrt(fmax(square - mean * mean, 0));
	ret->median = quantile(ret, 0.5);
	ret->low = quantile(ret, SHARE_OUTSIDE);
	ret->high = quantile(ret, 1 - SHARE_OUTSIDE);
	return true;
}
