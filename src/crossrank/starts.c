#include "crossrank/starts.h"

#include <math.h>

#include "crossrank/together.h"

#define LIKE_SHARE 0.5 /* of the larger gain: late starters have less time */
#define NEAR_SIGMAS 3.0
#define JITTER_S 0.4 /* by which it varies how long programs take to start: a machine is busy */

static bool is_as_large(const struct rise *a, const struct rise *b)
{
	return fmin(a->gain_mib, b->gain_mib) >= LIKE_SHARE * fmax(a->gain_mib, b->gain_mib);
}

/* How far two rises are apart, each after its own start: of its record or of its program. */
static double distance(const struct rise *a, const struct rise *b)
{
	double clock = a->onset.median - b->onset.median;

	return fmin(fabs(clock - (a->start - b->start)), fabs(clock - (a->born - b->born)));
}

/* Who rises at another time after its start has something of its own, and says nothing of others.
 */
static bool is_near(const struct judge_work *w, const struct rise *a, const struct rise *b)
{
	double sd = hypot(hypot(a->onset.sd, b->onset.sd),
			  hypot(JITTER_S * sqrt(2), w->interval / sqrt(6)));

	return is_as_large(a, b) && distance(a, b) <= NEAR_SIGMAS * sd;
}

/* w->place, which the episodes have done with: by rank, one more than where w->all has its rise
 * nearest to that one. */
static void find_nearest(struct judge_work *w, const struct candidate *named)
{
	for (size_t i = 0; i < w->a->n_ranks; i++)
		w->place[i] = 0;
	for (size_t i = 0; i < w->n_all; i++) {
		const struct rise *rise = w->all[i].rise;
		size_t *place = &w->place[w->all[i].rank - w->a->ranks];

		if (w->all[i].rank == named->rank || !is_near(w, rise, named->rise))
			continue;
		if (*place == 0 ||
		    distance(rise, named->rise) < distance(w->all[*place - 1].rise, named->rise))
			*place = i + 1;
	}
}

/* Into the room behind w->pool, which has some for every rank. The first is who rose first. */
static struct judge_outcome gather(struct judge_work *w, const struct judge_outcome *o)
{
	const struct candidate named = w->pool[o->best];
	struct judge_outcome all = { .from = w->n_pool, .to = w->n_pool, .best = w->n_pool };

	find_nearest(w, &named);
	w->pool[all.to++] = named;
	for (size_t i = 0; i < w->a->n_ranks; i++)
		if (w->place[i] > 0)
			w->pool[all.to++] = w->all[w->place[i] - 1];
	for (size_t i = all.from; i < all.to; i++) {
		w->pool[i].probability = NAN;
		if (w->pool[i].rise->onset.median < w->pool[all.best].rise->onset.median)
			all.best = i;
	}
	return all;
}

int starts_take_back(struct judge_work *w, struct judge_outcome *o)
{
	struct judge_outcome all = gather(w, o);
	struct together together = { 0 };
	int r = together_find_start(w, &all, JITTER_S, &together);

	if (r < 0 || !(together.is_start || together.is_ordered) ||
	    (together.is_of_one && !together.is_born))
		return r;
	o->verdict = VERDICT_CANNOT_TELL;
	o->why = together.is_of_one ? WHY_OWN_START : WHY_IN_ORDER;
	if (together.is_start && !together.is_of_one) {
		o->verdict = VERDICT_NONE;
		o->why = WHY_START;
	}
	return 0;
}

void starts_show_all(struct judge_work *w, struct judge_outcome *o)
{
	struct judge_outcome all = gather(w, o);

	o->from = all.from;
	o->to = w->n_pool = all.to;
	o->best = all.best;
}
