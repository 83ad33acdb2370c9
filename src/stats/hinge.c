#include "stats/hinge.h"

#include <math.h>

#include "base/macros.h"

#define SINGULAR 1e-9	     /* a pivot that is so little of what it was */
#define LEAST_BEGINNING 0.04 /* of the scatter: e to the power of 4 times as much is seen */
#define GROWTH_STEP 1.15
#define GROWTHS_TRIED 30 /* from one interval on */
#define FINE_STEP 1.015
#define FINE_TRIED 11

static const struct {
	double power, weight;
} powers[] = { { 1, 0.85 }, { 1.5, 0.05 }, { 2, 0.05 }, { 3, 0.05 } };

/* Beside the growth that fits best. */
static const double growths[] = { 1, 0.99, 1.01, 0.97, 1.03, 0.9, 1.1, 0.75, 1.3 };

_Static_assert(ARRAY_SIZE(powers) + ARRAY_SIZE(growths) == HINGE_MODELS, "one for each");

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

/* What is fitted at tau: a level, the rise, and a slope of what was before. */
struct fit {
	double unknowns[3];
	double squares; /* the sum of squared distances; INFINITY where nothing rises */
};

static struct fit fit_at(const struct hinge *h, const struct model *model, double tau)
{
	struct fit fit = { .squares = INFINITY };
	double begun = hinge_beginning(h, model, tau);
	struct sums s = hinge_add_behind(h, model, tau, begun);
	double m[3][4] = { { (double)h->n, s.x, h->st, h->sy },
			   { s.x, s.xx, s.xt, s.xy },
			   { h->st, s.xt, h->stt, h->sty } };

	if (!solve(m, h->k) || !(m[1][3] > 0))
		return fit;
	/* An exponential rise that stays below the scatter for long has no beginning that shows. */
	if (model->power == 0 && m[1][3] * begun < LEAST_BEGINNING * h->sigma)
		return fit;
	for (int i = 0; i < h->k; i++)
		fit.unknowns[i] = m[i][3];
	fit.squares = fmax(h->syy - fit.unknowns[0] * h->sy - fit.unknowns[1] * s.xy -
				   fit.unknowns[2] * h->sty,
			   0);
	return fit;
}

double hinge_squares(const struct hinge *h, const struct model *model, double tau)
{
	return fit_at(h, model, tau).squares;
}

struct hinge_scatter hinge_look_behind(const struct hinge *h, const struct model *model, double tau)
{
	struct fit fit = fit_at(h, model, tau);
	double squares = 0, products = 0, last = 0, begun = hinge_beginning(h, model, tau);
	size_t n = 0;

	for (size_t i = h->n; i-- > 0 && h->t[i] > tau; n++) {
		double t = hinge_time(h, i);
		double x = hinge_course(h, model, i, tau, begun);
		double off = h->y[i] - h->mean - fit.unknowns[0] - fit.unknowns[1] * x -
			     fit.unknowns[2] * t;

		squares += off * off;
		products += off * last;
		last = off;
	}
	return (struct hinge_scatter){ .n = n,
				       .mean_square = n > 2 ? squares / (double)(n - 2) : 0,
				       .kept = squares > 0 ? products / squares : 0 };
}

/* Of so many growths from one on that which fits best, with an onset at a point. */
static double best_growth(const struct hinge *h, double from, double step, int n_tried)
{
	double best = INFINITY, growth = from;
	struct model model;

	for (int k = 0; k < n_tried; k++, from *= step) {
		hinge_set_growth(h, from, &model);
		for (size_t i = 0; i + 2 < h->n; i++) {
			double squares = hinge_squares(h, &model, h->t[i]);

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
		hinge_set_growth(h, growth * growths[i], &h->models[h->n_models++]);
}

double hinge_best_squares(const struct hinge *h, double tau, const struct model **ret_best)
{
	double least = INFINITY;

	*ret_best = &h->models[0];
	for (size_t i = 0; i < h->n_models; i++) {
		double squares = hinge_squares(h, &h->models[i], tau);

		if (squares < least) {
			least = squares;
			*ret_best = &h->models[i];
		}
	}
	return least;
}

bool hinge_init(struct hinge *h, bool may_explode)
{
	h->span = h->t[h->n - 1] - h->t[0];
	if (!(h->span > 0))
		return false;
	hinge_add_up(h);
	add_powers(h);
	if (may_explode)
		add_growths(h);
	return true;
}
