#include "stats/onset.h"

#include <math.h>

#include "base/macros.h"

#define COARSE_PER_INTERVAL 4
#define NEGLIGIBLE 14.0 /* so much less log-likely does not count */
#define SINGULAR 1e-9	/* a pivot that is so little of what it was */

/*
 * A rise goes by a power of the time since its onset. What speeds up is hidden at first, so that a
 * line through what is seen later begins too late: nobody knows the power, and all of them count,
 * each as far as it fits.
 */
static const double powers[] = { 1, 1.5, 2, 3 };

/* Sums over all points that no onset changes; times in spans from the first, values from the mean.
 */
struct hinge {
	const double *t, *y;
	size_t n;
	int k; /* unknowns: a level, the rise, and a slope of what was before */
	double span, mean;
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

static double to_power(double x, double power)
{
	if (power == 1)
		return x;
	if (power == 2)
		return x * x;
	return power == 3 ? x * x * x : x * sqrt(x);
}

/* Sum of squared distances with the onset at tau; INFINITY where nothing rises. */
static double squares_at(const struct hinge *h, double power, double tau)
{
	double sx = 0, sxx = 0, sxt = 0, sxy = 0;

	for (size_t i = h->n; i-- > 0 && h->t[i] > tau;) {
		double x = to_power((h->t[i] - tau) / h->span, power);

		sx += x;
		sxx += x * x;
		sxt += x * (h->t[i] - h->t[0]) / h->span;
		sxy += x * (h->y[i] - h->mean);
	}
	double m[3][4] = { { (double)h->n, sx, h->st, h->sy },
			   { sx, sxx, sxt, sxy },
			   { h->st, sxt, h->stt, h->sty } };

	if (!solve(m, h->k) || !(m[1][3] > 0))
		return INFINITY;
	return fmax(h->syy - m[0][3] * h->sy - m[1][3] * sxy - (h->k > 2 ? m[2][3] * h->sty : 0),
		    0);
}

static double best_at(const struct hinge *h, double tau)
{
	double best = INFINITY;

	for (size_t i = 0; i < ARRAY_SIZE(powers); i++)
		best = fmin(best, squares_at(h, powers[i], tau));
	return best;
}

struct profile {
	double best_tau, best;
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
	for (size_t i = 0; i < n; i++) {
		p->squares[i] = best_at(h, coarse_tau(h, i));
		if (p->squares[i] < p->best) {
			p->best = p->squares[i];
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

	for (size_t i = 0; i < ARRAY_SIZE(powers); i++)
		sum += exp(-fmax((squares_at(h, powers[i], tau) - p->best) / (2 * p->variance), 0));
	return sum;
}

bool onset_hinge(const double *t, const double *y, size_t n, double sigma, bool with_slope,
		 struct onset *ret)
{
	struct hinge h = { .t = t, .y = y, .n = n, .k = with_slope ? 3 : 2 };
	double total = 0;
	struct profile p;

	if (n < (with_slope ? 6u : 4u) || n > ONSET_MAX_SAMPLES)
		return false;
	h.span = t[n - 1] - t[0];
	add_up(&h);
	if (!(h.span > 0) || !find_region(&h, sigma, &p))
		return false;
	widen(&h, &p);
	ret->misfit = p.variance / (sigma * sigma);
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
