#include "crossrank/judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/seen.h"
#include "crossrank/together.h"

#define MAX_DRAWS 20000
#define MIN_DRAWS 2000
#define MAX_DRAWN 4000000   /* onsets: of thousands of ranks fewer are enough */
#define LIKE_GAIN_SHARE 0.1 /* of the first large rise: a smaller one before it is like it */
#define LIKE_SHARE 0.5	    /* or of what that one gained in the same time */
#define MAX_LATE_P 0.01	    /* less likely the first is not one that may be */

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
	return a->clock != b->clock && (judge_clock(w, a)->is_free || judge_clock(w, b)->is_free);
}

/* Any rise on another clock may have been at the same time, wherever it seems to be. */
static const struct rank *find_free_clock(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		for (size_t k = 0; k < w->n_all; k++)
			if (has_no_order(w, &w->pool[i], &w->all[k]))
				return judge_clock(w, &w->all[k])->is_free ? w->all[k].rank
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

static unsigned count_draws(size_t n)
{
	size_t most = MAX_DRAWN / (n + 1);

	return most > MAX_DRAWS ? MAX_DRAWS : most < MIN_DRAWS ? MIN_DRAWS : (unsigned)most;
}

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
			entries[n] = judge_entry(w, &w->pool[i], is_main);
			places[n++] = i;
		}
	r = onset_first(entries, n, w->f->n_clocks, count_draws(n), p);
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

/* Before its large rise began. */
static bool is_given_back(const struct candidate *c)
{
	return c->rise->gone <= c->main->onset.median;
}

/* The first rise is a small one: it may stand for the rest, or its rank leads without it, too. */
static int weigh_small(struct judge_work *w, struct judge_outcome *o, bool *ret_leads_without)
{
	CLEANUP(free_ptr) double *p = calloc(o->to - o->from, sizeof(*p));
	double likeliest = 0;
	size_t best;
	int r = p ? draw_first(w, o, true, p, &best) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t i = 0; i < o->to - o->from; i++)
		likeliest = fmax(likeliest, p[i]);
	if (is_like(w, w->pool[o->best].rise, w->pool[best].main))
		return 0;
	if (best != o->best || likeliest < FINDING_NAMED)
		*o = cannot_tell(*o, WHY_SMALL, NULL);
	else
		*ret_leads_without = is_given_back(&w->pool[best]);
	return 0;
}

/* What several rises together are, by the numbers alone. */
static int classify(struct judge_work *w, struct judge_outcome *o)
{
	struct together together = { 0 };
	int r = together_find(w, o, &together);

	if (r < 0)
		return r;
	o->lead_below = together.lead_below;
	if (together.is_shared)
		*o = none(*o, WHY_SHARED);
	else if (together_is_all(w, o) && together_is_collective(w, o))
		*o = none(*o, WHY_COLLECTIVE);
	else if (together.is_start && !together.is_of_one)
		*o = none(*o, WHY_START);
	else if (together.is_start && together.is_born)
		*o = cannot_tell(*o, WHY_OWN_START, NULL);
	else if (together.is_equal || !together.is_sure)
		*o = cannot_tell(*o, WHY_TOO_CLOSE, NULL);
	else if (together.is_ordered)
		*o = cannot_tell(*o, WHY_IN_ORDER, NULL);
	else
		*o = named(*o, WHY_FIRST);
	return 0;
}

/*
 * Nobody knows which was first, but all that can have been are small, and the large one came later:
 * that order would settle nothing.
 */
static void look_for_late(const struct judge_work *w, struct judge_outcome *o)
{
	const struct candidate *best = &w->pool[o->best], *large = NULL;
	double p = 0;

	for (size_t i = o->from; i < o->to; i++) {
		const struct candidate *c = &w->pool[i];

		p += c->main == c->rise ? c->probability : 0;
		if (c->main && (!large || c->main->onset.median < large->main->onset.median))
			large = c;
	}
	if (large && p < MAX_LATE_P && !is_like(w, best->rise, large->main))
		*o = cannot_tell(*o, WHY_SMALL, NULL);
}

/* By the rises that the members have now; *ret_leads_without: the first one is to be passed over.
 */
static int weigh_rises(struct judge_work *w, struct judge_outcome *o, bool *ret_leads_without)
{
	CLEANUP(free_ptr) double *p = calloc(o->to - o->from, sizeof(*p));
	int r = p ? draw_first(w, o, false, p, &o->best) : -ENOMEM;

	*ret_leads_without = false;
	if (r < 0)
		return r;
	for (size_t i = o->from; i < o->to; i++)
		w->pool[i].probability = p[i - o->from];
	r = classify(w, o);
	if (r == 0 && o->why == WHY_TOO_CLOSE)
		look_for_late(w, o);
	if (r == 0 && o->verdict == VERDICT_NAMED && w->pool[o->best].rise != w->pool[o->best].main)
		r = weigh_small(w, o, ret_leads_without);
	return r;
}

/* Several ranks rose. Of one that leads without what it gave back the large rise is the onset. */
static int weigh(struct judge_work *w, struct judge_outcome *o)
{
	bool leads_without;
	int r = weigh_rises(w, o, &leads_without);

	if (r < 0 || !leads_without)
		return r;
	w->pool[o->best].rise = w->pool[o->best].main;
	return weigh_rises(w, o, &leads_without);
}

/* Nobody saw any of them begin: the workload's if that is as long after each one's own start. */
static int weigh_censored(const struct judge_work *w, struct judge_outcome *o)
{
	bool is_start;
	int r = together_since_start(w, o, &is_start);

	if (r < 0)
		return r;
	*o = is_start ? none(*o, WHY_START) : cannot_tell(*o, WHY_UNSEEN, w->pool[o->from].rank);
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
	if (all_censored(w, &o) && together_is_all(w, &o))
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
