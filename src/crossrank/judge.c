#include "crossrank/judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/seen.h"
#include "stats/noise.h"

#define N_DRAWS 20000
#define ALL_SHARE 0.8	    /* so many of the ranks are as good as all */
#define EQUAL_P 0.01	    /* likelier than this: they began together */
#define ALIGNED_P 0.05	    /* the same for onsets after each rank's own start */
#define NEAR_MARKER_S 0.5   /* before and after an operation, whatever the samples */
#define MAX_SPREAD_S 2.0    /* an onset and its clock no better known: together or not */
#define SHOWN_LEAD_S 1.0    /* or an interval: nobody led only where such a lead would show */
#define LIKE_GAIN_SHARE 0.1 /* of the first large rise: a smaller one before it is like it */
#define LIKE_SHARE 0.5	    /* or of what that one gained in the same time */
#define MIN_ALIGNED 3
#define BORN_SHARE 0.5 /* of a lead: who started so much before the others may owe it to that */

static const struct rank_clock *clock_of(const struct judge_work *w, const struct candidate *c)
{
	return &w->clocks[c->rank - w->a->ranks];
}

static bool is_all(const struct judge_work *w, const struct judge_outcome *o)
{
	return (double)(o->to - o->from) >= ALL_SHARE * (double)w->a->n_ranks;
}

static struct first_entry entry_of(const struct judge_work *w, const struct candidate *c,
				   bool is_main)
{
	return (struct first_entry){ is_main ? &c->main->onset : &c->rise->onset, c->clock,
				     clock_of(w, c)->error };
}

typedef double rise_time_fn(const struct rise *rise);

static double start_of(const struct rise *rise)
{
	return rise->start;
}

static double born_of(const struct rise *rise)
{
	return rise->born;
}

static double onset_of(const struct rise *rise)
{
	return rise->onset.median;
}

/* How likely they began together, each moved so that its time of that kind is zero; NULL: none is.
 */
static int moved_p(const struct judge_work *w, const struct judge_outcome *o, rise_time_fn *zero,
		   double *ret)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct onset *moved = calloc(n, sizeof(*moved));
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));

	if (!moved || !entries)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &w->pool[o->from + i];

		moved[i] = c->rise->onset;
		moved[i].median -= zero ? zero(c->rise) : 0;
		/* A process starts up to one interval before its first sample. */
		moved[i].sd = hypot(moved[i].sd, w->interval / sqrt(12));
		entries[i] = (struct first_entry){ &moved[i], 0, 0 };
	}
	*ret = onset_equal_p(entries, n);
	return 0;
}

/* By how much the likeliest first one is before the median of the others. */
static int lead_in(const struct judge_work *w, const struct judge_outcome *o, rise_time_fn *time,
		   double *ret)
{
	size_t n = 0;
	CLEANUP(free_ptr) double *others = calloc(o->to - o->from, sizeof(*others));

	if (!others)
		return -ENOMEM;
	for (size_t i = o->from; i < o->to; i++)
		if (i != o->best)
			others[n++] = time(w->pool[i].rise);
	*ret = noise_median(others, n) - time(w->pool[o->best].rise);
	return 0;
}

/*
 * A record may begin long after its program, as that of GPU memory does: whose record began as much
 * before as it rose, but not its program, did both first.
 */
static int is_born_before(const struct judge_work *w, const struct judge_outcome *o, bool *ret)
{
	double born = 0, lead = 0;
	int r = lead_in(w, o, born_of, &born);

	if (r == 0)
		r = lead_in(w, o, onset_of, &lead);
	*ret = born >= BORN_SHARE * lead;
	return r;
}

/*
 * Whether they began together after each one's own start, be it that of its program or of its
 * record, and not together otherwise.
 */
static int follows_start(const struct judge_work *w, const struct judge_outcome *o, bool *ret)
{
	double from_start = 0, from_birth = 0, unmoved = 1;
	int r = 0;

	*ret = false;
	if (!is_all(w, o) || o->to - o->from < MIN_ALIGNED)
		return 0;
	r = moved_p(w, o, start_of, &from_start);
	if (r == 0)
		r = moved_p(w, o, born_of, &from_birth);
	if (r == 0)
		r = moved_p(w, o, NULL, &unmoved);
	*ret = r == 0 && fmax(from_start, from_birth) >= ALIGNED_P && unmoved < EQUAL_P;
	return r;
}

/* Whether all of it lies around the moment of one operation. */
static bool is_near(const struct judge_work *w, const struct judge_outcome *o, int64_t marker_ns)
{
	double at = (double)(marker_ns - w->f->origin_ns) / 1e9;

	for (size_t i = o->from; i < o->to; i++) {
		const struct onset *onset = &w->pool[i].rise->onset;

		if (onset->low < at - NEAR_MARKER_S || onset->high > at + NEAR_MARKER_S)
			return false;
	}
	return true;
}

/* Around one and the same operation: one here and one there explain nothing. */
static bool is_collective(const struct judge_work *w, const struct judge_outcome *o)
{
	const struct onset *first = &w->pool[o->from].rise->onset;
	const struct telemetry *t = w->a->telemetry;
	int64_t from = finding_ns(w->f, first->low - NEAR_MARKER_S);
	int64_t to = finding_ns(w->f, first->high + NEAR_MARKER_S);

	for (size_t i = telemetry_find_marker(t, from);
	     i < t->n_markers && t->markers[i].timestamp_ns <= to; i++)
		if (is_near(w, o, t->markers[i].timestamp_ns))
			return true;
	return false;
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

static bool has_no_order(const struct judge_work *w, const struct candidate *a,
			 const struct candidate *b)
{
	return a->clock != b->clock && (clock_of(w, a)->is_free || clock_of(w, b)->is_free);
}

/* Any rise on another clock may have been at the same time, wherever it seems to be. */
static const struct rank *find_free_clock(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		for (size_t k = 0; k < w->n_all; k++)
			if (has_no_order(w, &w->pool[i], &w->all[k]))
				return clock_of(w, &w->all[k])->is_free ? w->all[k].rank
									: w->pool[i].rank;
	return NULL;
}

static bool all_censored(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (!w->pool[i].rise->is_censored)
			return false;
	return true;
}

/* ---- who was first ---- */

/* The draw among those that have a rise of that kind; returns the likeliest. */
static int draw_first(struct judge_work *w, const struct judge_outcome *o, bool is_main, double *p,
		      size_t *ret_best)
{
	size_t n = 0, best = 0;
	CLEANUP(free_ptr) struct first_entry *entries = calloc(o->to - o->from, sizeof(*entries));
	CLEANUP(free_ptr) size_t *places = calloc(o->to - o->from, sizeof(*places));
	int r;

	if (!entries || !places)
		return -ENOMEM;
	for (size_t i = o->from; i < o->to; i++)
		if (!is_main || w->pool[i].main) {
			entries[n] = entry_of(w, &w->pool[i], is_main);
			places[n++] = i;
		}
	r = onset_first(entries, n, w->f->n_clocks, N_DRAWS, p);
	for (size_t i = 1; i < n; i++)
		best = p[i] > p[best] ? i : best;
	*ret_best = places[best];
	return r;
}

static double seconds_of(const struct rise *rise)
{
	return fmax(rise->end - rise->onset.median, 0);
}

/*
 * Whether the smaller first rise is like the large one that begins first: cut short, and not
 * another thing, which was given back before.
 */
static bool is_like(const struct judge_work *w, const struct rise *small, const struct rise *large)
{
	double seconds = seconds_of(small) + w->interval;
	double by_then = isnan(large->slope) ? large->gain_mib
					     : fmin(large->slope * seconds, large->gain_mib);

	return small->gone > large->onset.median &&
	       small->gain_mib >= fmin(LIKE_GAIN_SHARE * large->gain_mib, LIKE_SHARE * by_then);
}

/* The first rise is a small one: it may stand for the rest, or its rank leads without it, too. */
static int weigh_small(struct judge_work *w, struct judge_outcome *o)
{
	CLEANUP(free_ptr) double *p = calloc(o->to - o->from, sizeof(*p));
	size_t best;
	int r = p ? draw_first(w, o, true, p, &best) : -ENOMEM;

	if (r < 0)
		return r;
	if (best != o->best && !is_like(w, w->pool[o->best].rise, w->pool[best].main))
		*o = cannot_tell(*o, WHY_SMALL, NULL);
	return 0;
}

/* Where the samples and clocks could hide a lead, nobody knows that there was none. */
static bool is_bounded(const struct first_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (entries[i].onset->high - entries[i].onset->low + 2 * entries[i].clock_error >
		    MAX_SPREAD_S)
			return false;
	return true;
}

/*
 * Whether all but the first began together by the clock: then nothing but that one's own start
 * tells them apart, which may be chance.
 */
static bool are_together(const struct first_entry *others, size_t n)
{
	return n > 1 && onset_equal_p(others, n) >= EQUAL_P;
}

/* Out of n entries; the others are the n - 1 that are left. */
static struct first_entry take_first(struct first_entry *entries, size_t n, size_t first)
{
	struct first_entry taken = entries[first];

	entries[first] = entries[n - 1];
	return taken;
}

/* Whether the first one would be told from them, had it led by so much more. */
static bool shows_lead(const struct judge_work *w, const struct first_entry *first,
		       const struct first_entry *others, size_t n)
{
	return onset_behind_p(first, fmax(w->interval, SHOWN_LEAD_S), others, n) < EQUAL_P;
}

/* What the numbers of several rises say. */
struct numbers {
	bool is_sure;	/* who was first */
	bool is_equal;	/* they may have begun together */
	bool is_shared; /* they did: nobody's lead is hidden */
	bool is_start;	/* each began as long after its own start */
	bool is_of_one; /* all but the first began together by the clock, too */
	bool is_born;	/* its program had that lead, too */
};

static void compare(const struct judge_work *w, const struct judge_outcome *o,
		    struct first_entry *entries, struct numbers *ret)
{
	size_t n = o->to - o->from;
	bool is_known = is_all(w, o) && is_bounded(entries, n);
	double equal = onset_equal_p(entries, n);
	struct first_entry first = take_first(entries, n, o->best - o->from);

	equal = fmin(equal, (double)n * onset_behind_p(&first, 0, entries, n - 1));
	ret->is_sure = w->pool[o->best].probability >= FINDING_NAMED;
	ret->is_equal = equal >= EQUAL_P;
	ret->is_shared =
		ret->is_equal && is_known && !ret->is_sure && shows_lead(w, &first, entries, n - 1);
	ret->is_of_one = are_together(entries, n - 1);
}

static int find_numbers(const struct judge_work *w, const struct judge_outcome *o,
			struct numbers *ret)
{
	size_t n = o->to - o->from;
	CLEANUP(free_ptr) struct first_entry *entries = calloc(n, sizeof(*entries));
	int r = entries ? follows_start(w, o, &ret->is_start) : -ENOMEM;

	if (r == 0)
		r = is_born_before(w, o, &ret->is_born);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		entries[i] = entry_of(w, &w->pool[o->from + i], false);
	compare(w, o, entries, ret);
	return 0;
}

/* What several rises together are, by the numbers alone. */
static int classify(struct judge_work *w, struct judge_outcome *o)
{
	struct numbers numbers = { 0 };
	int r = find_numbers(w, o, &numbers);

	if (r < 0)
		return r;
	if (numbers.is_shared)
		*o = none(*o, WHY_SHARED);
	else if (is_all(w, o) && is_collective(w, o))
		*o = none(*o, WHY_COLLECTIVE);
	else if (numbers.is_start && !numbers.is_of_one)
		*o = none(*o, WHY_START);
	else if (numbers.is_start && numbers.is_born)
		*o = cannot_tell(*o, WHY_OWN_START, NULL);
	else if (numbers.is_equal || !numbers.is_sure)
		*o = cannot_tell(*o, WHY_TOO_CLOSE, NULL);
	else
		*o = named(*o, WHY_FIRST);
	return 0;
}

/* Several ranks rose. */
static int weigh(struct judge_work *w, struct judge_outcome *o)
{
	CLEANUP(free_ptr) double *p = calloc(o->to - o->from, sizeof(*p));
	int r = p ? draw_first(w, o, false, p, &o->best) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t i = o->from; i < o->to; i++)
		w->pool[i].probability = p[i - o->from];
	r = classify(w, o);
	if (r == 0 && o->verdict == VERDICT_NAMED && w->pool[o->best].rise != w->pool[o->best].main)
		r = weigh_small(w, o);
	return r;
}

/* Nobody saw any of them begin: the workload's if that is as long after each one's own start. */
static int weigh_censored(const struct judge_work *w, struct judge_outcome *o)
{
	double moved;
	int r = moved_p(w, o, start_of, &moved);

	if (r < 0)
		return r;
	*o = moved >= ALIGNED_P ? none(*o, WHY_START)
				: cannot_tell(*o, WHY_UNSEEN, w->pool[o->from].rank);
	return 0;
}

/* What keeps a rank from being named: another that nobody saw. */
static void look_for_unseen(const struct judge_work *w, struct judge_outcome *o)
{
	const struct rank *unseen, *loaded;

	bool is_missing = w->a->n_missing_all > seen_count_ended(w, o);

	if (is_missing && o->verdict == VERDICT_NONE && o->why == WHY_SHARED)
		*o = cannot_tell(*o, WHY_MISSING, NULL); /* who led may be among them */
	if (o->verdict != VERDICT_NAMED)
		return;
	unseen = seen_find_unseen(w, o);
	loaded = seen_find_loaded(w, o);
	if (unseen)
		*o = cannot_tell(*o, WHY_UNSEEN, unseen);
	else if (loaded)
		*o = cannot_tell(*o, WHY_LOADED, loaded);
	else if (is_missing)
		*o = cannot_tell(*o, WHY_MISSING, NULL);
}

int judge_episode(struct judge_work *w, size_t from, size_t to, struct judge_outcome *ret)
{
	struct judge_outcome o = { .from = from, .to = to, .best = from };
	const struct rank *free_clock = find_free_clock(w, &o);
	int r = 0;

	for (size_t i = from; i < to; i++)
		w->pool[i].probability = to - from == 1 ? 1 : NAN;
	if (all_censored(w, &o) && is_all(w, &o))
		r = weigh_censored(w, &o);
	else if (w->a->n_ranks == 1)
		o = cannot_tell(o, WHY_ONE_RANK, NULL);
	else if (free_clock)
		o = cannot_tell(o, WHY_CLOCKS, free_clock);
	else if (to - from == 1)
		o = named(o, WHY_ALONE);
	else
		r = weigh(w, &o);
	look_for_unseen(w, &o);
	*ret = o;
	return r;
}
