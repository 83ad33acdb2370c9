#include "crossrank/shift.h"

#include <math.h>

#define SIGMAS 3.0   /* of a difference of two means, either way */
#define MAX_KEPT 0.9 /* of one sample in the next */
#define MIN_FREE 3.0 /* samples on each side that do not follow each other */
#define MOST_SIDE 4  /* but no more than one of so many of all */

/* Sums of the points before each, of which those count that are no part of a spike or a refill. */
struct sums {
	double y[SERIES_BINS + 1], squares[SERIES_BINS + 1], products[SERIES_BINS + 1];
	double value[SERIES_BINS];
	double low_before[SERIES_BINS + 1], low_behind[SERIES_BINS + 1];
	double high_behind[SERIES_BINS + 1];
	size_t n;
};

/* Points [from, to). */
struct side {
	double n, mean;
	double squares, products; /* of what is left without the mean */
};

static void add_point(struct sums *sums, double value)
{
	size_t n = sums->n++;
	double before = n > 0 ? sums->value[n - 1] : 0;

	sums->value[n] = value;
	sums->y[n + 1] = sums->y[n] + value;
	sums->squares[n + 1] = sums->squares[n] + value * value;
	sums->products[n + 1] = sums->products[n] + value * before;
}

static void add_points(const struct series *s, struct sums *sums)
{
	sums->n = 0;
	sums->y[0] = sums->squares[0] = sums->products[0] = 0;
	for (size_t i = 0; i < s->n_segments; i++)
		for (size_t k = s->segments[i].from; !s->is_passing[2 * i] && k < s->segments[i].to;
		     k++)
			add_point(sums, s->y[k] - s->y[0]);
}

static void find_extremes(struct sums *sums)
{
	size_t n = sums->n;

	sums->low_before[0] = sums->low_behind[n] = INFINITY;
	sums->high_behind[n] = -INFINITY;
	for (size_t i = 0; i < n; i++)
		sums->low_before[i + 1] = fmin(sums->low_before[i], sums->value[i]);
	for (size_t i = n; i-- > 0;) {
		sums->low_behind[i] = fmin(sums->low_behind[i + 1], sums->value[i]);
		sums->high_behind[i] = fmax(sums->high_behind[i + 1], sums->value[i]);
	}
}

/*
 * More than from the lowest point to the highest behind it nothing has gained: what only falls
 * scatters widely around its mean, and hides nothing in that. slack: how far such points may be
 * from what they stand for.
 */
static double most_by_extremes(const struct sums *sums, size_t at, bool is_sawtooth, double slack)
{
	double high = is_sawtooth ? sums->low_behind[at] : sums->high_behind[at];

	return fmax(high - sums->low_before[at], 0) + slack;
}

static struct side side_of(const struct sums *sums, size_t from, size_t to)
{
	double n = (double)(to - from), y = sums->y[to] - sums->y[from];
	double products = sums->products[to] - sums->products[from + 1];
	struct side side = { .n = n, .mean = y / n };

	side.squares = fmax(sums->squares[to] - sums->squares[from] - y * side.mean, 0);
	/* Those that are a second one, and those that are a first. */
	side.products = products - side.mean * (2 * y - sums->value[from] - sums->value[to - 1]) +
			(n - 1) * side.mean * side.mean;
	return side;
}

/* How many samples say as much as one that does not follow another. Few show too little of it. */
static double samples_per_free(const struct side *a, const struct side *b)
{
	double squares = a->squares + b->squares;
	double kept = squares > 0 ? (a->products + b->products) / squares : 0;

	kept = fmin(fmax(kept + (1 + 4 * kept) / (a->n + b->n), 0), MAX_KEPT);
	return (1 + kept) / (1 - kept);
}

/* bound: more it is not, whatever the means say. */
static void look_at(const struct sums *sums, size_t at, double bound, struct shift *ret)
{
	struct side before = side_of(sums, 0, at), behind = side_of(sums, at, sums->n);
	double n = (double)sums->n, up = behind.mean - before.mean;
	double variance = (before.squares + behind.squares) / (n - 2);
	double per_free = samples_per_free(&before, &behind);
	double side = fmin(MIN_FREE * per_free, n / MOST_SIDE), error;

	if (before.n < side || behind.n < side)
		return;
	error = SIGMAS * sqrt(variance * per_free * (1 / before.n + 1 / behind.n));
	ret->most = fmax(ret->most, fmin(up + error, bound));
	if (up - error > fmax(sqrt(variance), ret->least)) {
		ret->least = up - error;
		ret->sigma = sqrt(variance);
	}
}

void shift_find(const struct series *s, bool is_sawtooth, struct shift *ret)
{
	double slack = SERIES_LEVEL_SIGMAS * s->sigma;
	struct sums sums;

	*ret = (struct shift){ 0 };
	add_points(s, &sums);
	find_extremes(&sums);
	if (sums.n < RISES_MIN_SAMPLES) {
		ret->most = s->range; /* nobody knows what scatters */
		return;
	}
	for (size_t at = SHIFT_MIN_SIDE; at + SHIFT_MIN_SIDE <= sums.n; at++)
		look_at(&sums, at, most_by_extremes(&sums, at, is_sawtooth, slack), ret);
}
