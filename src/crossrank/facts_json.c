#include "crossrank/facts.h"

#include <math.h>

#include "base/num.h"
#include "base/macros.h"

static const struct {
	enum gap_kind kind;
	const char *name;
} kinds[] = {
	{ GAP_TRANSIENT_SPIKE, "transient_spike" },
	{ GAP_PERSISTENT_DRIFT, "persistent_drift" },
	{ GAP_FRAGMENTATION_LIKE, "fragmentation_like" },
};

static void add_number(struct buf *out, const struct rank_facts *f, enum gap_kind kind)
{
	if (kind == GAP_FRAGMENTATION_LIKE) {
		buf_printf(out, " (%.0f %% unallocated)", f->unallocated_share * 100);
	} else if (kind == GAP_PERSISTENT_DRIFT) {
		buf_add_str(out, " (");
		num_add_bytes(out, (uint64_t)f->drift_bytes_per_second);
		buf_printf(out, "/s, R² %.2f)", f->drift_r_squared);
	} else if (!isnan(f->spike_sigmas)) {
		buf_printf(out, " (%.0f sigma)", f->spike_sigmas);
	}
}

void facts_add_gap_kinds(struct buf *out, const struct rank_facts *f)
{
	const char *between = "";

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (f->gap_kinds & kinds[i].kind) {
			buf_printf(out, "%s%s", between, kinds[i].name);
			add_number(out, f, kinds[i].kind);
			between = ", ";
		}
}

static void write_gap(struct json *j, const struct rank_facts *f)
{
	json_key(j, "hidden_gap");
	json_begin_object(j);
	json_key_i64(j, "max_bytes", f->gap_max_bytes);
	json_key_i64(j, "max_ns", f->gap_max_ns);
	json_key_f64(j, "mean_bytes", f->gap_mean_bytes);
	json_key_i64(j, "last_bytes", f->gap_last_bytes);
	json_key_f64(j, "unallocated_share", f->unallocated_share);
	json_key_f64(j, "drift_bytes_per_second", f->drift_bytes_per_second);
	json_key_f64(j, "drift_r_squared", f->drift_r_squared);
	json_key_f64(j, "spike_sigmas", f->spike_sigmas);
	json_key(j, "classification");
	json_begin_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (f->gap_kinds & kinds[i].kind)
			json_str(j, kinds[i].name);
	json_end_array(j);
	if (f->gap_kinds & GAP_TRANSIENT_SPIKE)
		json_key_bool(j, "is_spike_collective", f->is_spike_collective);
	json_end_object(j);
}

static void write_rank(struct json *j, const struct rank_analysis *a, size_t i,
		       const struct rank_facts *f)
{
	const struct stream *s = a->ranks[i].stream;
	struct text host = a->telemetry->identities[s->samples[0].identity].host;

	json_begin_object(j);
	json_key_i64(j, "rank", a->ranks[i].rank);
	json_key(j, "host");
	json_str_n(j, host.s, host.n);
	json_key_u64(j, "samples", s->n);
	json_key_u64(j, "missed_stretches", f->n_missed);
	json_key_i64(j, "first_ns", f->first_ns);
	json_key_i64(j, "last_ns", f->last_ns);
	json_key_i64(j, "first_used_bytes", f->first_bytes);
	json_key_i64(j, "last_used_bytes", f->last_bytes);
	json_key_i64(j, "delta_bytes", f->last_bytes - f->first_bytes);
	json_key_i64(j, "peak_used_bytes", f->peak_bytes);
	json_key_i64(j, "peak_ns", f->peak_ns);
	write_gap(j, f);
	json_key_u64(j, "steps", f->n_steps);
	json_key_f64(j, "step_seconds", f->step_seconds);
	json_key_u64(j, "steps_compared", f->n_compared);
	json_key_u64(j, "steps_longest", f->n_longest);
	json_key_f64(j, "straggler_p", f->straggler_p);
	json_key_bool(j, "is_straggler", f->is_straggler);
	json_end_object(j);
}

/* There is none where there are no samples. */
static void write_peak(struct json *j, const struct rank_analysis *a, const char *key, int64_t v)
{
	json_key(j, key);
	if (a->n_ranks > 0)
		json_i64(j, v);
	else
		json_none(j);
}

void facts_write_json(struct json *j, const struct rank_analysis *a, const struct facts *f)
{
	json_key(j, "ranks");
	json_begin_array(j);
	for (size_t i = 0; i < a->n_ranks; i++)
		write_rank(j, a, i, &f->ranks[i]);
	json_end_array(j);
	json_key(j, "memory");
	json_begin_object(j);
	write_peak(j, a, "sum_of_peaks_bytes", f->sum_of_peaks_bytes);
	write_peak(j, a, "same_instant_peak_bytes", f->instant_peak.bytes);
	write_peak(j, a, "same_instant_peak_ns", f->instant_peak.ns);
	json_end_object(j);
	json_key(j, "steps");
	json_begin_object(j);
	json_key_f64(j, "median_seconds", f->step_seconds);
	json_key(j, "stragglers");
	json_begin_array(j);
	for (size_t i = 0; i < a->n_ranks; i++)
		if (f->ranks[i].is_straggler)
			json_i64(j, a->ranks[i].rank);
	json_end_array(j);
	json_end_object(j);
}
