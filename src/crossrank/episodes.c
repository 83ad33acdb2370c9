#include "crossrank/episodes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/gather.h"
#include "crossrank/related.h"
#include "crossrank/starts.h"
#include "crossrank/together.h"

#define MIN_EPISODE_SHARE 0.5 /* of the largest that is no workload: smaller ones do not count */
#define EQUAL_FACTOR 1.25     /* between what is gained twice in the same way */
#define MIN_COMMON_SHARE 0.5  /* of the ranks: fewer in both, and they are other ranks' */

/* ---- which one counts ---- */

struct episodes {
	const struct judge_work *w;
	struct judge_outcome *items; /* by time */
	size_t n;
	bool *is_explained; /* by number of the rank */
};

/* Of each rank in it, on average: who leads is alone, and those who follow are many. What most do
 * in small makes nothing of it smaller. */
static double gain_of(const struct judge_work *w, const struct judge_outcome *o)
{
	double gain = 0;
	size_t n = 0;

	for (size_t i = o->from; i < o->to; i++) {
		const struct candidate *c = &w->pool[i];

		if (c->is_shared)
			continue;
		gain += fmax(c->rise->gain_mib, c->main ? c->main->gain_mib : 0);
		n++;
	}
	return gain / (double)n;
}

/* Whether any of it was still there at the peak. */
static bool leads_to_peak(const struct judge_work *w, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		if (w->pool[i].rise->onset.median <= w->peak && w->pool[i].rise->gone > w->peak)
			return true;
	return false;
}

static double largest_gain(const struct episodes *e, bool on_the_way)
{
	double largest = 0;

	for (size_t i = 0; i < e->n; i++)
		if (e->items[i].verdict != VERDICT_NONE &&
		    leads_to_peak(e->w, &e->items[i]) == on_the_way)
			largest = fmax(largest, gain_of(e->w, &e->items[i]));
	return largest;
}

static void explain(struct episodes *e, const struct judge_outcome *o)
{
	for (size_t i = o->from; i < o->to; i++)
		e->is_explained[e->w->pool[i].rank - e->w->a->ranks] = true;
}

static size_t count_explained(const struct episodes *e, const struct judge_outcome *o)
{
	size_t n = 0;

	for (size_t i = o->from; i < o->to; i++)
		n += e->is_explained[e->w->pool[i].rank - e->w->a->ranks];
	return n;
}

/*
 * Walks back from the last one. Behind a workload one counts that has a rank of its own, behind
 * another answer one that has no rank of it: ranks that went up one after the other.
 */
static const struct judge_outcome *choose(struct episodes *e, bool on_the_way)
{
	double least = MIN_EPISODE_SHARE * largest_gain(e, on_the_way);
	const struct judge_outcome *found = NULL;

	memset(e->is_explained, 0, e->w->a->n_ranks * sizeof(*e->is_explained));
	for (size_t i = e->n; i-- > 0;) {
		const struct judge_outcome *o = &e->items[i];
		size_t n_explained = count_explained(e, o);

		if (leads_to_peak(e->w, o) != on_the_way ||
		    (o->verdict != VERDICT_NONE && gain_of(e->w, o) < least))
			continue;
		if (o->verdict != VERDICT_NONE && n_explained < (found ? 1 : o->to - o->from))
			found = o;
		explain(e, o);
	}
	return found;
}

static const struct judge_outcome *choose_any(struct episodes *e)
{
	const struct judge_outcome *found = choose(e, true);

	found = found ? found : choose(e, false);
	return found ? found : &e->items[e->n - 1];
}

/* ---- whether another one says something else ---- */

/* Whose first rises are of one kind, and about as large. */
static bool is_alike(const struct judge_work *w, const struct judge_outcome *a,
		     const struct judge_outcome *b)
{
	double gain_a = gain_of(w, a), gain_b = gain_of(w, b);

	return w->pool[a->best].rise->is_step == w->pool[b->best].rise->is_step &&
	       leads_to_peak(w, a) == leads_to_peak(w, b) &&
	       fmax(gain_a, gain_b) <= EQUAL_FACTOR * fmin(gain_a, gain_b);
}

/* Who rose in it or since: where ranks go up one after the other, each has an episode. */
static size_t explain_since(struct episodes *e, const struct judge_outcome *chosen)
{
	size_t n = 0;

	memset(e->is_explained, 0, e->w->a->n_ranks * sizeof(*e->is_explained));
	for (size_t i = 0; i < e->n; i++)
		if (e->items[i].from >= chosen->from && e->items[i].verdict != VERDICT_NONE)
			explain(e, &e->items[i]);
	for (size_t i = 0; i < e->w->a->n_ranks; i++)
		n += e->is_explained[i];
	return n;
}

/* Whether most of n ranks rose like that before, and another one was the first. */
static bool is_rival(const struct episodes *e, const struct judge_outcome *o,
		     const struct judge_outcome *chosen, size_t n)
{
	const struct judge_work *w = e->w;
	size_t n_before = o->to - o->from, most = n > n_before ? n : n_before;

	return o->verdict == VERDICT_NAMED && w->pool[o->best].rank != w->pool[chosen->best].rank &&
	       is_alike(w, o, chosen) &&
	       (double)count_explained(e, o) >= MIN_COMMON_SHARE * (double)most;
}

static int look_before(struct judge_work *w, struct episodes *e, struct judge_outcome *chosen)
{
	size_t n = explain_since(e, chosen);

	for (size_t i = 0; i < e->n && e->items[i].from < chosen->from; i++) {
		struct judge_outcome o = e->items[i];
		size_t n_pool = w->n_pool;
		int r = is_rival(e, &o, chosen, n) ? related_judge(w, e->items, e->n, &o) : 0;

		w->n_pool = n_pool; /* whom it is shown with is not asked */
		if (r < 0)
			return r;
		if (!is_rival(e, &o, chosen, n))
			continue;
		chosen->verdict = VERDICT_CANNOT_TELL;
		chosen->why = WHY_OTHER_BEFORE;
		chosen->unseen = w->pool[o.best].rank;
		return 0;
	}
	return 0;
}

/* ---- all of them ---- */

/* While others still rise, a second rise of a rank is part of what happens, and no beginning. */
static double last_end(const struct judge_work *w, size_t first, size_t behind, double end)
{
	for (size_t i = first; i < behind; i++)
		end = fmax(end, w->all[i].rise->end);
	return end;
}

static int judge_all(struct judge_work *w, struct episodes *e)
{
	double busy_until = -INFINITY;

	for (size_t first = 0, behind; first < w->n_all; first = behind) {
		bool is_later = w->all[first].rise->onset.median > busy_until;
		size_t from = w->n_pool;
		int r;

		behind = gather_episode(w, first, busy_until);
		busy_until = last_end(w, first, behind, busy_until);
		if (!is_later)
			continue;
		r = judge_episode(w, from, w->n_pool, &e->items[e->n]);
		if (r < 0)
			return r;
		e->n++;
	}
	return 0;
}

/* With all of them known: ranks that do the same after their starts may have several. Of one that
 * has all ranks it was asked before. */
static int look_at_starts(struct judge_work *w, struct episodes *e)
{
	int r = 0;

	for (size_t i = 0; i < e->n && r == 0; i++) {
		if (e->items[i].verdict == VERDICT_NAMED && !together_is_all(w, &e->items[i]))
			r = starts_take_back(w, &e->items[i]);
		w->f->n_shared += e->items[i].verdict == VERDICT_NONE;
	}
	return r;
}

/* What is said of all ranks is shown of all, also where each has an episode. */
static bool is_of_several(const struct judge_work *w, const struct judge_outcome *o)
{
	return (o->why == WHY_START || o->why == WHY_OWN_START || o->why == WHY_IN_ORDER) &&
	       !together_is_all(w, o);
}

int episodes_judge(struct judge_work *w, struct judge_outcome *ret)
{
	CLEANUP(free_ptr) struct judge_outcome *items = calloc(w->n_all + 1, sizeof(*items));
	CLEANUP(free_ptr) bool *explained = calloc(w->a->n_ranks + 1, sizeof(*explained));
	struct episodes e = { .w = w, .items = items, .is_explained = explained };
	int r;

	if (!items || !explained)
		return -ENOMEM;
	r = judge_all(w, &e);
	if (r == 0)
		r = look_at_starts(w, &e);
	if (r < 0)
		return r;
	w->f->n_episodes = e.n;
	*ret = (struct judge_outcome){ .verdict = VERDICT_NONE, .why = WHY_NO_RISE };
	if (e.n > 0)
		*ret = *choose_any(&e);
	if (is_of_several(w, ret))
		starts_show_all(w, ret);
	if (ret->verdict == VERDICT_NAMED)
		r = look_before(w, &e, ret);
	return r == 0 && ret->verdict == VERDICT_NAMED ? related_judge(w, e.items, e.n, ret) : r;
}
