#include "crossrank/reference/reference.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/wording/wording.h"

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

const char *reference_note_name(enum note_code code)
{
	return note_texts[code].name;
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

void reference_note_text(const struct note *note, struct buf *out)
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
	return merging_add_note(a, &(struct note){ .code = NOTE_INSUFFICIENT_SAMPLES,
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
	size_t n_insufficient = 0;
	int r;
	__int128 cutoff;
	size_t n = 0;

	if (a->n_ranks == 0)
		return 0;
	if (a->n_ranks == 1)
		return merging_add_note(a, &(struct note){ .code = NOTE_SINGLE_RANK });
	r = note_insufficient(a, &n_insufficient);
	a->suspects = calloc(a->n_ranks, sizeof(*a->suspects));
	if (r < 0 || !a->suspects)
		return r < 0 ? r : -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++)
		a->n_suspects += find_spike(&a->ranks[i], &a->suspects[a->n_suspects]);
	if (a->n_suspects == 0)
		return merging_add_note(a, &(struct note){ .code = NOTE_NO_SPIKES });
	qsort(a->suspects, a->n_suspects, sizeof(*a->suspects), compare_suspects);
	if (a->n_suspects == 1)
		r = merging_add_note(a, &(struct note){ .code = NOTE_ONLY_ONE_SPIKE });
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
		reference_note_text(&a->notes[i], &text);
		json_str(j, text.data);
	}
	json_end_array(j);
	json_key_array(j, "note_codes");
	for (size_t i = 0; i < a->n_notes; i++)
		json_str(j, reference_note_name(a->notes[i].code));
	json_end_array(j);
	json_key_array(j, "note_details");
	for (size_t i = 0; i < a->n_notes; i++) {
		json_begin_object(j);
		json_key_string(j, "code", reference_note_name(a->notes[i].code));
		if (a->notes[i].code == NOTE_SKEWED_START) {
			json_key_i64(j, "rank", a->notes[i].rank);
			json_key_i64(j, "offset_ns", a->notes[i].offset_ns);
		}
		if (a->notes[i].ranks)
			write_ranks(j, "ranks", a->notes[i].ranks, a->notes[i].n_ranks);
		if (a->notes[i].n_ranks_all > a->notes[i].n_ranks)
			json_key_u64(j, "ranks_count", a->notes[i].n_ranks_all);
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
