#include "crossrank/usual.h"

#include <math.h>

#define LIKE_LEAST 0.75	  /* of its gain: another rise is as large */
#define LIKE_MOST 5.0	  /* the same of one that had more time */
#define LIKE_UP 0.9	  /* of the time for which it is up */
#define OWN_LEAST 0.5	  /* of its gain, either way: what each has once is as large */
#define OWN_LONGER 0.25	  /* of the time for which it is up, either way */
#define OWN_INTERVALS 2.0 /* or so much, which is how well that is known */
#define OWN_SHARE 0.5	  /* of the ranks: more have one */
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

/*
 * One of the same kind as the first, which was given back: as large, up for as long, and gone at a
 * moment of its own. What one rank began and all end together is not.
 */
static bool is_own(const struct judge_work *w, const struct rise *first, const struct rank *rank,
		   const struct rise *rise)
{
	double least = OWN_INTERVALS * fmax(w->coverage[rank - w->a->ranks].interval, w->interval);
	double up = first->gone - first->onset.median, ratio = rise->gain_mib / first->gain_mib;
	double longer = rise->gone - rise->onset.median - up;

	return usual_is_given_back(w, rank, rise) && ratio >= OWN_LEAST && ratio <= 1 / OWN_LEAST &&
	       fabs(longer) <= fmax(least, OWN_LONGER * up) &&
	       fabs(rise->gone - first->gone) > least;
}

/* Ranks that have one each, at any time; the first is one of them. */
static size_t count_own(const struct judge_work *w, const struct candidate *first)
{
	size_t n = 1;

	for (size_t i = 0; i < w->a->n_ranks; i++) {
		bool has_own = false;

		for (size_t k = 0; k < w->f->rises[i].n && &w->a->ranks[i] != first->rank; k++)
			has_own |=
				is_own(w, first->rise, &w->a->ranks[i], &w->f->rises[i].items[k]);
		n += has_own;
	}
	return n;
}

bool usual_take_back(const struct judge_work *w, struct judge_outcome *chosen)
{
	const struct candidate *first = &w->pool[chosen->best];
	bool is_back = usual_is_given_back(w, first->rank, first->rise);
	const struct rank *like = find_like_before(w, first, is_back);
	size_t n_own = is_back ? count_own(w, first) : 0;

	if (!like && n_own > 2 && (double)n_own > OWN_SHARE * (double)w->a->n_ranks) {
		chosen->verdict = VERDICT_CANNOT_TELL;
		chosen->why = WHY_UNRELATED;
		w->f->n_risen = n_own;
		return true;
	}
	if (!like)
		return false;
	chosen->verdict = VERDICT_CANNOT_TELL;
	chosen->why = is_back ? WHY_USUAL : WHY_MAY_PASS;
	chosen->unseen = like;
	return true;
}
