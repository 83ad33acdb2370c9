#include "crossrank/analysis.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/facts.h"
#include "crossrank/finding.h"
#include "crossrank/select.h"
#include "stats/select.h"

#define MAX_NAMED 16 /* ranks in a sentence; the JSON lists them */

/* ---- notes ---- */

static const struct {
	const char *name, *sentence;
} note_texts[] = {
	[NOTE_NO_EVENTS] = { "no_events", "There are no records." },
	[NOTE_IGNORED_NON_SAMPLE_EVENTS] = { "ignored_non_sample_events",
					     "Records that are no samples do not count as samples." },
	[NOTE_NO_SAMPLE_EVENTS] = { "no_sample_events", "There are no samples." },
	[NOTE_MULTIPLE_JOB_IDS] = { "multiple_job_ids",
				    "There are several jobs: only the most common one counts, and left "
				    "out are " },
	[NOTE_MISSING_RANKS] = { "missing_ranks", "There is nothing of these ranks: " },
	[NOTE_SKEWED_START] = { "skewed_start", NULL },
	[NOTE_SINGLE_RANK] = { "single_rank", "It takes two ranks to say which was first." },
	[NOTE_INSUFFICIENT_SAMPLES] = { "insufficient_samples",
					"With fewer than two samples these ranks show no rise: " },
	[NOTE_NO_SPIKES] = { "no_spikes", "No rank rose by enough to be a suspect." },
	[NOTE_ONLY_ONE_SPIKE] = { "only_one_spike",
				  "Only one rank rose by enough to be a suspect." },
};

const char *analysis_note_name(enum note_code code)
{
	return note_texts[code].name;
}

static int add_note(struct rank_analysis *a, const struct note *note)
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
	return add_note(a, &(struct note){ .code = code });
}

/* Names are of any length. */
#define MAX_NAME 200

static void add_name(struct buf *out, struct text name)
{
	size_t i = 0;

	while (i < name.n && i < MAX_NAME)
		i += utf8_add_shown(out, name.s + i, name.n - i);
	if (i < name.n)
		buf_add_str(out, "...");
}

static void add_others(struct buf *out, const struct note *note)
{
	for (size_t i = 0; i < note->n_others; i++) {
		const struct other_job *o = &note->others[i];

		buf_add_str(out, i > 0 ? ", " : "");
		if (o->job_id.s)
			add_name(out, o->job_id);
		else
			buf_add_str(out, "records that name no job");
		buf_printf(out, " (%llu sample%s)", (unsigned long long)o->n_samples,
			   o->n_samples == 1 ? "" : "s");
	}
	if (note->n_others_all > note->n_others)
		buf_printf(out, " and %zu more", note->n_others_all - note->n_others);
	buf_add_str(out, ". Hosts of one job need one id: \"proctor run --job ID\" on each.");
}

void analysis_note_text(const struct note *note, struct buf *out)
{
	if (note->code == NOTE_SKEWED_START) {
		buf_printf(out, "The first sample of rank %lld is ", (long long)note->rank);
		finding_add_seconds(out, fabs((double)note->offset_ns) / 1e9);
		buf_add_str(out, " away from that of the first rank: aligning the two is a guess.");
		return;
	}
	buf_add_str(out, note_texts[note->code].sentence);
	if (note->ranks) {
		for (size_t i = 0; i < note->n_ranks && i < MAX_NAMED; i++)
			buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)note->ranks[i]);
		if (note->n_ranks_all > MAX_NAMED)
			buf_printf(out, " and %llu more",
				   (unsigned long long)(note->n_ranks_all - MAX_NAMED));
		buf_add_char(out, '.');
	}
	if (note->others)
		add_others(out, note);
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
static int interval_median(const struct rank_analysis *a, bool of_totals, int64_t *ret_ns)
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

/* ---- suspects ---- */

/*
 * compat: the reference's rule. A rank is a suspect when its memory rose without a pause
 * by 64 MiB and by a tenth of its peak, at or before the second rank that did so.
 */
#define SPIKE_MIN_BYTES (INT64_C(64) * 1024 * 1024)
#define SPIKE_SHARE 0.10

static int64_t spike_threshold(const struct stream *s)
{
	int64_t max = 0, share;

	for (size_t i = 0; i < s->n; i++)
		max = s->samples[i].used_bytes > max ? s->samples[i].used_bytes : max;
	/* Through a double on purpose: a tenth of a whole number differs above 2^53. */
	share = (int64_t)((double)max * SPIKE_SHARE);
	return share > SPIKE_MIN_BYTES ? share : SPIKE_MIN_BYTES;
}

static bool find_spike(const struct rank *rank, struct suspect *ret)
{
	const struct stream *s = rank->stream;
	int64_t threshold = spike_threshold(s), rise = 0, n_window = 0;

	for (size_t i = 1; i < s->n; i++) {
		int64_t delta = s->samples[i].used_bytes - s->samples[i - 1].used_bytes;

		if (delta <= 0) {
			rise = n_window = 0;
			continue;
		}
		rise += delta;
		n_window++;
		if (rise < threshold)
			continue;
		*ret = (struct suspect){ .rank = rank,
					 .at = &s->samples[i],
					 .aligned_ns = (__int128)s->samples[i].timestamp_ns -
						       rank->offset_ns,
					 .delta_bytes = rise,
					 .n_window = n_window };
		return true;
	}
	return false;
}

/* The earliest first; of those the largest rise, then the lowest rank. */
static int compare_suspects(const void *l, const void *r)
{
	const struct suspect *a = l, *b = r;

	if (a->aligned_ns != b->aligned_ns)
		return a->aligned_ns < b->aligned_ns ? -1 : 1;
	if (a->delta_bytes != b->delta_bytes)
		return a->delta_bytes > b->delta_bytes ? -1 : 1;
	return (a->rank->rank > b->rank->rank) - (a->rank->rank < b->rank->rank);
}

/* Ranks with one sample can show no rise. */
static int note_insufficient(struct rank_analysis *a, size_t *ret_n)
{
	int64_t *ranks = arena_alloc(&a->arena, a->n_ranks * sizeof(*ranks));
	size_t n = 0;

	if (!ranks)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		if (a->ranks[i].stream->n < 2)
			ranks[n++] = a->ranks[i].rank;
	*ret_n = n;
	if (n == 0)
		return 0;
	return add_note(a, &(struct note){ .code = NOTE_INSUFFICIENT_SAMPLES,
					   .ranks = ranks,
					   .n_ranks = n,
					   .n_ranks_all = n });
}

static const char *confidence_of(const struct rank_analysis *a, const struct suspect *s,
				 bool is_sparse, bool is_alone)
{
	const struct suspect *first = &a->suspects[0];

	if (!a->has_cluster_onset || s->aligned_ns != first->aligned_ns)
		return "low";
	if (is_alone && !is_sparse &&
	    (a->median_interval_ns <= 0 || s->lead_ns >= a->median_interval_ns))
		return "high";
	return is_sparse ? "low" : "medium";
}

static int fill_suspects(struct rank_analysis *a, bool is_sparse)
{
	size_t n_first = 0;
	int r = 0;

	for (size_t i = 0; i < a->n_suspects; i++)
		n_first += a->suspects[i].aligned_ns == a->suspects[0].aligned_ns;
	for (size_t i = 0; r == 0 && i < a->n_suspects; i++) {
		struct suspect *s = &a->suspects[i];
		const struct identity *id = &a->telemetry->identities[s->at->identity];

		s->lead_ns = a->has_cluster_onset ? a->cluster_onset_ns - s->aligned_ns : 0;
		s->confidence = confidence_of(a, s, is_sparse, n_first == 1);
		r = phases_resolve(&a->phases, s->at->timestamp_ns, id->session_id, s->rank->rank,
				   &s->phase);
	}
	return r;
}

int analysis_find_suspects(struct rank_analysis *a)
{
	size_t n_insufficient = 0;
	int r;
	__int128 cutoff;
	size_t n = 0;

	if (a->n_ranks == 0)
		return 0;
	if (a->n_ranks == 1)
		return add_code(a, NOTE_SINGLE_RANK);
	r = note_insufficient(a, &n_insufficient);
	a->suspects = calloc(a->n_ranks, sizeof(*a->suspects));
	if (r < 0 || !a->suspects)
		return r < 0 ? r : -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		a->n_suspects += find_spike(&a->ranks[i], &a->suspects[a->n_suspects]);
	if (a->n_suspects == 0)
		return add_code(a, NOTE_NO_SPIKES);
	qsort(a->suspects, a->n_suspects, sizeof(*a->suspects), compare_suspects);
	if (a->n_suspects == 1)
		r = add_code(a, NOTE_ONLY_ONE_SPIKE);
	/* Only those at or before the onset of the second are suspects. */
	cutoff = a->suspects[0].aligned_ns;
	if (a->n_suspects >= 2) {
		a->has_cluster_onset = true;
		a->cluster_onset_ns = cutoff = a->suspects[1].aligned_ns;
	}
	while (n < a->n_suspects && a->suspects[n].aligned_ns <= cutoff)
		n++;
	a->n_suspects = n;
	return r < 0 ? r : fill_suspects(a, a->n_missing_all > 0 || n_insufficient > 0);
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
			r = add_note(a, &(struct note){ .code = NOTE_SKEWED_START,
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
		r = add_note(a, &(struct note){ .code = NOTE_MISSING_RANKS,
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
		r = add_note(a, &(struct note){ .code = NOTE_MULTIPLE_JOB_IDS,
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
