#include "crossrank/related.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/chance.h"
#include "crossrank/thin.h"
#include "crossrank/usual.h"
#include "crossrank/waves.h"
#include "stats/order.h"

#define ACTIVE_SHARE 0.4  /* of the record: while it loads, evaluates and ends nothing rises */
#define LASTING_SHARE 0.5 /* of the rest of the record */
#define LIKE_SHARE 0.5	  /* of what the first gained in the same time */

/* ---- which rises are compared ---- */

static bool is_member(const struct judge_work *w, const struct judge_outcome *o,
		      const struct rank *rank)
{
	for (size_t i = o->from; i < o->to; i++)
		if (w->pool[i].rank == rank)
			return true;
	return false;
}

/* Given back soon, and not with the end of its process. */
static bool is_passing(const struct judge_work *w, const struct candidate *c)
{
	double onset = c->rise->onset.median;

	return c->rise->gone - onset < LASTING_SHARE * (usual_record_end(w, c->rank) - onset);
}

/* What passes is not like what stays. */
static bool is_comparable(const struct judge_work *w, const struct candidate *first,
			  const struct candidate *other)
{
	return usual_is_given_back(w, first->rank, first->rise) || is_passing(w, first) ||
	       !is_passing(w, other);
}

/* As it was fitted: that steps may hide when it was makes ranks no less near each other. */
static double onset_of(const struct candidate *c)
{
	return c->rise->onset.median - c->rise->grain;
}

static double sd_of(const struct candidate *c)
{
	return c->rise->onset.sd - c->rise->grain_sd;
}

/* By rank: the onset of its rise that is nearest to the first. */
static void note_onset(const struct judge_work *w, const struct judge_outcome *chosen,
		       const struct candidate *c, double *nearest)
{
	const struct candidate *first = &w->pool[chosen->best];
	double *at = &nearest[c->rank - w->a->ranks];

	if (!is_comparable(w, first, c) || is_member(w, chosen, c->rank))
		return;
	if (isnan(*at) || fabs(onset_of(c) - onset_of(first)) < fabs(*at - onset_of(first)))
		*at = onset_of(c);
}

/* As steep as the first one, and small only as its record ends. */
static bool is_cut_short(const struct rise *first, const struct rise *other)
{
	return other->gain_mib >=
	       LIKE_SHARE * first->slope * fmax(other->end - other->onset.median, 0);
}

/* Those of other episodes that are not the workload's, and those too late to be large. */
static void note_others(const struct judge_work *w, const struct judge_outcome *items, size_t n,
			const struct judge_outcome *chosen, double *nearest)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = items[i].from; items[i].verdict != VERDICT_NONE && k < items[i].to;
		     k++)
			note_onset(w, chosen, &w->pool[k], nearest);
	for (size_t i = 0; i < w->n_small; i++)
		if (!w->small[i].is_shared &&
		    is_cut_short(w->pool[chosen->best].rise, w->small[i].rise))
			note_onset(w, chosen, &w->small[i], nearest);
}

static void add_onset(const struct judge_work *w, struct onsets *o, const struct rank *rank,
		      double at)
{
	o->at[o->n++] = at;
	o->length += ACTIVE_SHARE * w->coverage[rank - w->a->ranks].seconds;
}

/*
 * Members first, then others. Who did not rise, as it died before, says nothing of how long the
 * others could have.
 */
static void collect(const struct judge_work *w, const struct judge_outcome *items, size_t n,
		    const struct judge_outcome *chosen, struct onsets *ret)
{
	double *nearest = ret->at + w->a->n_ranks;
	double sd = 0;

	for (size_t i = 0; i < w->a->n_ranks; i++)
		nearest[i] = NAN;
	note_others(w, items, n, chosen, nearest);
	for (size_t i = chosen->from; i < chosen->to; i++)
		if (is_comparable(w, &w->pool[chosen->best], &w->pool[i])) {
			add_onset(w, ret, w->pool[i].rank, onset_of(&w->pool[i]));
			sd += sd_of(&w->pool[i]);
		}
	ret->n_members = ret->n;
	ret->least = 2 * sd / (double)ret->n;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (!isnan(nearest[i]))
			add_onset(w, ret, &w->a->ranks[i], nearest[i]);
	ret->length /= (double)ret->n;
}

/*
 * Of each rank in it that rise was taken which fits best; its others could have been. A rank's
 * rises in one episode are one.
 */
static void count_choices(const struct judge_work *w, const struct judge_outcome *items, size_t n,
			  const struct judge_outcome *chosen, struct onsets *ret)
{
	size_t n_choices = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = items[i].from; items[i].verdict != VERDICT_NONE && k < items[i].to;
		     k++)
			n_choices += is_comparable(w, &w->pool[chosen->best], &w->pool[k]);
	ret->choices = fmax((double)n_choices / (double)ret->n, 1);
}

/* ---- who is shown beside the one that is named ---- */

static const struct candidate *find_rise(const struct judge_work *w, const struct rank *rank,
					 double at)
{
	for (size_t i = 0; i < w->n_pool; i++)
		if (w->pool[i].rank == rank && onset_of(&w->pool[i]) == at)
			return &w->pool[i];
	for (size_t i = 0; i < w->n_small; i++)
		if (w->small[i].rank == rank && onset_of(&w->small[i]) == at)
			return &w->small[i];
	return NULL;
}

/*
 * Others that rose soon are why the only one of its episode may be named: it was before them, or
 * it is not the first, and they are listed.
 */
static void join_others(struct judge_work *w, const double *nearest, struct judge_outcome *chosen)
{
	const struct candidate first = w->pool[chosen->best];
	size_t from = w->n_pool, n = from;

	w->pool[n++] = first;
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct candidate *c = find_rise(w, &w->a->ranks[i], nearest[i]);

		if (!c)
			continue;
		if (onset_of(c) < onset_of(&first)) {
			chosen->verdict = VERDICT_CANNOT_TELL;
			chosen->why = WHY_UNRELATED;
			return;
		}
		w->pool[n] = *c;
		w->pool[n++].probability = 0;
	}
	w->n_pool = n;
	*chosen = (struct judge_outcome){
		.verdict = VERDICT_NAMED, .why = WHY_FIRST, .from = from, .to = n, .best = from
	};
}

/* Whether the rises have to do with each other; only those behind the first: *ret_is_apart. */
static bool are_related(struct onsets *o, bool *ret_is_apart)
{
	bool is_cluster, is_behind;
	double first;

	order_sort(o->at, o->n_members);
	first = o->at[0];
	is_cluster = chance_is_part(o);
	is_behind = chance_is_behind(o, o->n_members);
	order_sort(o->at, o->n);
	is_cluster |= chance_is_cluster(o) || chance_is_even(o);
	/* Who is long before all others is alone in its episode. */
	is_behind |= o->at[0] == first && chance_is_behind(o, o->n);
	*ret_is_apart = is_behind && !is_cluster;
	return is_cluster || is_behind;
}

static int hold_against_others(struct judge_work *w, const struct judge_outcome *items, size_t n,
			       struct judge_outcome *chosen)
{
	CLEANUP(free_ptr) double *room = calloc(2 * w->a->n_ranks + 1, sizeof(*room));
	struct onsets o = { .at = room };

	if (!room)
		return -ENOMEM;
	collect(w, items, n, chosen, &o);
	count_choices(w, items, n, chosen, &o);
	w->f->n_risen = o.n;
	if (o.n < 2)
		return 0;
	if (!are_related(&o, &w->f->is_apart)) {
		chosen->verdict = VERDICT_CANNOT_TELL;
		chosen->why = WHY_UNRELATED;
	} else if (o.n_members == 1 && chosen->to - chosen->from == 1) {
		join_others(w, room + w->a->n_ranks, chosen);
	}
	return 0;
}

int related_judge(struct judge_work *w, const struct judge_outcome *items, size_t n,
		  struct judge_outcome *chosen)
{
	int r = 0;

	if (usual_take_back(w, chosen) || thin_take_back(w, chosen))
		return 0;
	r = hold_against_others(w, items, n, chosen);
	if (r == 0 && chosen->verdict == VERDICT_NAMED)
		waves_take_back(w, chosen);
	return r;
}
