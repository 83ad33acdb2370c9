#include "crossrank/seen.h"

#include <math.h>

#define SEEN_INTERVALS 2.0 /* a rise shows so long after it began */
#define HOLE_INTERVALS 5.0 /* no sample for so long: what happened then was not seen */
#define UNPLACED_SHARE 0.5 /* of the first rise: a rank that changed by so much may have risen */

/* How far the clocks of two ranks may be apart. */
static double apart(const struct judge_work *w, size_t rank, const struct candidate *c)
{
	return w->clocks[rank].number == c->clock
		       ? 0
		       : w->clocks[rank].error + w->clocks[c->rank - w->a->ranks].error;
}

/* The number of the first sample that is not before that moment; as many as there are: none. */
static size_t sample_at(const struct judge_work *w, const struct stream *s, double seconds)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (judge_seconds(w, &s->samples[middle]) < seconds)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static double mean_interval(const struct judge_work *w, const struct stream *s)
{
	return (judge_seconds(w, &s->samples[s->n - 1]) - judge_seconds(w, &s->samples[0])) /
	       (double)(s->n - 1);
}

/* Whether the record of a rank, which is none of the members, shows what it did by then. */
static bool covers(const struct judge_work *w, size_t rank, const struct candidate *first)
{
	const struct stream *s = w->a->ranks[rank].total;
	double interval = mean_interval(w, s), slack = apart(w, rank, first);
	double from = first->rise->onset.low - slack;
	double to = first->rise->onset.high + slack + SEEN_INTERVALS * interval;
	size_t before = sample_at(w, s, from), after = sample_at(w, s, to);

	return before > 0 && after < s->n &&
	       judge_seconds(w, &s->samples[after]) - judge_seconds(w, &s->samples[before - 1]) <=
		       to - from + HOLE_INTERVALS * interval;
}

static bool is_member(const struct judge_work *w, const struct judge_outcome *o, size_t rank)
{
	return w->place[rank] > o->from && w->place[rank] <= o->to;
}

/* Too few samples to show a rise, or none around the first onset, or a change nobody can place. */
static bool is_unseen(const struct judge_work *w, const struct judge_outcome *o, size_t i)
{
	const struct rise_list *list = &w->f->rises[i];
	const struct candidate *first = &w->pool[o->best];

	return w->a->ranks[i].total->n < 2 ||
	       judge_seconds(w, &w->a->ranks[i].total->samples[0]) >
		       first->rise->onset.high + apart(w, i, first) ||
	       (!is_member(w, o, i) && !covers(w, i, first)) ||
	       (list->n == 0 && list->range_mib > UNPLACED_SHARE * first->rise->gain_mib);
}

/* A rank that may have risen before the first onset without being seen. */
const struct rank *seen_find_unseen(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (w->pool[i].rise->is_censored)
			return w->pool[i].rank;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (is_unseen(w, o, i))
			return &w->a->ranks[i];
	return NULL;
}
