#include "crossrank/judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

#define N_DRAWS 20000
#define ALL_SHARE 0.8  /* so many of the ranks are as good as all */
#define EQUAL_P 0.01   /* likelier than this: they began together */
#define ALIGNED_P 0.05 /* the same for onsets after each rank's own start */
#define NEAR_MARKER_S 0.15
#define MIN_ALIGNED 3
#define UNPLACED_SHARE 0.5 /* of the first rise: a rank that changed by so much may have risen */

static const struct rank_clock *clock_of(const struct judge_work *w, const struct candidate *c)
{
	return &w->clocks[c->rank - w->a->ranks];
}

static bool is_all(const struct judge_work *w, const struct judge_outcome *o)
{
	return (double)(o->to - o->from) >= ALL_SHARE * (double)w->a->n_ranks;
}

/* The first of a rank's samples, in seconds after the origin. */
static double start_of(const struct judge_work *w, const struct rank *rank)
{
	return (double)(rank->stream->samples[0].timestamp_ns - w->f->origin_ns) / 1e9;
}

static void fill_entries(const struct judge_work *w, const struct judge_outcome *o,
			 struct first_entry *ret)
{
	for (size_t i = o->from; i < o->to; i++)
		ret[i - o->from] = (struct first_entry){ &w->all[i].rise->onset, w->all[i].clock,
							 clock_of(w, &w->all[i])->error };
}

/* By how much each rank is moved for its start to be at zero; nothing if it is not moved. */
static int moved_p(const struct judge_work *w, const struct judge_outcome *o, bool is_moved,
		   double *ret)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct onset *moved = calloc(n, sizeof(*moved));
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));

	if (!moved || !entries)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &w->all[o->from + i];

		moved[i] = c->rise->onset;
		moved[i].median -= is_moved ? start_of(w, c->rank) : 0;
		/* A process starts up to one interval before its first sample. */
		moved[i].sd = hypot(moved[i].sd, w->interval / sqrt(12));
		entries[i] = (struct first_entry){ &moved[i], 0, 0 };
	}
	*ret = onset_equal_p(entries, n);
	return 0;
}

/* Whether they began together after each one's own start, and not together otherwise. */
static int follows_start(const struct judge_work *w, const struct judge_outcome *o, bool *ret)
{
	double moved = 0, unmoved = 1;
	int r = 0;

	*ret = false;
	if (!is_all(w, o) || o->to - o->from < MIN_ALIGNED)
		return 0;
	r = moved_p(w, o, true, &moved);
	if (r == 0)
		r = moved_p(w, o, false, &unmoved);
	*ret = r == 0 && moved >= ALIGNED_P && unmoved < EQUAL_P;
	return r;
}

static bool is_near_marker(const struct judge_work *w, const struct rise *rise)
{
	double reach = fmax(NEAR_MARKER_S, w->interval);

	return telemetry_has_marker(w->a->telemetry, finding_ns(w->f, rise->onset.low - reach),
				    finding_ns(w->f, rise->onset.high + reach));
}

static bool all_near_markers(const struct judge_work *w, const struct judge_outcome *o)
{
	if (w->a->telemetry->n_markers == 0)
		return false;
	for (size_t i = o->from; i < o->to; i++)
		if (!is_near_marker(w, w->all[i].rise))
			return false;
	return true;
}

/* ---- what an episode says ---- */

static struct judge_outcome none(struct judge_outcome o, enum why why)
{
	o.verdict = VERDICT_NONE;
	o.why = why;
	return o;
}

static struct judge_outcome cannot_tell(struct judge_outcome o, enum why why,
					const struct rank *unseen)
{
	o.verdict = VERDICT_CANNOT_TELL;
	o.why = why;
	o.unseen = unseen;
	return o;
}

static struct judge_outcome named(struct judge_outcome o, enum why why)
{
	o.verdict = VERDICT_NAMED;
	o.why = why;
	return o;
}

/* Too few samples to show a rise, or all of them after the first onset, or a change nobody can
 * place. */
static bool is_unseen(const struct judge_work *w, size_t i, const struct rise *first)
{
	const struct rise_list *list = &w->f->rises[i];

	return w->a->ranks[i].stream->n < 2 ||
	       start_of(w, &w->a->ranks[i]) > first->onset.high + w->clocks[i].error ||
	       (list->n == 0 && list->range_mib > UNPLACED_SHARE * first->gain_mib);
}

/* A rank that may have risen before the first onset without being seen. */
static const struct rank *find_unseen(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (w->all[i].rise->is_censored)
			return w->all[i].rank;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (is_unseen(w, i, w->all[o->from].rise))
			return &w->a->ranks[i];
	return NULL;
}

static const struct rank *find_free_clock(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (clock_of(w, &w->all[i])->is_free && w->all[i].clock != w->all[o->from].clock)
			return w->all[i].rank;
	for (size_t i = o->from; i < o->to; i++)
		if (clock_of(w, &w->all[o->from])->is_free &&
		    w->all[i].clock != w->all[o->from].clock)
			return w->all[o->from].rank;
	return NULL;
}

static bool all_censored(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (!w->all[i].rise->is_censored)
			return false;
	return true;
}

/* By the numbers alone; several ranks rose. */
static int weigh(struct judge_work *w, struct judge_outcome *o)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));
	CLEANUP(free_ptr) double *p = calloc(n, sizeof(*p));
	bool is_start = false;
	double equal;
	int r;

	if (!entries || !p)
		return -ENOMEM;
	fill_entries(w, o, entries);
	r = onset_first(entries, n, w->f->n_clocks, N_DRAWS, p);
	if (r == 0)
		r = follows_start(w, o, &is_start);
	if (r < 0)
		return r;
	o->best = o->from;
	for (size_t i = 0; i < n; i++) {
		w->all[o->from + i].probability = p[i];
		if (p[i] > w->all[o->best].probability)
			o->best = o->from + i;
	}
	equal = onset_equal_p(entries, n);
	if (is_all(w, o) && equal >= EQUAL_P)
		*o = none(*o, WHY_SHARED);
	else if (is_all(w, o) && all_near_markers(w, o))
		*o = none(*o, WHY_COLLECTIVE);
	else if (is_start)
		*o = none(*o, WHY_START);
	else if (equal >= EQUAL_P || w->all[o->best].probability < FINDING_NAMED)
		*o = cannot_tell(*o, WHY_TOO_CLOSE, NULL);
	else
		*o = named(*o, WHY_FIRST);
	return 0;
}

int judge_episode(struct judge_work *w, size_t from, size_t to, struct judge_outcome *ret)
{
	struct judge_outcome o = { .from = from, .to = to, .best = from };
	const struct rank *unseen = find_unseen(w, &o), *free_clock = find_free_clock(w, &o);
	int r = 0;

	for (size_t i = from; i < to; i++)
		w->all[i].probability = to - from == 1 ? 1 : NAN;
	if (all_censored(w, &o) && is_all(w, &o))
		o = none(o, WHY_START);
	else if (w->a->n_ranks == 1)
		o = cannot_tell(o, WHY_ONE_RANK, NULL);
	else if (free_clock)
		o = cannot_tell(o, WHY_CLOCKS, free_clock);
	else if (to - from == 1 && !unseen)
		o = named(o, WHY_ALONE);
	else if (to - from > 1)
		r = weigh(w, &o);
	if (unseen && o.verdict == VERDICT_NAMED)
		o = cannot_tell(o, WHY_UNSEEN, unseen);
	*ret = o;
	return r;
}
