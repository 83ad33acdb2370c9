#include "stats/onset.h"

#include <math.h>

#include "base/macros.h"

#define COARSE_PER_INTERVAL 4
#define NEGLIGIBLE 14.0 /* so much less log-likely does not count */
#define SINGULAR 1e-9	/* a pivot that is so little of what it was */

/*
 * A rise goes by a power of the time since its onset, or exponentially. What speeds up is hidden at
 * first, so that a line through what is seen later begins too late: nobody knows how it goes, and
 * all models count, each as far as it fits. Most rises are even.
 */
struct model {
	double power;  /* 0: exponential */
	double growth; /* time in which an exponential one grows by e */
	double weight;
	double e[ONSET_MAX_SAMPLES]; /* of those: at each point, 1 at the last */
};

#define LEAST_BEGINNING 0.04 /* of the scatter: e to the power of 4 times as much is seen */
#define GROWTH_STEP 1.15
#define GROWTHS_TRIED 30 /* from one interval on */
#define FINE_STEP 1.015
#define FINE_TRIED 11
#define GROWTH_WEIGHT 0.0125

static const struct {
	double power, weight;
} powers[] = { { 1, 0.85 }, { 1.5, 0.05 }, { 2, 0.05 }, { 3, 0.05 } };

/* Beside the growth that fits best. */
static const double growths[] = { 1, 0.99, 1.01, 0.97, 1.03, 0.9, 1.1, 0.75, 1.3 };

#define N_MODELS (ARRAY_SIZE(powers) + ARRAY_SIZE(growths))

/* Sums over all points that no onset changes; times in spans from the first, values from the mean.
 */
struct hinge {
	const double *t, *y;
	size_t n;
	int k; /* unknowns: a level, the rise, and a slope of what was before */
	double span, mean, sigma;
	struct model models[N_MODELS];
	size_t n_models;
	double st, stt, sy, sty, syy;
};

static void add_up(struct hinge *h)
{
	for (size_t i = 0; i < h->n; i++)
		h->mean += h->y[i] / (double)h->n;
	for (size_t i = 0; i < h->n; i++) {
		double t = (h->t[i] - h->t[0]) / h->span, y = h->y[i] - h->mean;

		h->st += t;
		h->stt += t * t;
		h->sy += y;
		h->sty += t * y;
		h->syy += y * y;
	}
}

/* Solves the normal equations of up to 3 unknowns by elimination; false: singular. */
static bool solve(double m[3][4], int k)
{
	double diagonal[3] = { m[0][0], m[1][1], m[2][2] };

	for (int i = 0; i < k; i++) {
		if (!(m[i][i] > SINGULAR * diagonal[i]))
			return false;
		for (int row = i + 1; row < k; row++) {
			double f = m[row][i] / m[i][i];

			for (int c = i; c <= 3; c++)
				m[row][c] -= f * m[i][c];
		}
	}
	for (int i = k - 1; i >= 0; i--) {
		for (int c = i + 1; c < k; c++)
			m[i][3] -= m[i][c] * m[c][3];
		m[i][3] /= m[i][i];
	}
	return true;
}

static void set_growth(const struct hinge *h, double growth, struct model *ret)
{
	ret->power = 0;
	ret->growth = growth;
	ret->weight = GROWTH_WEIGHT;
	for (size_t i = 0; i < h->n; i++)
		ret->e[i] = exp((h->t[i] - h->t[h->n - 1]) / growth);
}

/* What an exponential rise begins with, in the unit of its e[]. */
static double beginning(const struct hinge *h, const struct model *model, double tau)
{
	return model->power == 0 ? exp((tau - h->t[h->n - 1]) / model->growth) : 0;
}

/* How far a rise has come at point i, which is behind its onset; in what unit does not matter. */
static double course(const struct hinge *h, const struct model *model, size_t i, double tau,
		     double begun)
{
	double x = (h->t[i] - tau) / h->span;

	if (model->power == 0)
		return model->e[i] - begun;
	if (model->power == 1)
		return x;
	if (model->power == 2)
		return x * x;
	return model->power == 3 ? x * x * x : x * sqrt(x);
}

/* What is fitted at tau: a level, the rise, and a slope of what was before. */
struct fit {
	double unknowns[3];
	double squares; /* the sum of squared distances; INFINITY where nothing rises */
};

static struct fit fit_at(const struct hinge *h, const struct model *model, double tau)
{
	struct fit fit = { .squares = INFINITY };
	double sx = 0, sxx = 0, sxt = 0, sxy = 0, begun = beginning(h, model, tau);

	for (size_t i = h->n; i-- > 0 && h->t[i] > tau;) {
		double x = course(h, model, i, tau, begun);

		sx += x;
		sxx += x * x;
		sxt += x * (h->t[i] - h->t[0]) / h->span;
		sxy += x * (h->y[i] - h->mean);
	}
	double m[3][4] = { { (double)h->n, sx, h->st, h->sy },
			   { sx, sxx, sxt, sxy },
			   { h->st, sxt, h->stt, h->sty } };

	if (!solve(m, h->k) || !(m[1][3] > 0))
		return fit;
	/* An exponential rise that stays below the scatter for long has no beginning that shows. */
	if (model->power == 0 && m[1][3] * begun < LEAST_BEGINNING * h->sigma)
		return fit;
	for (int i = 0; i < h->k; i++)
		fit.unknowns[i] = m[i][3];
	fit.squares = fmax(h->syy - fit.unknowns[0] * h->sy - fit.unknowns[1] * sxy -
				   fit.unknowns[2] * h->sty,
			   0);
	return fit;
}

static double squares_at(const struct hinge *h, const struct model *model, double tau)
{
	return fit_at(h, model, tau).squares;
}

/* The mean square of the distances behind the onset, where a long stretch before hides nothing. */
static double mean_square_behind(const struct hinge *h, const struct model *model, double tau)
{
	struct fit fit = fit_at(h, model, tau);
	double squares = 0, begun = beginning(h, model, tau);
	size_t n = 0;

	for (size_t i = h->n; i-- > 0 && h->t[i] > tau; n++) {
		double t = (h->t[i] - h->t[0]) / h->span;
		double x = course(h, model, i, tau, begun);
		double off = h->y[i] - h->mean - fit.unknowns[0] - fit.unknowns[1] * x -
			     fit.unknowns[2] * t;

		squares += off * off;
	}
	return n > 2 ? squares / (double)(n - 2) : 0;
}

/* Of so many growths from one on that which fits best, with an onset at a point. */
static double best_growth(const struct hinge *h, double from, double step, int n_tried)
{
	double best = INFINITY, growth = from;
	struct model model;

	for (int k = 0; k < n_tried; k++, from *= step) {
		set_growth(h, from, &model);
		for (size_t i = 0; i + 2 < h->n; i++) {
			double squares = squares_at(h, &model, h->t[i]);

			if (squares < best) {
				best = squares;
				growth = from;
			}
		}
	}
	return growth;
}

static void add_powers(struct hinge *h)
{
	for (size_t i = 0; i < ARRAY_SIZE(powers); i++) {
		h->models[h->n_models].power = powers[i].power;
		h->models[h->n_models++].weight = powers[i].weight;
	}
}

static void add_growths(struct hinge *h)
{
	double growth = best_growth(h, h->span / (double)(h->n - 1), GROWTH_STEP, GROWTHS_TRIED);

	growth = best_growth(h, growth / pow(FINE_STEP, FINE_TRIED / 2), FINE_STEP, FINE_TRIED);
	for (size_t i = 0; i < ARRAY_SIZE(growths); i++)
		set_growth(h, growth * growths[i], &h->models[h->n_models++]);
}

/* The number of the model that fits best at tau. */
static size_t best_model(const struct hinge *h, double tau, double *ret_squares)
{
	size_t best = 0;

	*ret_squares = INFINITY;
	for (size_t i = 0; i < h->n_models; i++) {
		double squares = squares_at(h, &h->models[i], tau);

		if (squares < *ret_squares) {
			*ret_squares = squares;
			best = i;
		}
	}
	return best;
}

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
		size_t model = best_model(h, coarse_tau(h, i), &p->squares[i]);

		if (p->squares[i] < p->best) {
			p->best = p->squares[i];
			p->best_model = &h->models[model];
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
		       exp(-fmax((squares_at(h, &h->models[i], tau) - p->best) / (2 * p->variance),
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
	h.span = t[n - 1] - t[0];
	if (!(h.span > 0))
		return false;
	add_up(&h);
	add_powers(&h);
	if (kind.may_explode)
		add_growths(&h);
	if (!find_region(&h, sigma, &p))
		return false;
	widen(&h, &p);
	ret->misfit = p.variance / (sigma * sigma);
	ret->misfit_behind = mean_square_behind(&h, p.best_model, p.best_tau) / (sigma * sigma);
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
