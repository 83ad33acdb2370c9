#include "crossrank/merging/merging.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/order.h"

int merging_add_note(struct rank_analysis *a, const struct note *note)
{
	struct note *notes = reallocarray(a->notes, a->n_notes + 1, sizeof(*notes));

	if (!notes)
		return -ENOMEM;
	a->notes = notes;
	notes[a->n_notes++] = *note;
	return 0;
}

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

/*
 * The median of the times between two samples of a rank, where there is any time; else
 * of what the samples say their interval is; else 0. As the reference rounds. -ENOMEM.
 */
static int interval_median(const struct rank_analysis *a, int64_t *ret_ns)
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
		const struct stream *s = a->ranks[i].stream;

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

/* ---- all together ---- */

#define SKEW_INTERVALS 5 /* a start further away than so many is noted */

/* The rank that the others are aligned to: 0, else the lowest. */
static int align(struct rank_analysis *a)
{
	int64_t anchor_ns = a->ranks[0].stream->samples[0].timestamp_ns;
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->n_ranks; i++) {
		struct rank *rank = &a->ranks[i];
		__int128 offset;

		rank->offset_ns = rank->stream->samples[0].timestamp_ns - anchor_ns;
		offset = rank->offset_ns < 0 ? -(__int128)rank->offset_ns : rank->offset_ns;
		if (a->median_interval_ns > 0 &&
		    offset > (__int128)SKEW_INTERVALS * a->median_interval_ns)
			r = merging_add_note(a, &(struct note){ .code = NOTE_SKEWED_START,
								.rank = rank->rank,
								.offset_ns = rank->offset_ns });
	}
	return r;
}

int rank_analysis_init(struct rank_analysis *a, struct telemetry *t)
{
	int r;

	*a = (struct rank_analysis){ .telemetry = t };
	r = phases_init(&a->phases, t);
	if (r == 0)
		r = telemetry_sort(t);
	if (r == 0 && t->n_events == 0)
		r = merging_add_note(a, &(struct note){ .code = NOTE_NO_EVENTS });
	if (r == 0 && t->n_samples != t->n_events)
		r = merging_add_note(a, &(struct note){ .code = NOTE_IGNORED_NON_SAMPLE_EVENTS });
	if (r == 0 && t->n_samples == 0)
		return merging_add_note(a, &(struct note){ .code = NOTE_NO_SAMPLE_EVENTS });
	if (r == 0)
		r = select_job(a);
	if (r == 0 && a->n_others_all > 0)
		r = merging_add_note(a, &(struct note){ .code = NOTE_MULTIPLE_JOB_IDS,
							.others = a->others,
							.n_others = a->n_others,
							.n_others_all = a->n_others_all });
	if (r == 0)
		r = select_ranks(a);
	if (r == 0 && a->n_missing_all > 0)
		r = merging_add_note(a, &(struct note){ .code = NOTE_MISSING_RANKS,
							.ranks = a->missing,
							.n_ranks = a->n_missing,
							.n_ranks_all = a->n_missing_all });
	if (r == 0)
		r = strays_leave_out(a);
	if (r == 0)
		r = devices_add_up(a);
	if (r == 0)
		r = interval_median(a, &a->median_interval_ns);
	return r < 0 ? r : align(a);
}

void rank_analysis_release(struct rank_analysis *a)
{
	phases_release(&a->phases);
	arena_release(&a->arena);
	free(a->ranks);
	free(a->seen_order);
	free(a->missing);
	free(a->notes);
	free(a->suspects);
	*a = (struct rank_analysis){ 0 };
}

/* ---- the aligned timeline ---- */

/* Where each rank stands; the heap has the rank with the earliest point first. */
struct walk {
	const struct rank_analysis *a;
	size_t *next; /* by number of the rank */
	size_t *heap;
	size_t n;
};

static __int128 aligned_of(const struct walk *w, size_t i)
{
	const struct rank *rank = &w->a->ranks[i];

	return (__int128)rank->stream->samples[w->next[i]].timestamp_ns - rank->offset_ns;
}

/* Ranks are numbered in their order. */
static bool is_before(const struct walk *w, size_t i, size_t k)
{
	__int128 x = aligned_of(w, i), y = aligned_of(w, k);

	return x != y ? x < y : i < k;
}

static void sift_down(struct walk *w, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1, moved = w->heap[at];

		if (child >= w->n)
			return;
		if (child + 1 < w->n && is_before(w, w->heap[child + 1], w->heap[child]))
			child++;
		if (!is_before(w, w->heap[child], moved))
			return;
		w->heap[at] = w->heap[child];
		w->heap[child] = moved;
		at = child;
	}
}

int analysis_walk_timeline(const struct rank_analysis *a, timeline_fn *fn, void *ctx)
{
	CLEANUP(free_ptr) size_t *next = calloc(a->n_ranks + 1, sizeof(*next));
	CLEANUP(free_ptr) size_t *heap = calloc(a->n_ranks + 1, sizeof(*heap));
	struct walk w = { a, next, heap, a->n_ranks };
	int r = 0;

	if (!next || !heap)
		return -ENOMEM;
	for (size_t i = 0; i < w.n; i++)
		heap[i] = i;
	for (size_t i = w.n; i-- > 0;)
		sift_down(&w, i);
	while (r == 0 && w.n > 0) {
		size_t i = heap[0];
		const struct rank *rank = &a->ranks[i];
		struct timeline_point point = { &rank->stream->samples[next[i]], rank->stream,
						rank->rank, aligned_of(&w, i) };

		r = fn(ctx, &point);
		if (++next[i] == rank->stream->n)
			heap[0] = heap[--w.n];
		sift_down(&w, 0);
	}
	return r;
}
