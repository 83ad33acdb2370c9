#include "crossrank/grain.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/order.h"

#define STAIRS_SHARE 0.5  /* how likely it is that memory comes in such steps */
#define APART_SHARE 0.03  /* of an interval: moments so far apart are different ones */
#define CHANCE_P 0.1	  /* by which steps of a length would put onsets so close together */
#define ARC_FACTOR 20.0	  /* a step so many times as long seldom ends between two such moments */
#define REACH 1.1	  /* of a step: so that nine tenths reach as far as that */
#define STAMP_SHARE 0.5	  /* of a unit of timestamps: so much earlier it may be, too */
#define MIN_DIFFERENT 3.0 /* moments, to say anything from them */

/* A rank that rises in a line, as far as one can see. */
struct grain_list {
	double *onsets;
	double *phases; /* when it was looked at, from 0 to an interval */
	size_t n;
};

static bool has_grain(const struct rise *rise)
{
	return rise->is_fitted && !rise->is_censored && !(rise->dwell > 0);
}

static const struct rise *largest_of(const struct rise_list *list)
{
	const struct rise *largest = NULL;

	for (size_t k = 0; k < list->n; k++)
		if (has_grain(&list->items[k]) &&
		    (!largest || list->items[k].gain_mib > largest->gain_mib))
			largest = &list->items[k];
	return largest;
}

/* When the first of them was seen: at that moment it is asked when others are looked at. */
static double first_seen(const struct judge_work *w)
{
	double seen = INFINITY;

	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct rise *rise = largest_of(&w->f->rises[i]);

		seen = rise ? fmin(seen, rise->seen) : seen;
	}
	return seen;
}

/* Until the next sample of a rank from then on. */
static double wait_of(const struct judge_work *w, size_t rank, double seconds)
{
	const struct stream *s = w->a->ranks[rank].total;
	size_t low = 0, high = s->n - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (judge_seconds(w, &s->samples[middle]) < seconds)
			low = middle + 1;
		else
			high = middle;
	}
	return judge_seconds(w, &s->samples[low]) - seconds;
}

static void collect(const struct judge_work *w, struct grain_list *list)
{
	double seen = first_seen(w);

	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct rise *rise = largest_of(&w->f->rises[i]);
		double wait = rise ? fmod(wait_of(w, i, seen), w->interval) : 0;

		if (!rise)
			continue;
		list->onsets[list->n] = rise->onset.median;
		list->phases[list->n++] = wait < 0 ? wait + w->interval : wait;
	}
	order_sort(list->onsets, list->n);
	order_sort(list->phases, list->n);
}

/* From moment i of looking to the next one, round the clock. */
static double phase_gap(const struct judge_work *w, const struct grain_list *list, size_t i)
{
	if (i + 1 < list->n)
		return list->phases[i + 1] - list->phases[i];
	return list->phases[0] + w->interval - list->phases[i];
}

/* The part of an interval in which all are looked at. */
static double arc_of(const struct judge_work *w, const struct grain_list *list)
{
	double gap = 0;

	for (size_t i = 0; i < list->n; i++)
		gap = fmax(gap, phase_gap(w, list, i));
	return w->interval - gap;
}

static double count_different(const struct judge_work *w, const struct grain_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += phase_gap(w, list, i) > APART_SHARE * w->interval;
	return (double)n;
}

/*
 * The longest steps with which so many onsets, looked at at different moments, are as close
 * together as those behind the first: n of them are within a share of a step with a probability of
 * n times that share to the power of n - 1.
 */
static double longest_step(const struct judge_work *w, const struct grain_list *list)
{
	double n = count_different(w, list) - 1; /* who is first does not count */

	if (n + 1 < MIN_DIFFERENT)
		return INFINITY;
	return (list->onsets[list->n - 1] - list->onsets[1]) / pow(CHANCE_P / n, 1 / (n - 1));
}

/* How far apart the moments are at which ranks are looked at, as far as is known. */
static double spread_of(const struct judge_work *w, const struct stamps *stamps,
			const struct grain_list *list)
{
	double spread = arc_of(w, list);

	for (size_t i = 0; i < w->a->n_ranks; i++)
		spread = fmax(spread, stamps->units[i]);
	return spread + (w->f->n_clocks > 1 ? 2 * w->f->clock_error : 0);
}

int grain_find(const struct judge_work *w, const struct stamps *stamps, struct grain *ret)
{
	size_t n = w->a->n_ranks + 1;
	CLEANUP(free_ptr) double *rows = calloc(2 * n, sizeof(*rows));
	struct grain_list list = { .onsets = rows };

	*ret = (struct grain){ .longest = INFINITY };
	if (!rows)
		return -ENOMEM;
	list.phases = rows + n;
	if (!(w->interval > 0))
		return 0;
	collect(w, &list);
	if (list.n == 0)
		return 0;
	ret->longest = longest_step(w, &list);
	ret->between = ARC_FACTOR * spread_of(w, stamps, &list);
	return 0;
}

static void blur_rise(struct rise *rise, double before, double after)
{
	double median = rise->onset.median, sd = rise->onset.sd;

	onset_blur(&rise->onset, before, after, STAIRS_SHARE);
	rise->grain += rise->onset.median - median;
	rise->grain_sd += rise->onset.sd - sd;
}

/*
 * Stairs or not, half and half: what was fitted is right, or early by up to a step. Beside coarse
 * timestamps nobody knows which moment that is.
 */
static void blur(struct judge_work *w, const struct stamps *stamps, double from, double to)
{
	for (size_t i = 0; i < w->a->n_ranks; i++)
		for (size_t k = 0; k < w->f->rises[i].n; k++) {
			struct rise *rise = &w->f->rises[i].items[k];
			double after = REACH * (fmin(to, rise->unseen) - fmin(from, rise->unseen));

			if (has_grain(rise))
				blur_rise(rise, STAMP_SHARE * fmin(stamps->units[i], after), after);
		}
}

void grain_blur(struct judge_work *w, const struct stamps *stamps, const struct grain *g)
{
	blur(w, stamps, 0, fmin(g->between, g->longest));
}

void grain_blur_all(struct judge_work *w, const struct stamps *stamps, const struct grain *g)
{
	blur(w, stamps, fmin(g->between, g->longest), g->longest);
}
