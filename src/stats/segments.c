#include "stats/segments.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

/* What one more part costs: twice its three parameters' share of the Bayes criterion, and some. */
#define PRICE_PER_LOG 4.0
#define PRICE_BASE 6.0

/* Sums over the first i points, of values taken from near the middle so that squares keep digits.
 */
struct sums {
	double t, y, tt, ty, yy;
};

struct work {
	const double *t, *y;
	double t_zero, y_zero, sigma, price;
	struct sums *sums; /* n + 1 */
	double *cost;	   /* of the best cuts of the first i points; n + 1 */
	size_t *last;	   /* where their last part begins */
	size_t *open;	   /* beginnings that may still win */
	double *tried;	   /* what each of them costs now, without its price */
	size_t n_open;
};

static void add_up(struct work *w, size_t n)
{
	w->sums[0] = (struct sums){ 0 };
	for (size_t i = 0; i < n; i++) {
		double t = w->t[i] - w->t_zero, y = w->y[i] - w->y_zero;
		const struct sums *s = &w->sums[i];

		w->sums[i + 1] = (struct sums){ s->t + t, s->y + y, s->tt + t * t, s->ty + t * y,
						s->yy + y * y };
	}
}

struct line {
	double slope, t_mean, y_mean, squares;
};

/* Least squares over the points [from, to). */
static struct line fit(const struct work *w, size_t from, size_t to)
{
	const struct sums *a = &w->sums[from], *b = &w->sums[to];
	double n = (double)(to - from), t = b->t - a->t, y = b->y - a->y;
	double tt = b->tt - a->tt - t * t / n, ty = b->ty - a->ty - t * y / n;
	double yy = b->yy - a->yy - y * y / n;
	struct line line = { 0, t / n, y / n, yy };

	if (to - from > 1 && tt > 0) {
		line.slope = ty / tt;
		line.squares = yy - ty * ty / tt;
	}
	if (to - from <= 2 || !(line.squares > 0))
		line.squares = 0;
	return line;
}

/* The best last part of the first `to` points. */
static void extend(struct work *w, size_t to)
{
	double best = INFINITY;
	size_t n_open = 0;

	for (size_t i = 0; i < w->n_open; i++) {
		size_t from = w->open[i];

		w->tried[i] = w->cost[from] + fit(w, from, to).squares / (w->sigma * w->sigma);
		if (w->tried[i] + w->price < best) {
			best = w->tried[i] + w->price;
			w->last[to] = from;
		}
	}
	w->cost[to] = best;
	/* Pruning: who costs more than the best without a price never wins again. */
	for (size_t i = 0; i < w->n_open; i++)
		if (w->tried[i] <= best)
			w->open[n_open++] = w->open[i];
	w->open[n_open++] = to;
	w->n_open = n_open;
}

static void describe(const struct work *w, size_t from, size_t to, struct segment *ret)
{
	struct line line = fit(w, from, to);
	double begin = w->t[from] - w->t_zero - line.t_mean,
	       end = w->t[to - 1] - w->t_zero - line.t_mean;

	*ret = (struct segment){ from, to, w->y_zero + line.y_mean + line.slope * begin,
				 w->y_zero + line.y_mean + line.slope * end, line.slope };
}

static size_t collect(const struct work *w, size_t n, struct segment *ret)
{
	size_t count = 0, at = 0;

	for (size_t to = n; to > 0; to = w->last[to])
		count++;
	at = count;
	for (size_t to = n; to > 0; to = w->last[to])
		describe(w, w->last[to], to, &ret[--at]);
	return count;
}

int segments_find(const double *t, const double *y, size_t n, double sigma, struct segment *ret,
		  size_t *ret_n)
{
	CLEANUP(free_ptr) struct sums *sums = calloc(n + 1, sizeof(*sums));
	CLEANUP(free_ptr) double *cost = calloc(n + 1, sizeof(*cost));
	CLEANUP(free_ptr) size_t *last = calloc(n + 1, sizeof(*last));
	CLEANUP(free_ptr) size_t *open = calloc(n + 2, sizeof(*open));
	CLEANUP(free_ptr) double *tried = calloc(n + 2, sizeof(*tried));
	struct work w = { t, y, 0, 0, sigma, 0, sums, cost, last, open, tried, 1 };

	*ret_n = 0;
	if (!sums || !cost || !last || !open || !tried)
		return -ENOMEM;
	if (n == 0)
		return 0;
	w.t_zero = t[n / 2];
	w.y_zero = y[n / 2];
	w.price = PRICE_BASE + PRICE_PER_LOG * log((double)n);
	add_up(&w, n);
	cost[0] = -w.price;
	for (size_t to = 1; to <= n; to++)
		extend(&w, to);
	*ret_n = collect(&w, n, ret);
	return 0;
}
