#include "stats/onset.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

#define COARSE_PER_INTERVAL 4
#define NEGLIGIBLE 14.0 /* so much less log-likely does not count */
#define SHARE_OUTSIDE 0.05

/* ---- distributions ---- */

double onset_quantile(const struct onset *o, double p)
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

static void summarise(struct onset *o)
{
	double mean = 0, square = 0;

	for (size_t i = 1; i < ONSET_POINTS; i++) {
		double at = ((double)i - 0.5) * o->step, share = o->cdf[i] - o->cdf[i - 1];

		mean += share * at;
		square += share * at * at;
	}
	o->sd = sqrt(fmax(square - mean * mean, 0));
	o->median = onset_quantile(o, 0.5);
	o->low = onset_quantile(o, SHARE_OUTSIDE);
	o->high = onset_quantile(o, 1 - SHARE_OUTSIDE);
}

void onset_uniform(double from, double to, struct onset *ret)
{
	ret->misfit = 0;
	ret->from = from;
	ret->step = (to - from) / (ONSET_POINTS - 1);
	for (size_t i = 0; i < ONSET_POINTS; i++)
		ret->cdf[i] = (double)i / (ONSET_POINTS - 1);
	summarise(ret);
}

/* ---- the hinge ---- */

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
	summarise(ret);
	return true;
}

/* ---- who was first ---- */

/* splitmix64: the same draws in every run, so that the same files give the same answer. */
static double draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static size_t draw_first(const struct first_entry *entries, size_t n, double *offsets,
			 size_t n_clocks, uint64_t *state)
{
	double earliest = INFINITY;
	size_t first = 0;

	for (size_t i = 0; i < n_clocks; i++)
		offsets[i] = 2 * draw(state) - 1;
	for (size_t i = 0; i < n; i++) {
		double at = onset_quantile(entries[i].onset, draw(state)) +
			    offsets[entries[i].clock] * entries[i].clock_error;

		if (at < earliest) {
			earliest = at;
			first = i;
		}
	}
	return first;
}

/* The latest moment at which the first of them has surely begun. */
static double surely_begun(const struct first_entry *entries, size_t n)
{
	double earliest = INFINITY;

	for (size_t i = 0; i < n; i++) {
		const struct onset *o = entries[i].onset;

		earliest = fmin(earliest,
				o->from + o->step * (ONSET_POINTS - 1) + entries[i].clock_error);
	}
	return earliest;
}

/* Only who can have been first is drawn. */
int onset_first(const struct first_entry *entries, size_t n, size_t n_clocks, unsigned n_draws,
		double *ret)
{
	CLEANUP(free_ptr) double *offsets = calloc(n_clocks + 1, sizeof(*offsets));
	CLEANUP(free_ptr) struct first_entry *able = calloc(n + 1, sizeof(*able));
	CLEANUP(free_ptr) size_t *number = calloc(n + 1, sizeof(*number));
	double latest = surely_begun(entries, n);
	uint64_t state = 1;
	size_t n_able = 0;

	if (!offsets || !able || !number)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		ret[i] = 0;
		if (entries[i].onset->from - entries[i].clock_error > latest)
			continue;
		number[n_able] = i;
		able[n_able++] = entries[i];
	}
	if (n_able == 1)
		n_draws = 1;
	for (unsigned i = 0; n_able > 0 && i < n_draws; i++)
		ret[number[draw_first(able, n_able, offsets, n_clocks, &state)]]++;
	for (size_t i = 0; i < n; i++)
		ret[i] /= n_draws;
	return 0;
}

/* The upper tail of chi squared, by Wilson and Hilferty. */
static double chi_squared_tail(double q, double k)
{
	double z = (cbrt(q / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));

	return 0.5 * erfc(z / sqrt(2));
}

/* The last term keeps exact onsets from dividing by zero. */
static double variance_of(const struct first_entry *e)
{
	return e->onset->sd * e->onset->sd + 1e-18;
}

static bool is_first_of_clock(const struct first_entry *entries, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (entries[k].clock == entries[i].clock)
			return false;
	return true;
}

/* The entries of one clock, the first of which is given, as one. */
struct clock_mean {
	double mean, variance;
	double q; /* how far they are from it */
};

static struct clock_mean mean_of_clock(const struct first_entry *entries, size_t n, size_t first)
{
	size_t clock = entries[first].clock;
	struct clock_mean c = { 0 };
	double weights = 0;

	for (size_t i = first; i < n; i++)
		if (entries[i].clock == clock) {
			weights += 1 / variance_of(&entries[i]);
			c.mean += entries[i].onset->median / variance_of(&entries[i]);
		}
	c.mean /= weights;
	for (size_t i = first; i < n; i++)
		if (entries[i].clock == clock) {
			double off = entries[i].onset->median - c.mean;

			c.q += off * off / variance_of(&entries[i]);
		}
	/* A clock's error is uniform, and the same for all of them. */
	c.variance = 1 / weights + entries[first].clock_error * entries[first].clock_error / 3;
	return c;
}

/* Within each clock nothing but the onsets differs; between them their errors do, too. */
double onset_equal_p(const struct first_entry *entries, size_t n)
{
	double weights = 0, mean = 0, q = 0;

	if (n < 2)
		return 1;
	for (size_t i = 0; i < n; i++)
		if (is_first_of_clock(entries, i)) {
			struct clock_mean c = mean_of_clock(entries, n, i);

			weights += 1 / c.variance;
			mean += c.mean / c.variance;
			q += c.q;
		}
	mean /= weights;
	for (size_t i = 0; i < n; i++)
		if (is_first_of_clock(entries, i)) {
			struct clock_mean c = mean_of_clock(entries, n, i);

			q += (c.mean - mean) * (c.mean - mean) / c.variance;
		}
	return chi_squared_tail(q, (double)(n - 1));
}
