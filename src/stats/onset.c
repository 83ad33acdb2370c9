#include "stats/onset.h"

#include <math.h>

#include "base/macros.h"
#include "stats/hinge.h"

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

/* ---- the onset ---- */

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
