#include "crossrank/reference/reference.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/wording/wording.h"

#define MAX_NAMED 16	 /* ranks in a sentence; the JSON lists them */
#define SKEW_INTERVALS 5 /* a start further away than so many is noted */

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

static void add_others(struct buf *out, const struct rank_analysis *a)
{
	for (size_t i = 0; i < a->n_others; i++) {
		const struct other_job *o = &a->others[i];

		buf_add_str(out, i > 0 ? ", " : "");
		if (o->job_id.s)
			add_name(out, o->job_id);
		else
			buf_add_str(out, "records that name no job");
		buf_printf(out, " (%llu sample%s)", (unsigned long long)o->n_samples,
			   o->n_samples == 1 ? "" : "s");
	}
	if (a->n_others_all > a->n_others)
		buf_printf(out, " and %zu more", a->n_others_all - a->n_others);
	buf_add_str(out, ". Hosts of one job need one id: \"proctor run --job ID\" on each.");
}

/* The ranks that a note is about, of n_all; NULL: about none. */
static const int64_t *ranks_of(const struct rank_analysis *a, enum note_code code, size_t *ret_n,
			       uint64_t *ret_n_all)
{
	bool is_few = code == NOTE_INSUFFICIENT_SAMPLES;

	*ret_n = is_few ? a->n_few : a->n_missing;
	*ret_n_all = is_few ? a->n_few : a->n_missing_all;
	return is_few ? a->few : code == NOTE_MISSING_RANKS ? a->missing : NULL;
}

void reference_note_text(const struct rank_analysis *a, const struct note *note, struct buf *out)
{
	uint64_t n_all;
	size_t n;
	const int64_t *ranks = ranks_of(a, note->code, &n, &n_all);

	if (note->code == NOTE_SKEWED_START) {
		buf_printf(out, "The first sample of rank %lld is ", (long long)note->rank->rank);
		finding_add_seconds(out, fabs((double)note->rank->offset_ns) / 1e9);
		buf_add_str(out, " away from that of the first rank: aligning the two is a guess.");
		return;
	}
	buf_add_str(out, note_texts[note->code].sentence);
	if (note->code == NOTE_MULTIPLE_JOB_IDS)
		add_others(out, a);
	if (!ranks)
		return;
	for (size_t i = 0; i < n && i < MAX_NAMED; i++)
		buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)ranks[i]);
	if (n_all > MAX_NAMED)
		buf_printf(out, " and %llu more", (unsigned long long)(n_all - MAX_NAMED));
	buf_add_char(out, '.');
}

/* Whether a rank starts much later than the first, or earlier. */
static bool is_skewed(const struct rank_analysis *a, const struct rank *rank)
{
	__int128 offset = rank->offset_ns;

	return a->median_interval_ns > 0 &&
	       (offset < 0 ? -offset : offset) > (__int128)SKEW_INTERVALS * a->median_interval_ns;
}

/* After the suspects were found. */
static int find_notes(struct rank_analysis *a)
{
	const struct telemetry *t = a->telemetry;
	bool has_several = a->n_ranks > 1;
	const bool is_true[N_NOTES] = {
		[NOTE_NO_EVENTS] = t->n_events == 0,
		[NOTE_IGNORED_NON_SAMPLE_EVENTS] = t->n_samples != t->n_events,
		[NOTE_NO_SAMPLE_EVENTS] = t->n_samples == 0,
		[NOTE_MULTIPLE_JOB_IDS] = a->n_others_all > 0,
		[NOTE_MISSING_RANKS] = a->n_missing_all > 0,
		[NOTE_SINGLE_RANK] = a->n_ranks == 1,
		[NOTE_INSUFFICIENT_SAMPLES] = has_several && a->n_few > 0,
		[NOTE_NO_SPIKES] = has_several && a->n_suspects == 0,
		[NOTE_ONLY_ONE_SPIKE] = a->n_suspects == 1 && !a->has_cluster_onset,
	};

	a->notes = arena_alloc(&a->arena, (N_NOTES + a->n_ranks) * sizeof(*a->notes));
	if (!a->notes)
		return -ENOMEM;
	for (enum note_code code = 0; code < N_NOTES; code++) {
		if (is_true[code])
			a->notes[a->n_notes++] = (struct note){ code, NULL };
		for (size_t i = 0; code == NOTE_SKEWED_START && i < a->n_ranks; i++)
			if (is_skewed(a, &a->ranks[i]))
				a->notes[a->n_notes++] = (struct note){ code, &a->ranks[i] };
	}
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
	int order = COMPARE(a->aligned_ns, b->aligned_ns);

	order = order ?: COMPARE(b->delta_bytes, a->delta_bytes);
	return order ?: COMPARE(a->rank->rank, b->rank->rank);
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
		const struct identity *id = identity_of(a->telemetry, s->at);

		s->lead_ns = a->has_cluster_onset ? a->cluster_onset_ns - s->aligned_ns : 0;
		s->confidence = confidence_of(a, s, is_sparse, n_first == 1);
		r = phases_resolve(&a->phases, s->at->timestamp_ns, id->session_id, s->rank->rank,
				   &s->phase);
	}
	return r;
}

int reference_find_suspects(struct rank_analysis *a)
{
	size_t n_spikes = 0;
	__int128 cutoff;
	int r;

	a->suspects = arena_alloc(&a->arena, (a->n_ranks + 1) * sizeof(*a->suspects));
	a->few = arena_alloc(&a->arena, (a->n_ranks + 1) * sizeof(*a->few));
	if (!a->suspects || !a->few)
		return -ENOMEM;
	for (size_t i = 0; a->n_ranks > 1 && i < a->n_ranks; i++) {
		if (a->ranks[i].stream->n < 2) /* shows no rise */
			a->few[a->n_few++] = a->ranks[i].rank;
		n_spikes += find_spike(&a->ranks[i], &a->suspects[n_spikes]);
	}
	if (n_spikes == 0)
		return find_notes(a);
	qsort(a->suspects, n_spikes, sizeof(*a->suspects), compare_suspects);
	/* Only those at or before the onset of the second are suspects. */
	cutoff = a->suspects[0].aligned_ns;
	if (n_spikes >= 2) {
		a->has_cluster_onset = true;
		a->cluster_onset_ns = cutoff = a->suspects[1].aligned_ns;
	}
	while (a->n_suspects < n_spikes && a->suspects[a->n_suspects].aligned_ns <= cutoff)
		a->n_suspects++;
	r = fill_suspects(a, a->n_missing_all > 0 || a->n_few > 0);
	return r < 0 ? r : find_notes(a);
}

/* ---- JSON ---- */

void summary_add_i128(struct buf *out, __int128 v)
{
	unsigned __int128 rest = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
	char digits[48], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + (int)(rest % 10));
	while ((rest /= 10) > 0);
	if (v < 0)
		*--at = '-';
	buf_add(out, at, (size_t)(digits + sizeof(digits) - at));
}

static void write_i128(struct json *j, const char *key, __int128 v)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	summary_add_i128(&text, v);
	json_key(j, key);
	json_raw(j, text.data, text.len);
}

void summary_write_text(struct json *j, const char *key, struct text text)
{
	json_key(j, key);
	if (text.s)
		json_str_n(j, text.s, text.n);
	else
		json_none(j);
}

void summary_write_known(struct json *j, const char *key, bool is_known, int64_t v)
{
	json_key(j, key);
	if (is_known)
		json_i64(j, v);
	else
		json_none(j);
}

void summary_write_phase(struct json *j, const char *key, const struct phase_place *place)
{
	if (place->n_paths == 0) {
		json_key_null(j, key);
		return;
	}
	json_key_object(j, key);
	json_key_string(j, "phase_resolution", place->only ? "unique" : "ambiguous");
	json_key_array(j, "phase_paths");
	for (size_t i = 0; i < place->n_paths; i++)
		json_str_n(j, place->paths[i].s, place->paths[i].n);
	json_end_array(j);
	if (place->only) {
		json_key_string(j, "phase_source", "heuristic");
		summary_write_text(j, "phase_path", place->only->opened->label);
		summary_write_text(j, "scope_id", place->only->opened->scope_id);
		json_key_i64(j, "thread_id", place->only->opened->thread_id);
		summary_write_text(j, "thread_name", place->only->thread_name);
	} else if (place->likely.s) {
		json_key_object(j, "phase_summary");
		summary_write_text(j, "phase_path", place->likely);
		json_key_string(j, "source", "heuristic");
		json_end_object(j);
	}
	json_end_object(j);
}

static void write_ranks(struct json *j, const char *key, const int64_t *ranks, size_t n)
{
	json_key_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_i64(j, ranks[i]);
	json_end_array(j);
}

static void write_rank_key(struct json *j, const struct rank *rank)
{
	char name[24];

	snprintf(name, sizeof(name), "%lld", (long long)rank->rank);
	json_key(j, name);
}

static void write_suspect(struct json *j, const struct rank_analysis *a, const struct suspect *s)
{
	json_begin_object(j);
	json_key_i64(j, "rank", s->rank->rank);
	json_key_i64(j, "first_spike_timestamp_ns", s->at->timestamp_ns);
	write_i128(j, "aligned_first_spike_timestamp_ns", s->aligned_ns);
	json_key_i64(j, "peak_delta_bytes", s->delta_bytes);
	json_key_i64(j, "spike_window_samples", s->n_window);
	write_i128(j, "lead_over_cluster_onset_ns", s->lead_ns);
	json_key_string(j, "confidence", s->confidence);
	json_key_object(j, "evidence");
	json_key_i64(j, "device_used_delta_bytes", s->delta_bytes);
	json_key_u64(j, "supporting_ranks_at_or_before_onset", a->n_suspects);
	json_end_object(j);
	summary_write_phase(j, "phase_attribution", &s->phase);
	json_end_object(j);
}

/* A sentence for people, a word for programs, and a word with its numbers. */
static void write_notes(struct json *j, const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	json_key_array(j, "notes");
	for (size_t i = 0; i < a->n_notes; i++) {
		buf_reset(&text);
		reference_note_text(a, &a->notes[i], &text);
		json_str(j, text.data);
	}
	json_end_array(j);
	json_key_array(j, "note_codes");
	for (size_t i = 0; i < a->n_notes; i++)
		json_str(j, note_texts[a->notes[i].code].name);
	json_end_array(j);
	json_key_array(j, "note_details");
	for (size_t i = 0; i < a->n_notes; i++) {
		const struct note *note = &a->notes[i];
		uint64_t n_all;
		size_t n;
		const int64_t *ranks = ranks_of(a, note->code, &n, &n_all);

		json_begin_object(j);
		json_key_string(j, "code", note_texts[note->code].name);
		if (note->rank) {
			json_key_i64(j, "rank", note->rank->rank);
			json_key_i64(j, "offset_ns", note->rank->offset_ns);
		}
		if (ranks)
			write_ranks(j, "ranks", ranks, n);
		if (ranks && n_all > n)
			json_key_u64(j, "ranks_count", n_all);
		json_end_object(j);
	}
	json_end_array(j);
}

void summary_write_compat(struct json *j, const struct rank_analysis *a)
{
	summary_write_text(j, "job_id", a->job_id);
	json_key_i64(j, "world_size", a->world_size);
	json_key_array(j, "participating_ranks");
	for (size_t i = 0; i < a->n_ranks; i++)
		json_i64(j, a->ranks[i].rank);
	json_end_array(j);
	write_ranks(j, "missing_ranks", a->missing, a->n_missing);
	/* Counts are in the order in which ranks were seen, offsets in that of the ranks. */
	json_key_object(j, "rank_sample_counts");
	for (size_t i = 0; i < a->n_ranks; i++) {
		write_rank_key(j, a->seen_order[i]);
		json_u64(j, a->seen_order[i]->stream->n);
	}
	json_end_object(j);
	json_key_object(j, "alignment_offsets_ns");
	for (size_t i = 0; i < a->n_ranks; i++) {
		write_rank_key(j, &a->ranks[i]);
		json_i64(j, a->ranks[i].offset_ns);
	}
	json_end_object(j);
	if (a->has_cluster_onset)
		write_i128(j, "cluster_onset_timestamp_ns", a->cluster_onset_ns);
	else
		json_key_null(j, "cluster_onset_timestamp_ns");
	json_key_array(j, "first_cause_suspects");
	for (size_t i = 0; i < a->n_suspects; i++)
		write_suspect(j, a, &a->suspects[i]);
	json_end_array(j);
	write_notes(j, a);
	if (a->n_missing_all > a->n_missing)
		json_key_u64(j, "missing_ranks_count", a->n_missing_all);
	json_key_i64(j, "median_interval_ns", a->median_interval_ns);
}
