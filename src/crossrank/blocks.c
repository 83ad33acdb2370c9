#include "crossrank/blocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/noise.h"
#include "stats/order.h"

#define BLOCK_SIGMAS 8.0
#define BLOCK_SHARE 0.5	   /* of the first one: less is none */
#define BETWEEN_SHARE 0.25 /* so little of a block may come between two */
#define EQUAL_FACTOR 1.1   /* behind the end of the rise the next one is as large as the first */
#define MAX_DWELLS 4	   /* that are looked at */
#define FILLED_SHARE 0.5   /* how likely it is that blocks are filled before the next is taken */
#define REGULAR_FACTOR 1.5 /* the longest dwell beside the shortest: their mean is as good */
#define IN_STEP_P 0.001
#define MIN_IN_STEP 3

/* ---- in one series ---- */

static double jump_at(const struct series *s, size_t i)
{
	return s->y[i] - s->y[i - 1];
}

static bool is_equal(double a, double b)
{
	return a <= EQUAL_FACTOR * b && b <= EQUAL_FACTOR * a;
}

/* The bin behind the run's last. */
static size_t end_of(const struct series *s, const struct run *run)
{
	return s->segments[(run->last + 1) / 2].to;
}

/* The next block behind bin i; 0: none, or memory was given back before. */
static size_t next_block(const struct series *s, size_t i, size_t end, double first)
{
	double level = s->y[i], least = fmax(BLOCK_SHARE * first, BLOCK_SIGMAS * s->sigma);

	for (i++; i < s->n; i++) {
		double jump = jump_at(s, i);

		if (jump >= least)
			return i < end || is_equal(jump, first) ? i : 0;
		if (s->y[i] < level - least / 2)
			return 0;
	}
	return 0;
}

/* Two blocks with a rest between them, in which as good as nothing came. */
static bool is_rest(const struct series *s, size_t a, size_t b)
{
	return b - a > 1 && s->y[b - 1] - s->y[a] <= BETWEEN_SHARE * jump_at(s, b);
}

void blocks_find(const struct series *s, size_t above, const struct run *run, struct rise *ret)
{
	size_t end = end_of(s, run), n_rests = 0, n = 0;
	double first = jump_at(s, above), longest = 0, shortest = INFINITY, sum = 0;

	ret->dwell = 0;
	ret->block_mib = first;
	if (first < BLOCK_SIGMAS * s->sigma)
		return;
	for (size_t a = above, b; n < MAX_DWELLS && (b = next_block(s, a, end, first)) > 0; a = b) {
		double dwell = s->t[b] - s->t[a];

		longest = fmax(longest, dwell);
		shortest = fmin(shortest, dwell);
		sum += dwell;
		n_rests += is_rest(s, a, b);
		n++;
	}
	/* A ramp that is steep enough has no rests. */
	if (n_rests == 0)
		return;
	ret->is_irregular = longest > REGULAR_FACTOR * shortest;
	ret->dwell = ret->is_irregular ? longest : sum / (double)n;
}

/* ---- in all ranks ---- */

/* What blocks are like in this job: a row for each rank that has any. */
struct block_list {
	double *seen, *dwell, *mib;
	size_t n;
	size_t n_rising; /* ranks that rise at all */
	double typical_mib;
};

static void collect(const struct judge_work *w, struct block_list *list)
{
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		list->n_rising += w->f->rises[i].n > 0;
		for (size_t k = 0; k < w->f->rises[i].n; k++) {
			const struct rise *rise = &w->f->rises[i].items[k];

			if (!(rise->dwell > 0))
				continue;
			list->seen[list->n] = rise->seen;
			list->dwell[list->n] = rise->dwell;
			list->mib[list->n++] = rise->block_mib;
			break;
		}
	}
}

/* Whether all but the first took their first block within less than chance would give. */
static bool is_in_step(struct block_list *list, double dwell, double interval)
{
	double span;

	if (list->n <= MIN_IN_STEP)
		return false;
	order_sort(list->seen, list->n);
	span = fmax(list->seen[list->n - 1] - list->seen[1], interval);
	return (double)(list->n - 1) * pow(span / dwell, (double)list->n - 2) < IN_STEP_P;
}

/*
 * Who shows no blocks may have too few: where most that rise have them, and where its only step
 * is as large as theirs, theirs say how long one lasts.
 */
static double dwell_of(const struct rise *rise, const struct block_list *list, double dwell)
{
	bool is_one = rise->is_step && is_equal(rise->gain_mib, list->typical_mib);

	if (rise->dwell > 0)
		return rise->dwell;
	return is_one || 2 * list->n > list->n_rising ? dwell : 0;
}

static void blur(struct rise *rise, double dwell)
{
	/* A fit goes through the middle of the steps, wherever in a block it began. */
	if (rise->is_fitted)
		onset_blur(&rise->onset, dwell / 2, dwell / 2, 1);
	else
		onset_blur(&rise->onset, dwell, 0, rise->is_irregular ? 1 : FILLED_SHARE);
}

int blocks_blur(struct judge_work *w)
{
	size_t n = w->a->n_ranks + 1;
	CLEANUP(free_ptr) double *rows = calloc(3 * n, sizeof(*rows));
	struct block_list list = { .seen = rows };
	double dwell;

	if (!rows)
		return -ENOMEM;
	list.dwell = rows + n;
	list.mib = rows + 2 * n;
	collect(w, &list);
	if (list.n == 0)
		return 0;
	dwell = noise_median(list.dwell, list.n);
	list.typical_mib = noise_median(list.mib, list.n);
	if (is_in_step(&list, dwell, w->interval))
		return 0;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		for (size_t k = 0; k < w->f->rises[i].n; k++) {
			struct rise *rise = &w->f->rises[i].items[k];

			blur(rise, dwell_of(rise, &list, dwell));
		}
	return 0;
}
