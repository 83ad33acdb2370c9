#include "stats/onset.h"

#include <math.h>

#include "stats/hinge.h"

#define COARSE_PER_INTERVAL 4
#define NEGLIGIBLE 14.0 /* so much less log-likely does not count */

struct profile {
	double best_tau, best;
	const struct model *best_model;
	double from, to; /* where it is not negligible */
	double variance;
	double squares[ONSET_MAX_SAMPLES * COARSE_PER_INTERVAL];
};

static double coarse_tau(const struct hinge *h, size_t i)
{
	size_t interval = i / COARSE_PER_INTERVAL;
	double share = (double)(i % COARSE_PER_INTERVAL) / COARSE_PER_INTERVAL;

	return h->t[interval] + share * (h->t[interval + 1] - h->t[interval]);
}

static void find_best(const struct hinge *h, size_t n, struct profile *p)
{
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
}

/* Over all onsets between the first point and the last but one. */
static bool find_region(const struct hinge *h, double sigma, struct profile *p)
{
	size_t n = (h->n - 2) * COARSE_PER_INTERVAL;
	double freedom = (double)h->n - h->k - 1;

	find_best(h, n, p);
	if (!isfinite(p->best))
		return false;
	/* What the model does not explain widens the answer. */
	p->variance = fmax(sigma * sigma, p->best / fmax(freedom, 1));
	p->from = p->to = p->best_tau;
	for (size_t i = 0; i < n; i++)
		if ((p->squares[i] - p->best) / (2 * p->variance) <= NEGLIGIBLE) {
			p->from = fmin(p->from, coarse_tau(h, i));
			p->to = fmax(p->to, coarse_tau(h, i));
		}
	return true;
}

/* The grid reaches a coarse step further than what was found. */
static void widen(const struct hinge *h, struct profile *p)
{
	double step = h->span / (double)(h->n - 1) / COARSE_PER_INTERVAL;

	p->from = fmax(p->from - step, h->t[0]);
	p->to = fmin(p->to + step, h->t[h->n - 1]);
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

bool onset_hinge(const double *t, const double *y, size_t n, double sigma, struct hinge_kind kind,
		 struct onset *ret)
{
	struct hinge h = { .t = t, .y = y, .n = n, .k = kind.is_sloped ? 3 : 2, .sigma = sigma };
	double total = 0;
	struct profile p;

	if (n < (kind.is_sloped ? 6u : 4u) || n > ONSET_MAX_SAMPLES)
		return false;
	if (!hinge_init(&h, kind.may_explode))
		return false;
	if (!find_region(&h, sigma, &p))
		return false;
	widen(&h, &p);
	ret->misfit = p.variance / (sigma * sigma);
	ret->misfit_behind =
		hinge_mean_square_behind(&h, p.best_model, p.best_tau) / (sigma * sigma);
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
	onset_summarise(ret);
	return true;
}
