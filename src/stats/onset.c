#include "stats/onset.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/probability.h"

#define SHARE_OUTSIDE 0.05
#define BLUR_POINTS 64

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

void onset_summarise(struct onset *o)
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
	ret->misfit = ret->misfit_behind = 0;
	ret->from = from;
	ret->step = (to - from) / (ONSET_POINTS - 1);
	for (size_t i = 0; i < ONSET_POINTS; i++)
		ret->cdf[i] = (double)i / (ONSET_POINTS - 1);
	onset_summarise(ret);
}

/* The share of the distribution that lies before a moment. */
static double cdf_at(const struct onset *o, double at)
{
	double place = o->step > 0 ? (at - o->from) / o->step : at < o->from ? -1 : ONSET_POINTS;
	size_t i;

	if (!(place > 0))
		return 0;
	if (place >= ONSET_POINTS - 1)
		return 1;
	i = (size_t)place;
	return o->cdf[i] + (place - (double)i) * (o->cdf[i + 1] - o->cdf[i]);
}

static double blurred_at(const struct onset *o, double at, double before, double after)
{
	double sum = 0;

	for (int i = 0; i < BLUR_POINTS; i++)
		sum += cdf_at(o, at + before - (before + after) * (i + 0.5) / BLUR_POINTS);
	return sum / BLUR_POINTS;
}

void onset_blur(struct onset *o, double before, double after, double share)
{
	const struct onset sharp = *o;

	if (!(before + after > 0))
		return;
	o->from = sharp.from - before;
	o->step = sharp.step + (before + after) / (ONSET_POINTS - 1);
	for (size_t i = 0; i < ONSET_POINTS; i++) {
		double at = o->from + (double)i * o->step;

		o->cdf[i] = share * blurred_at(&sharp, at, before, after) +
			    (1 - share) * cdf_at(&sharp, at);
	}
	o->cdf[ONSET_POINTS - 1] = 1;
	onset_summarise(o);
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

/* Only who can have been first is drawn. */
int onset_first(const struct first_entry *entries, size_t n, size_t n_clocks, unsigned n_draws,
		double *ret)
{
	CLEANUP(free_ptr) double *offsets = calloc(n_clocks + 1, sizeof(*offsets));
	CLEANUP(free_ptr) struct first_entry *able = calloc(n + 1, sizeof(*able));
	CLEANUP(free_ptr) size_t *number = calloc(n + 1, sizeof(*number));
	double latest = INFINITY; /* the moment at which the first of them has surely begun */
	uint64_t state = 1;
	size_t n_able = 0;

	if (!offsets || !able || !number)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct onset *o = entries[i].onset;

		latest = fmin(latest,
			      o->from + o->step * (ONSET_POINTS - 1) + entries[i].clock_error);
	}
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

	return normal_tail(z);
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

/* What several of them say together, each the less the larger its variance. */
struct sum {
	double weights, mean;
};

static void sum_add(struct sum *s, double mean, double variance)
{
	s->weights += 1 / variance;
	s->mean += (mean - s->mean) / variance / s->weights;
}

/* When the others began, by the clock of that one: its error is no other's. */
static struct sum moment_of(const struct first_entry *one, const struct first_entry *others,
			    size_t n)
{
	double error = one->clock_error * one->clock_error / 3;
	struct sum same = { 0 }, elsewhere = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct clock_mean c;

		if (!is_first_of_clock(others, i))
			continue;
		c = mean_of_clock(others, n, i);
		if (others[i].clock == one->clock)
			sum_add(&same, c.mean, c.variance - error);
		else
			sum_add(&elsewhere, c.mean, c.variance);
	}
	if (elsewhere.weights > 0)
		sum_add(&same, elsewhere.mean, 1 / elsewhere.weights + error);
	return same;
}

double onset_behind_p(const struct first_entry *one, double earlier,
		      const struct first_entry *others, size_t n)
{
	struct sum moment = moment_of(one, others, n);
	const struct onset *o = one->onset;
	double p = 0;

	for (size_t i = 1; i < ONSET_POINTS; i++) {
		double at = o->from + o->step * ((double)i - 0.5) - earlier;
		double z = (at - moment.mean) * sqrt(moment.weights);

		p += (o->cdf[i] - o->cdf[i - 1]) * normal_tail(-z);
	}
	return p;
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
