#include "crossrank/refill.h"

#include <math.h>

#include "base/macros.h"

#define MORE_SHARE 0.2	   /* of its gain: so much above the old level is more than a refill */
#define BETWEEN_POINTS 2   /* so few on the way down are part of it */
#define REST_INTERVALS 3.0 /* at the low, whatever the way up takes */

/* The fall before a run: moves [first, last] and how much went with them; 0: there is none. */
struct fall {
	size_t first, last;
	double lost;
};

static bool is_level(const struct series *s, size_t i)
{
	return fabs(series_move(s, i).gain) < SERIES_LEVEL_SIGMAS * s->sigma;
}

static bool is_up(const struct series *s, size_t i)
{
	return series_move(s, i).gain > 0 && !is_level(s, i);
}

static bool is_short(const struct series *s, size_t i)
{
	const struct segment *part = &s->segments[i / 2];

	return i % 2 == 1 || part->to - part->from <= BETWEEN_POINTS;
}

static struct fall find_fall(const struct series *s, size_t behind)
{
	struct fall fall = { .lost = 0 };
	size_t i = behind;

	while (i > 0 && is_level(s, i - 1))
		i--;
	fall.last = i > 0 ? i - 1 : 0;
	fall.first = i;
	for (; i > 0 && is_short(s, i - 1) && !is_up(s, i - 1); i--) {
		fall.lost -= series_move(s, i - 1).gain;
		fall.first = i - 1;
	}
	return fall;
}

/* Whether the last of n runs was still there, or most of it, when memory fell. */
static bool takes_last(const struct series *s, const struct run *runs, size_t n, struct fall fall)
{
	double before = 0;

	if (n == 0)
		return false;
	for (size_t i = runs[n - 1].last + 1; i < fall.first; i++)
		before -= series_move(s, i).gain;
	return before < (1 - MORE_SHARE) * runs[n - 1].gain;
}

static bool is_refill(const struct series *s, const struct run_list *kept, const struct run *run,
		      struct fall fall)
{
	double began = series_move(s, run->first).from, up = series_move(s, run->last).to - began;
	double rest = began - series_move(s, fall.last).to;
	double more = fmin(MORE_SHARE * run->gain, s->min_rise); /* that alone would be a rise */
	double slack = fmax(more, SERIES_LEVEL_SIGMAS * s->sigma);

	return fall.lost >= s->min_rise && run->gain - fall.lost <= slack &&
	       rest <= fmax(up, REST_INTERVALS * (s->t[1] - s->t[0])) &&
	       !takes_last(s, kept->items, kept->n, fall);
}

void refill_drop(struct series *s, struct run_list *runs)
{
	bool is_passing[ARRAY_SIZE(s->is_passing)] = {
		false
	}; /* all are asked before any counts */
	size_t n = runs->n;

	runs->n = 0;
	for (size_t i = 0; i < n; i++) {
		struct run run = runs->items[i];
		struct fall fall = find_fall(s, run.first);

		if (!is_refill(s, runs, &run, fall)) {
			runs->items[runs->n++] = run;
			continue;
		}
		for (size_t k = fall.first; k <= run.last; k++)
			is_passing[k] = true;
	}
	for (size_t k = 0; k < series_count_moves(s); k++)
		s->is_passing[k] |= is_passing[k];
}
