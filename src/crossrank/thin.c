#include "crossrank/thin.h"

#include <math.h>

#include "crossrank/series.h"

#define THIN 2		/* samples, and fewer, that are up */
#define STICK_SHARE 0.4 /* of the rise: another sample sticks out by as much */

static bool is_up(const struct judge_work *w, const struct rise *rise, const struct sample *sample)
{
	double at = judge_seconds(w, sample);

	return at >= rise->seen && at < rise->gone;
}

static double apart_mib(const struct sample *a, const struct sample *b)
{
	return ((double)a->used_bytes - (double)b->used_bytes) / SERIES_BYTES_PER_MIB;
}

/* Whether memory was about as high right before the sample or two that it rose from. */
static bool comes_from_dip(const struct judge_work *w, const struct candidate *first)
{
	const struct stream *s = first->rank->total;
	double least = (1 - STICK_SHARE) * first->rise->gain_mib;
	size_t at = 0;

	while (at < s->n && judge_seconds(w, &s->samples[at]) < first->rise->seen)
		at++;
	for (size_t i = at > THIN ? at - THIN - 1 : 0; i < at; i++)
		for (size_t low = i + 1; low < at; low++)
			if (apart_mib(&s->samples[i], &s->samples[low]) >= least)
				return true;
	return false;
}

static bool is_thin(const struct judge_work *w, const struct candidate *first)
{
	const struct stream *s = first->rank->total;
	size_t n = 0;

	for (size_t i = s->n; i-- > 0 && n <= THIN;) {
		if (judge_seconds(w, &s->samples[i]) < first->rise->seen)
			break;
		n += is_up(w, first->rise, &s->samples[i]);
	}
	return n <= THIN;
}

/* Whether sample i is that far from the one before it, up or down, and has come back by sample k.
 */
static bool comes_back(const struct sample *samples, size_t i, size_t k, double least)
{
	double before = apart_mib(&samples[i], &samples[i - 1]);
	double behind = apart_mib(&samples[i], &samples[k]);

	return samples[i - 1].identity == samples[k].identity && before * behind > 0 &&
	       fmin(fabs(before), fabs(behind)) >= least;
}

/*
 * Whether a sample sticks out of a stream; what is part of the rise, NULL if it is not there, or
 * of the dip before it does not count.
 */
static bool sticks_out(const struct judge_work *w, const struct stream *s, const struct rise *rise,
		       double least)
{
	for (size_t i = 1; i < s->n; i++)
		for (size_t k = i + 1; k <= i + THIN && k < s->n; k++)
			if (comes_back(s->samples, i, k, least) &&
			    !(rise && (is_up(w, rise, &s->samples[i]) ||
				       is_up(w, rise, &s->samples[i - 1]) ||
				       is_up(w, rise, &s->samples[k]))))
				return true;
	return false;
}

bool thin_take_back(const struct judge_work *w, struct judge_outcome *chosen)
{
	const struct candidate *first = &w->pool[chosen->best];
	double least = STICK_SHARE * first->rise->gain_mib;

	if (!is_thin(w, first) && !comes_from_dip(w, first))
		return false;
	for (size_t i = 0; i < w->a->n_ranks; i++) {
		const struct rank *rank = &w->a->ranks[i];

		if (!sticks_out(w, rank->total, rank == first->rank ? first->rise : NULL, least))
			continue;
		chosen->verdict = VERDICT_CANNOT_TELL;
		chosen->why = WHY_THIN;
		chosen->unseen = rank;
		return true;
	}
	return false;
}
