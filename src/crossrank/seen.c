#include "crossrank/seen.h"

#include <math.h>

#include "crossrank/series.h"

#define SEEN_INTERVALS 2.0  /* a rise shows so long after it began */
#define HOLE_INTERVALS 5.0  /* no sample for so long: what happened then was not seen */
#define LOADED_SHARE 0.5    /* of the first rise: a start-up of so much may be one, too */
#define SOON_INTERVALS 10.0 /* so long behind it, or sooner */
#define SOON_SECONDS 10.0
#define UNPLACED_SHARE 0.5 /* of the first rise: a rank that went up by so much may have risen */
#define HIDDEN_SHARE 1.0   /* the same of one that may have gone up by so much unseen */

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

/* Whether the record of a rank, which is none of the members, shows what it did by then. */
static bool covers(const struct judge_work *w, size_t rank, const struct candidate *first)
{
	const struct stream *s = w->a->ranks[rank].total;
	double interval = w->coverage[rank].interval, slack = apart(w, rank, first);
	double from = first->rise->onset.low - slack;
	double to = first->rise->onset.high + slack + SEEN_INTERVALS * interval;
	size_t before = sample_at(w, s, from), after = sample_at(w, s, to);

	return before > 0 && after < s->n &&
	       judge_seconds(w, &s->samples[after]) - judge_seconds(w, &s->samples[before - 1]) <=
		       to - from + HOLE_INTERVALS * interval;
}

/* ---- who had ended by then ---- */

static bool has_ended_before(const struct judge_work *w, const struct rank_end *end,
			     const struct candidate *first)
{
	const struct identity *ids = w->a->telemetry->identities;
	const struct identity *of_first = &ids[first->rank->total->samples[0].identity];
	double seconds = (double)(end->timestamp_ns - w->f->origin_ns) / 1e9;

	return seconds + clocks_between(&ids[end->identity], of_first, w->assumed_ns) <
	       first->rise->onset.low;
}

/* Whether more than that was held by it at some time: between two samples, or before the first. */
static bool has_held_more(const struct rank_end *end, int64_t most_bytes,
			  const struct candidate *first)
{
	return ((double)end->peak_bytes - (double)most_bytes) / SERIES_BYTES_PER_MIB >
	       UNPLACED_SHARE * first->rise->gain_mib;
}

/* Whether all of its life is in its record, and was over before the first onset. */
static bool has_ended_quietly(const struct judge_work *w, size_t rank,
			      const struct candidate *first)
{
	const struct stream *s = w->a->ranks[rank].total;
	const struct rank_end *end = telemetry_find_end(w->a->telemetry, w->a->ranks[rank].rank);
	int64_t last_ns = s->samples[s->n - 1].timestamp_ns, most_bytes = 0;

	if (!end || end->timestamp_ns < last_ns ||
	    (double)(end->timestamp_ns - last_ns) / 1e9 > HOLE_INTERVALS * w->interval ||
	    !has_ended_before(w, end, first))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->samples[i].used_bytes > most_bytes)
			most_bytes = s->samples[i].used_bytes;
	return !has_held_more(end, most_bytes, first);
}

static bool has_samples(const struct judge_work *w, int64_t rank)
{
	size_t low = 0, high = w->a->n_ranks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (w->a->ranks[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->a->n_ranks && w->a->ranks[low].rank == rank;
}

uint64_t seen_count_ended(const struct judge_work *w, const struct judge_outcome *o)
{
	const struct candidate *first = &w->pool[o->best];
	const struct telemetry *t = w->a->telemetry;
	uint64_t n = 0;

	for (size_t i = 0; i < t->n_ends; i++) {
		const struct rank_end *end = &t->ends[i];
		bool is_last = i + 1 == t->n_ends || end[1].rank != end->rank;

		n += is_last && end->rank < w->a->world_size && !has_samples(w, end->rank) &&
		     has_ended_before(w, end, first) && !has_held_more(end, 0, first);
	}
	return n;
}

/* ---- who was not seen ---- */

static bool is_member(const struct judge_work *w, const struct judge_outcome *o, size_t rank)
{
	return w->place[rank] > o->from && w->place[rank] <= o->to;
}

/* What the rises of a rank that count in this episode account for. */
static double placed_mib(const struct judge_work *w, const struct judge_outcome *o, size_t i)
{
	const struct candidate *c;

	if (!is_member(w, o, i))
		return 0;
	c = &w->pool[w->place[i] - 1];
	return fmax(c->rise->gain_mib, c->main ? c->main->gain_mib : 0);
}

/*
 * Whether a rank may have gained as much as the first one for good, and no rise of it says when:
 * it scatters too much to show one, or its memory is a saw, whose teeth are none.
 */
static bool is_unplaced(const struct judge_work *w, const struct judge_outcome *o, size_t i)
{
	const struct rise_list *list = &w->f->rises[i];
	const struct candidate *first = &w->pool[o->best];
	double gain = first->rise->gain_mib, placed = placed_mib(w, o, i);

	if ((list->n > 0 && !list->is_sawtooth) || first->rank == &w->a->ranks[i])
		return false;
	return (list->n == 0 && list->climb_mib > UNPLACED_SHARE * gain) ||
	       list->sure_mib - placed > UNPLACED_SHARE * gain ||
	       list->hidden_mib - placed > HIDDEN_SHARE * gain;
}

/* Too few samples to show a rise, or none around the first onset, or a change nobody can place. */
static bool is_unseen(const struct judge_work *w, const struct judge_outcome *o, size_t i)
{
	const struct candidate *first = &w->pool[o->best];

	if (is_unplaced(w, o, i))
		return true;
	if (!is_member(w, o, i) && has_ended_quietly(w, i, first))
		return false;
	return w->a->ranks[i].total->n < 2 ||
	       judge_seconds(w, &w->a->ranks[i].total->samples[0]) >
		       first->rise->onset.high + apart(w, i, first) ||
	       (!is_member(w, o, i) && !covers(w, i, first));
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

/* Whether the first has what the other loaded; it may have loaded before its record begins. */
static bool has_loaded(const struct rise_list *first, const struct rise_list *other)
{
	double enough = LOADED_SHARE * other->loaded_mib;

	return first->loaded_mib >= enough || fabs(first->rested_mib - other->rested_mib) <= enough;
}

static bool may_be_load(const struct judge_work *w, const struct candidate *first, size_t i)
{
	const struct rise_list *list = &w->f->rises[i];
	const struct rise_list *of_first = &w->f->rises[first->rank - w->a->ranks];
	double soon = fmax(SOON_SECONDS, SOON_INTERVALS * w->interval) + apart(w, i, first);

	return list->loaded_mib > 0 && list->loaded_mib >= LOADED_SHARE * first->rise->gain_mib &&
	       list->loaded_until + soon >= first->rise->onset.low && !has_loaded(of_first, list);
}

const struct rank *seen_find_loaded(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (may_be_load(w, &w->pool[o->best], i))
			return &w->a->ranks[i];
	return NULL;
}
