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

/* ---- sums ---- */

/* Fills the sums of h. */
static void add_up(struct hinge *h)
{
	for (size_t i = 0; i < h->n; i++)
		h->mean += h->y[i] / (double)h->n;
	for (size_t i = 0; i < h->n; i++) {
		double t = hinge_time(h, i), y = h->y[i] - h->mean;

		h->st += t;
		h->stt += t * t;
		h->sy += y;
		h->sty += t * y;
		h->syy += y * y;
	}
	for (size_t i = h->n; i-- > 0;) {
		struct moments *m = &h->behind[i];
		double left = (h->t[h->n - 1] - h->t[i]) / h->span, power = 1;

		*m = m[1];
		for (int k = 0; k <= 2 * HINGE_MAX_POWER; k++, power *= left) {
			m->u[k] += power;
			if (k <= HINGE_MAX_POWER)
				m->uy[k] += power * (h->y[i] - h->mean);
		}
	}
}

static double grown_at(const struct hinge *h, double growth, double t)
{
	return exp((t - h->t[h->n - 1]) / growth);
}

/* Makes it an exponential model, and fills its sums. */
static void set_growth(const struct hinge *h, double growth, struct model *ret)
{
	ret->power = 0;
	ret->growth = growth;
	ret->weight = HINGE_GROWTH_WEIGHT;
	ret->behind[h->n] = (struct growth_sums){ 0 };
	for (size_t i = h->n; i-- > 0;) {
		const struct growth_sums *next = &ret->behind[i + 1];
		double e = grown_at(h, growth, h->t[i]);

		ret->behind[i] = (struct growth_sums){
			.e = next->e + e,
			.ee = next->ee + e * e,
			.et = next->et + e * hinge_time(h, i),
			.ey = next->ey + e * (h->y[i] - h->mean),
		};
	}
}

double hinge_beginning(const struct hinge *h, const struct model *model, double tau)
{
	return model->power == 0 ? grown_at(h, model->growth, tau) : 0;
}

double hinge_course(const struct hinge *h, const struct model *model, size_t i, double tau,
		    double begun)
{
	double x = (h->t[i] - tau) / h->span;

	if (model->power == 0)
		return grown_at(h, model->growth, h->t[i]) - begun;
	if (model->power == 1)
		return x;
	if (model->power == 2)
		return x * x;
	return model->power == 3 ? x * x * x : x * sqrt(x);
}

/* The number of the first point behind tau; as many as there are: none. */
static size_t point_behind(const struct hinge *h, double tau)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->t[middle] > tau)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The sum of (v - u)^power, where moments[k] is that of u^k. */
static double expand(const double *moments, int power, double v)
{
	double sum = 0, factor = power % 2 ? -1 : 1;

	for (int k = power; k >= 0; k--) {
		sum += factor * moments[k];
		factor *= -v * k / (power - k + 1);
	}
	return sum;
}

struct sums hinge_add_behind(const struct hinge *h, const struct model *model, double tau,
			     double begun)
{
	struct sums s = { 0 };

	if (model->power == 0) {
		size_t i = point_behind(h, tau);
		const struct moments *m = &h->behind[i];
		const struct growth_sums *g = &model->behind[i];

		return (struct sums){ .x = g->e - begun * m->u[0],
				      .xx = g->ee - 2 * begun * g->e + begun * begun * m->u[0],
				      .xt = g->et - begun * (m->u[0] - m->u[1]),
				      .xy = g->ey - begun * m->uy[0] };
	}
	if (model->power == floor(model->power)) {
		int power = (int)model->power;
		const struct moments *m = &h->behind[point_behind(h, tau)];
		double left = (h->t[h->n - 1] - tau) / h->span, x = expand(m->u, power, left);

		return (struct sums){ .x = x,
				      .xx = expand(m->u, 2 * power, left),
				      .xt = x - expand(m->u + 1, power, left),
				      .xy = expand(m->uy, power, left) };
	}
	/* Of a power that is no whole number, point by point. */
	for (size_t i = h->n; i-- > 0 && h->t[i] > tau;) {
		double x = hinge_course(h, model, i, tau, 0);

		s.x += x;
		s.xx += x * x;
		s.xt += x * hinge_time(h, i);
		s.xy += x * (h->y[i] - h->mean);
	}
	return s;
}

/* ---- fits ---- */

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
		set_growth(h, from, &model);
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
	double growth;

	h->span = h->t[h->n - 1] - h->t[0];
	if (!(h->span > 0))
		return false;
	add_up(h);
	for (size_t i = 0; i < ARRAY_SIZE(powers); i++) {
		h->models[h->n_models].power = powers[i].power;
		h->models[h->n_models++].weight = powers[i].weight;
	}
	if (!may_explode)
		return true;
	growth = best_growth(h, h->span / (double)(h->n - 1), GROWTH_STEP, GROWTHS_TRIED);
	growth = best_growth(h, growth / pow(FINE_STEP, FINE_TRIED / 2), FINE_STEP, FINE_TRIED);
	for (size_t i = 0; i < ARRAY_SIZE(growths); i++)
		set_growth(h, growth * growths[i], &h->models[h->n_models++]);
	return true;
}
