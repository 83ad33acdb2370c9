#include "crossrank/facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

#define MISSED_INTERVALS 3 /* so long without a sample is a gap in the record */
#define MAX_BINS 65536

static void walk_samples(const struct rank *rank, int64_t interval_ns, struct rank_facts *ret)
{
	const struct stream *s = rank->stream;

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

/* ---- the largest sum at one moment ---- */

struct bins {
	int64_t from_ns;
	int64_t width_ns;
	size_t n;
	int64_t *sums;
};

static void set_bins(const struct rank_analysis *a, const struct facts *f, struct bins *b)
{
	int64_t last = 0;
	uint64_t length;

	b->from_ns = INT64_MAX;
	for (size_t i = 0; i < a->n_ranks; i++) {
		b->from_ns = f->ranks[i].first_ns < b->from_ns ? f->ranks[i].first_ns : b->from_ns;
		last = f->ranks[i].last_ns > last ? f->ranks[i].last_ns : last;
	}
	length = (uint64_t)(last - b->from_ns) + 1;
	b->width_ns = a->median_interval_ns > 0 ? a->median_interval_ns : 1;
	if (length / (uint64_t)b->width_ns >= MAX_BINS)
		b->width_ns = (int64_t)(length / MAX_BINS) + 1;
	b->n = (size_t)(length / (uint64_t)b->width_ns) + 1;
}

static size_t bin_of(const struct bins *b, int64_t ns)
{
	return (size_t)((ns - b->from_ns) / b->width_ns);
}

/* Each bin gets what the rank used last by its end, as long as there is a record of it. */
static void add_to_bins(const struct bins *b, const struct stream *s)
{
	size_t bin = bin_of(b, s->samples[0].timestamp_ns);

	for (size_t i = 0; i < s->n; i++) {
		size_t next = i + 1 < s->n ? bin_of(b, s->samples[i + 1].timestamp_ns) : bin + 1;

		for (; bin < next; bin++)
			b->sums[bin] = add_saturated(b->sums[bin], s->samples[i].used_bytes);
	}
}

static int find_instant_peak(const struct rank_analysis *a, struct facts *f)
{
	CLEANUP(free_ptr) int64_t *sums = NULL;
	struct bins b;
	size_t best = 0;

	set_bins(a, f, &b);
	b.sums = sums = calloc(b.n + 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		add_to_bins(&b, a->ranks[i].stream);
	for (size_t i = 0; i < b.n; i++)
		best = sums[i] > sums[best] ? i : best;
	f->instant_peak_bytes = sums[best];
	f->instant_peak_ns = add_saturated(b.from_ns, (int64_t)best * b.width_ns);
	return 0;
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
		r = find_instant_peak(a, f);
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
