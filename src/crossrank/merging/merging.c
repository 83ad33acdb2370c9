#include "crossrank/merging/merging.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/order.h"

/* ---- how far apart the samples are ---- */

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
	int64_t upper;

	select_nth(v, n, n / 2);
	upper = v[n / 2];
	if (n % 2 == 1)
		return upper;
	select_nth(v, n / 2, n / 2 - 1);
	return mean_of(v[n / 2 - 1], upper);
}

/* What each sample says its interval is. */
static size_t list_intervals(const struct rank_analysis *a, int64_t *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_ranks; i++)
		for (size_t k = 0; k < a->ranks[i].stream->n; k++) {
			const struct sample *s = &a->ranks[i].stream->samples[k];
			int64_t ms = identity_of(a->telemetry, s)->sampling_interval_ms;

			ret[n] = ms < INT64_MAX / NS_PER_MS ? ms * NS_PER_MS : INT64_MAX;
			n += ms > 0;
		}
	return n;
}

/*
 * The median of the times between two samples of a rank, where there is any time; else
 * of what the samples say their interval is; else 0. As the reference rounds. -ENOMEM.
 */
static int interval_median(const struct rank_analysis *a, int64_t *ret_ns)
{
	CLEANUP(free_ptr) int64_t *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < a->n_ranks; i++)
		n += a->ranks[i].stream->n;
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < a->n_ranks; i++) {
		const struct stream *s = a->ranks[i].stream;

		for (size_t k = 1; k < s->n; k++) {
			v[n] = s->samples[k].timestamp_ns - s->samples[k - 1].timestamp_ns;
			n += v[n] > 0;
		}
	}
	if (n == 0)
		n = list_intervals(a, v);
	*ret_ns = n > 0 ? median_of(v, n) : 0;
	return 0;
}

/* ---- all together ---- */

int rank_analysis_init(struct rank_analysis *a, struct telemetry *t)
{
	int r;

	*a = (struct rank_analysis){ .telemetry = t };
	r = phases_init(&a->phases, t);
	if (r == 0)
		r = telemetry_sort(t);
	if (r < 0 || t->n_samples == 0)
		return r;
	r = select_job(a);
	if (r == 0)
		r = select_ranks(a);
	if (r == 0)
		r = strays_leave_out(a);
	if (r == 0)
		r = devices_add_up(a);
	if (r == 0)
		r = interval_median(a, &a->median_interval_ns);
	/* The first rank is the one that the others are aligned to. */
	for (size_t i = 0; i < a->n_ranks; i++)
		a->ranks[i].offset_ns = a->ranks[i].stream->samples[0].timestamp_ns -
					a->ranks[0].stream->samples[0].timestamp_ns;
	return r;
}

void rank_analysis_release(struct rank_analysis *a)
{
	phases_release(&a->phases);
	arena_release(&a->arena);
	free(a->ranks);
	free(a->seen_order);
	free(a->missing);
	*a = (struct rank_analysis){ 0 };
}

/* ---- the aligned timeline ---- */

static bool is_before(const struct timeline_point *a, const struct timeline_point *b)
{
	return a->aligned_ns != b->aligned_ns ? a->aligned_ns < b->aligned_ns : a->rank < b->rank;
}

static void sift_down(struct timeline_point *heap, size_t n, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct timeline_point moved = heap[at];

		if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (child >= n || !is_before(&heap[child], &moved))
			return;
		heap[at] = heap[child];
		heap[child] = moved;
		at = child;
	}
}

int analysis_walk_timeline(const struct rank_analysis *a, timeline_fn *fn, void *ctx)
{
	size_t n = a->n_ranks;
	/* The next point of each rank that has one, the earliest first. */
	CLEANUP(free_ptr) struct timeline_point *heap = calloc(n + 1, sizeof(*heap));
	int r = 0;

	if (!heap)
		return -ENOMEM;
	for (size_t i = n; i-- > 0; sift_down(heap, n, i)) {
		const struct rank *rank = &a->ranks[i];
		const struct sample *first = rank->stream->samples;

		heap[i] =
			(struct timeline_point){ first, rank->stream, rank->rank,
						 (__int128)first->timestamp_ns - rank->offset_ns };
	}
	while (r == 0 && n > 0) {
		const struct sample *last = heap->sample;

		r = fn(ctx, heap);
		if (++heap->sample == heap->stream->samples + heap->stream->n)
			heap[0] = heap[--n];
		else
			heap->aligned_ns += heap->sample->timestamp_ns - last->timestamp_ns;
		sift_down(heap, n, 0);
	}
	return r;
}
