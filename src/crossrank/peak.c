#include "crossrank/peak.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"

#define MAX_BINS 65536

static int64_t add_saturated(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

struct bins {
	int64_t from_ns;
	int64_t width_ns;
	size_t n;
	int64_t *sums;
};

static void set_bins(const struct rank_analysis *a, struct bins *b)
{
	int64_t last = 0;
	uint64_t length;

	b->from_ns = INT64_MAX;
	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct stream *s = a->ranks[i].total;
		int64_t first_ns = s->samples[0].timestamp_ns;
		int64_t last_ns = s->samples[s->n - 1].timestamp_ns;

		b->from_ns = first_ns < b->from_ns ? first_ns : b->from_ns;
		last = last_ns > last ? last_ns : last;
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

int peak_find(const struct rank_analysis *a, struct peak *ret)
{
	CLEANUP(free_ptr) int64_t *sums = NULL;
	struct bins b;
	size_t best = 0;

	set_bins(a, &b);
	b.sums = sums = calloc(b.n + 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		add_to_bins(&b, a->ranks[i].total);
	for (size_t i = 0; i < b.n; i++)
		best = sums[i] > sums[best] ? i : best;
	ret->bytes = sums[best];
	ret->ns = add_saturated(b.from_ns, (int64_t)best * b.width_ns);
	return 0;
}
