#include "crossrank/facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

#define MISSED_INTERVALS 3 /* so long without a sample is a gap in the record */

static void walk_samples(const struct rank *rank, int64_t interval_ns, struct rank_facts *ret)
{
	const struct stream *s = rank->total;

	ret->first_ns = s->samples[0].timestamp_ns;
	ret->last_ns = s->samples[s->n - 1].timestamp_ns;
	ret->first_bytes = s->samples[0].used_bytes;
	ret->last_bytes = s->samples[s->n - 1].used_bytes;
	ret->peak_bytes = -1;
	for (size_t i = 0; i < s->n; i++) {
		const struct sample *at = &s->samples[i];

		if (at->used_bytes > ret->peak_bytes) {
			ret->peak_bytes = at->used_bytes;
			ret->peak_ns = at->timestamp_ns;
		}
		ret->n_missed += i > 0 && interval_ns > 0 &&
				 (__int128)at->timestamp_ns - at[-1].timestamp_ns >
					 (__int128)MISSED_INTERVALS * interval_ns;
	}
}

static int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int fill(const struct rank_analysis *a, struct facts *f)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n_ranks; i++) {
		walk_samples(&a->ranks[i], a->median_interval_ns, &f->ranks[i]);
		f->sum_of_peaks_bytes =
			add_saturated(f->sum_of_peaks_bytes, f->ranks[i].peak_bytes);
		r = gaps_find(a, &a->ranks[i], &f->ranks[i]);
	}
	if (r == 0)
		r = peak_find(a, &f->instant_peak);
	return r < 0 ? r : steps_find(a, f);
}

int facts_make(const struct rank_analysis *a, struct facts **ret)
{
	struct facts *f = calloc(1, sizeof(*f));
	int r = 0;

	if (!f)
		return -ENOMEM;
	f->step_seconds = NAN;
	f->ranks = calloc(a->n_ranks + 1, sizeof(*f->ranks));
	if (!f->ranks)
		r = -ENOMEM;
	else if (a->n_ranks > 0)
		r = fill(a, f);
	if (r < 0)
		f = facts_free(f);
	*ret = f;
	return r;
}

struct facts *facts_free(struct facts *f)
{
	if (!f)
		return NULL;
	free(f->ranks);
	free(f);
	return NULL;
}
