#include "crossrank/analysis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/devices.h"
#include "crossrank/facts.h"
#include "crossrank/finding.h"
#include "crossrank/interval.h"
#include "crossrank/select.h"
#include "crossrank/strays.h"

#define SKEW_INTERVALS 5 /* a start further away than so many is noted */

int analysis_add_note(struct rank_analysis *a, const struct note *note)
{
	struct note *notes = reallocarray(a->notes, a->n_notes + 1, sizeof(*notes));

	if (!notes)
		return -ENOMEM;
	a->notes = notes;
	notes[a->n_notes++] = *note;
	return 0;
}

static int add_code(struct rank_analysis *a, enum note_code code)
{
	return analysis_add_note(a, &(struct note){ .code = code });
}

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
			r = analysis_add_note(a, &(struct note){ .code = NOTE_SKEWED_START,
								 .rank = rank->rank,
								 .offset_ns = rank->offset_ns });
	}
	return r;
}

static int put_together(struct rank_analysis *a)
{
	int r = select_world_size(a);

	if (r == 0)
		r = select_missing(a);
	if (r == 0 && a->n_missing_all > 0)
		r = analysis_add_note(a, &(struct note){ .code = NOTE_MISSING_RANKS,
							 .ranks = a->missing,
							 .n_ranks = a->n_missing,
							 .n_ranks_all = a->n_missing_all });
	if (r == 0)
		r = strays_leave_out(a);
	if (r == 0)
		r = devices_add_up(a);
	if (r == 0)
		r = interval_median(a, false, &a->median_interval_ns);
	return r < 0 ? r : align(a);
}

int rank_analysis_init(struct rank_analysis *a, struct telemetry *t)
{
	int r;

	*a = (struct rank_analysis){ .telemetry = t };
	r = phases_init(&a->phases, t);
	if (r == 0)
		r = telemetry_sort(t);
	if (r == 0 && t->n_events == 0)
		r = add_code(a, NOTE_NO_EVENTS);
	if (r == 0 && t->n_samples != t->n_events)
		r = add_code(a, NOTE_IGNORED_NON_SAMPLE_EVENTS);
	if (r == 0 && t->n_samples == 0)
		return add_code(a, NOTE_NO_SAMPLE_EVENTS);
	if (r == 0)
		r = select_job(a);
	if (r == 0 && a->n_others_all > 0)
		r = analysis_add_note(a, &(struct note){ .code = NOTE_MULTIPLE_JOB_IDS,
							 .others = a->others,
							 .n_others = a->n_others,
							 .n_others_all = a->n_others_all });
	if (r == 0)
		r = select_ranks(a);
	return r < 0 ? r : put_together(a);
}

void rank_analysis_release(struct rank_analysis *a)
{
	phases_release(&a->phases);
	arena_release(&a->arena);
	finding_free(a->finding);
	facts_free(a->facts);
	free(a->ranks);
	free(a->seen_order);
	free(a->missing);
	free(a->notes);
	free(a->suspects);
	*a = (struct rank_analysis){ 0 };
}

int rank_analysis_run(struct rank_analysis *a, const struct rank_analysis_options *options)
{
	int r = analysis_find_suspects(a);

	if (r == 0)
		r = finding_make(a, options, &a->finding);
	return r < 0 ? r : facts_make(a, &a->facts);
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

static int walk_all(struct walk *w, timeline_fn *fn, void *ctx)
{
	int r = 0;

	for (size_t i = w->n; i-- > 0;)
		sift_down(w, i);
	while (r == 0 && w->n > 0) {
		size_t i = w->heap[0];
		const struct rank *rank = &w->a->ranks[i];
		struct timeline_point point = { &rank->stream->samples[w->next[i]], rank->stream,
						rank->rank, aligned_of(w, i) };

		r = fn(ctx, &point);
		if (++w->next[i] == rank->stream->n)
			w->heap[0] = w->heap[--w->n];
		sift_down(w, 0);
	}
	return r;
}

int analysis_walk_timeline(const struct rank_analysis *a, timeline_fn *fn, void *ctx)
{
	CLEANUP(free_ptr) size_t *next = calloc(a->n_ranks + 1, sizeof(*next));
	CLEANUP(free_ptr) size_t *heap = calloc(a->n_ranks + 1, sizeof(*heap));
	struct walk w = { a, next, heap, a->n_ranks };

	if (!next || !heap)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		heap[i] = i;
	return walk_all(&w, fn, ctx);
}
