#include "stats/onset.h"

#include <math.h>

#define COARSE_PER_INTERVAL 4
#define NEGLIGIBLE 14.0 /* so much less log-likely does not count */

struct hinge {
	const double *t, *y;
	size_t n;
	bool with_slope;
};

/* Solves the normal equations of up to 3 unknowns by elimination; false: singular. */
static bool solve(double m[3][4], int k)
{
	for (int i = 0; i < k; i++) {
		if (!(fabs(m[i][i]) > 1e-12))
			return false;
		for (int row = i + 1; row < k; row++) {
			double f = m[row][i] / m[i][i];

			for (int c = i; c <= k; c++)
				m[row][c] -= f * m[i][c];
		}
	}
	for (int i = k - 1; i >= 0; i--) {
		for (int c = i + 1; c < k; c++)
			m[i][k] -= m[i][c] * m[c][k];
		m[i][k] /= m[i][i];
	}
	return true;
}

/* A point's regressors for an onset at tau: 1, how long after it, and the time itself. */
static void regressors(const struct hinge *h, size_t i, double tau, double x[3])
{
	x[0] = 1;
	x[1] = h->t[i] > tau ? h->t[i] - tau : 0;
	x[2] = h->t[i] - h->t[0];
}

/* Sum of squared distances with the onset at tau; INFINITY where nothing rises. */
static double squares_at(const struct hinge *h, double tau)
{
	int k = h->with_slope ? 3 : 2;
	double m[3][4] = { { 0 } }, x[3], squares = 0;

	for (size_t i = 0; i < h->n; i++) {
		regressors(h, i, tau, x);
		for (int row = 0; row < k; row++) {
			for (int c = 0; c < k; c++)
				m[row][c] += x[row] * x[c];
			m[row][k] += x[row] * h->y[i];
		}
	}
	if (!solve(m, k) || !(m[1][k] > 0))
		return INFINITY;
	for (size_t i = 0; i < h->n; i++) {
		double off = h->y[i];

		regressors(h, i, tau, x);
		for (int c = 0; c < k; c++)
			off -= m[c][k] * x[c];
		squares += off * off;
	}
	return squares;
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
		p->squares[i] = squares_at(h, coarse_tau(h, i));
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
	double freedom = (double)h->n - (h->with_slope ? 4 : 3);

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
	double step = (h->t[h->n - 1] - h->t[0]) / (double)(h->n - 1) / COARSE_PER_INTERVAL;

	p->from = fmax(p->from - step, h->t[0]);
	p->to = fmin(p->to + step, h->t[h->n - 1]);
}

bool onset_hinge(const double *t, const double *y, size_t n, double sigma, bool with_slope,
		 struct onset *ret)
{
	struct hinge h = { t, y, n, with_slope };
	double total = 0;
	struct profile p;

	if (n < (with_slope ? 6u : 4u) || n > ONSET_MAX_SAMPLES || !find_region(&h, sigma, &p))
		return false;
	widen(&h, &p);
	ret->misfit = p.variance / (sigma * sigma);
	ret->from = p.from;
	ret->step = (p.to - p.from) / (ONSET_POINTS - 1);
	ret->cdf[0] = 0;
	for (size_t i = 1; i < ONSET_POINTS; i++) {
		double tau = p.from + ((double)i - 0.5) * ret->step;

		total += exp(-fmax((squares_at(&h, tau) - p.best) / (2 * p.variance), 0));
		ret->cdf[i] = total;
	}
	if (!(total > 0) || !(ret->step > 0))
		return false;
	for (size_t i = 1; i < ONSET_POINTS; i++)
		ret->cdf[i] /= total;
	onset_summarise(ret);
	return true;
}
