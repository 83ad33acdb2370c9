#include "crossrank/summary.h"

#include <stdio.h>

#include "crossrank/facts.h"
#include "crossrank/finding.h"

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

static void summary_write_i128(struct json *j, __int128 v)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	summary_add_i128(&text, v);
	json_raw(j, text.data, text.len);
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
	json_key(j, "aligned_first_spike_timestamp_ns");
	summary_write_i128(j, s->aligned_ns);
	json_key_i64(j, "peak_delta_bytes", s->delta_bytes);
	json_key_i64(j, "spike_window_samples", s->n_window);
	json_key(j, "lead_over_cluster_onset_ns");
	summary_write_i128(j, s->lead_ns);
	json_key_string(j, "confidence", s->confidence);
	json_key_object(j, "evidence");
	json_key_i64(j, "device_used_delta_bytes", s->delta_bytes);
	json_key_u64(j, "supporting_ranks_at_or_before_onset", a->n_suspects);
	json_end_object(j);
	json_key(j, "phase_attribution");
	phase_write_json(j, &s->phase);
	json_end_object(j);
}

/* A sentence for people, a word for programs, and a word with its numbers. */
static void write_notes(struct json *j, const struct rank_analysis *a)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	json_key_array(j, "notes");
	for (size_t i = 0; i < a->n_notes; i++) {
		buf_reset(&text);
		analysis_note_text(&a->notes[i], &text);
		json_str(j, text.data);
	}
	json_end_array(j);
	json_key_array(j, "note_codes");
	for (size_t i = 0; i < a->n_notes; i++)
		json_str(j, analysis_note_name(a->notes[i].code));
	json_end_array(j);
	json_key_array(j, "note_details");
	for (size_t i = 0; i < a->n_notes; i++) {
		json_begin_object(j);
		json_key_string(j, "code", analysis_note_name(a->notes[i].code));
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
	json_key(j, "job_id");
	if (a->job_id.s)
		json_str_n(j, a->job_id.s, a->job_id.n);
	else
		json_none(j);
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
	json_key(j, "cluster_onset_timestamp_ns");
	if (a->has_cluster_onset)
		summary_write_i128(j, a->cluster_onset_ns);
	else
		json_none(j);
	json_key_array(j, "first_cause_suspects");
	for (size_t i = 0; i < a->n_suspects; i++)
		write_suspect(j, a, &a->suspects[i]);
	json_end_array(j);
	write_notes(j, a);
	if (a->n_missing_all > a->n_missing)
		json_key_u64(j, "missing_ranks_count", a->n_missing_all);
	json_key_i64(j, "median_interval_ns", a->median_interval_ns);
}

void summary_write_all(struct json *j, const struct rank_analysis *a)
{
	summary_write_compat(j, a);
	/* Jobs whose records are there, too, and do not count. */
	json_key_array(j, "left_out_jobs");
	for (size_t i = 0; i < a->n_others; i++) {
		json_begin_object(j);
		json_key(j, "job_id");
		if (a->others[i].job_id.s)
			json_str_n(j, a->others[i].job_id.s, a->others[i].job_id.n);
		else
			json_none(j);
		json_key_u64(j, "samples", a->others[i].n_samples);
		json_end_object(j);
	}
	json_end_array(j);
	if (a->n_others_all > a->n_others)
		json_key_u64(j, "left_out_jobs_count", a->n_others_all);
	json_key(j, "finding");
	finding_write_json(j, a, a->finding);
	facts_write_json(j, a, a->facts);
}
