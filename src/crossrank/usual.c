#include "crossrank/usual.h"

#include <math.h>

#define LIKE_LEAST 0.75	  /* of its gain: another rise is as large */
#define LIKE_MOST 5.0	  /* the same of one that had more time */
#define LIKE_UP 0.9	  /* of the time for which it is up */
#define END_INTERVALS 2.0 /* what goes so shortly before the end goes with the process */

double usual_record_end(const struct judge_work *w, const struct rank *rank)
{
	return judge_seconds(w, &rank->total->samples[rank->total->n - 1]);
}

bool usual_is_given_back(const struct judge_work *w, const struct rank *rank,
			 const struct rise *rise)
{
	double interval = w->coverage[rank - w->a->ranks].interval;

	return !rise->is_ended && rise->gone < usual_record_end(w, rank) - END_INTERVALS * interval;
}

/* As large, or more as it had the time, and up as long as that one was before it went. */
static bool is_like_before(const struct judge_work *w, const struct candidate *first,
			   const struct rank *rank, const struct rise *rise)
{
	double until = fmin(first->rise->gone, usual_record_end(w, first->rank));
	double up = until - first->rise->onset.median;
	double ratio = rise->gain_mib / first->rise->gain_mib;

	return rise != first->rise && usual_is_given_back(w, rank, rise) && ratio >= LIKE_LEAST &&
	       ratio <= LIKE_MOST && rise->gone - rise->onset.median >= LIKE_UP * up;
}

/*
 * A rise that is there at the end of the record may be one of those that ranks give back, which
 * the end cut: then it is neither one that stays nor one that nobody else has. One that was given
 * back is compared by its time with others', but for those that a rank has again and again.
 */
static const struct rank *find_like_before(const struct judge_work *w,
					   const struct candidate *first, bool is_back)
{
	for (size_t i = 0; i < w->a->n_ranks; i++)
		for (size_t k = 0; k < w->f->rises[i].n; k++)
			if (is_back && !w->f->rises[i].is_sawtooth)
				continue;
			else if (is_like_before(w, first, &w->a->ranks[i],
						&w->f->rises[i].items[k]))
				return &w->a->ranks[i];
	return NULL;
}

bool usual_take_back(const struct judge_work *w, struct judge_outcome *chosen)
{
	const struct candidate *first = &w->pool[chosen->best];
	bool is_back = usual_is_given_back(w, first->rank, first->rise);
	const struct rank *like = find_like_before(w, first, is_back);

	if (!like)
		return false;
	chosen->verdict = VERDICT_CANNOT_TELL;
	chosen->why = is_back ? WHY_USUAL : WHY_MAY_PASS;
	chosen->unseen = like;
	return true;
}
