#include "crossrank/interval.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/select.h"

#define NS_PER_MS 1000000

DEFINE_SELECT_NTH(select_nth, int64_t)

/* The mean of two is a rounded double that is then cut, as the reference has it. */
static int64_t mean_of(__int128 a, __int128 b)
{
	double mean = (double)(a + b) / 2;

	return mean >= 9223372036854775808.0 ? INT64_MAX : (int64_t)mean;
}

static int64_t median_of(int64_t *v, size_t n)
{
	int64_t upper, lower;

	select_nth(v, n, n / 2);
	upper = v[n / 2];
	if (n % 2 == 1)
		return upper;
	lower = v[0];
	for (size_t i = 1; i < n / 2; i++)
		lower = v[i] > lower ? v[i] : lower;
	return mean_of(lower, upper);
}

static int compare_intervals(const void *l, const void *r)
{
	const struct identity *a = *(const struct identity *const *)l;
	const struct identity *b = *(const struct identity *const *)r;

	return (a->sampling_interval_ms > b->sampling_interval_ms) -
	       (a->sampling_interval_ms < b->sampling_interval_ms);
}

/* The interval at a place among all samples in the order of their intervals. */
static __int128 interval_at(const struct identity **ids, size_t n, uint64_t place)
{
	size_t i = 0;

	while (i + 1 < n && place >= ids[i]->n_samples)
		place -= ids[i++]->n_samples;
	return (__int128)ids[i]->sampling_interval_ms * NS_PER_MS;
}

static int median_as_said(const struct telemetry *t, int64_t *ret_ns)
{
	CLEANUP(free_ptr) const struct identity **ids = calloc(t->n_identities + 1, sizeof(*ids));
	uint64_t n_samples = 0;
	__int128 upper;
	size_t n = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_identities; i++)
		if (t->identities[i].n_samples > 0 && t->identities[i].sampling_interval_ms > 0) {
			n_samples += t->identities[i].n_samples;
			ids[n++] = &t->identities[i];
		}
	*ret_ns = 0;
	if (n == 0)
		return 0;
	qsort(ids, n, sizeof(*ids), compare_intervals);
	upper = interval_at(ids, n, n_samples / 2);
	if (n_samples % 2 == 0)
		*ret_ns = mean_of(interval_at(ids, n, n_samples / 2 - 1), upper);
	else
		*ret_ns = upper > INT64_MAX ? INT64_MAX : (int64_t)upper;
	return 0;
}

int interval_median(const struct rank_analysis *a, bool of_totals, int64_t *ret_ns)
{
	CLEANUP(free_ptr) int64_t *deltas = NULL;
	size_t n = 0;

	for (size_t i = 0; i < a->n_ranks; i++)
		n += a->ranks[i].stream->n;
	deltas = calloc(n + 1, sizeof(*deltas));
	if (!deltas)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct stream *s = of_totals ? a->ranks[i].total : a->ranks[i].stream;

		for (size_t k = 1; k < s->n; k++) {
			int64_t delta = s->samples[k].timestamp_ns - s->samples[k - 1].timestamp_ns;

			deltas[n] = delta;
			n += delta > 0;
		}
	}
	if (n == 0)
		return median_as_said(a->telemetry, ret_ns);
	*ret_ns = median_of(deltas, n);
	return 0;
}
