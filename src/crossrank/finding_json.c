#include "crossrank/finding.h"

#include <math.h>

#include "base/macros.h"
#include "crossrank/strays.h"

#define BYTES_PER_MIB (1024.0 * 1024.0)

static void write_onset(struct json *j, const struct first_cause *f, const struct rise *rise)
{
	json_key_i64(j, "onset_ns", finding_ns(f, rise->onset.median));
	json_key(j, "onset_interval_ns");
	json_begin_array(j);
	if (rise->is_censored)
		json_none(j);
	else
		json_i64(j, finding_ns(f, rise->onset.low));
	json_i64(j, finding_ns(f, rise->onset.high));
	json_end_array(j);
}

static void write_rise(struct json *j, const struct first_cause *f, const struct candidate *c)
{
	const struct rise *rise = c->rise;

	json_key_i64(j, "gain_bytes", rise_gain_bytes(rise));
	json_key_string(j, "shape", rise->is_step ? "step" : "ramp");
	json_key_f64(j, "slope_bytes_per_second", rise->slope * BYTES_PER_MIB);
	json_key(j, "given_back_ns");
	if (c->is_given_back)
		json_i64(j, finding_ns(f, rise->gone));
	else
		json_none(j);
}

static void write_candidate(struct json *j, const struct first_cause *f, const struct candidate *c)
{
	json_begin_object(j);
	json_key_i64(j, "rank", c->rank->rank);
	json_key_f64(j, "probability", finding_probability(f, c));
	write_onset(j, f, c->rise);
	write_rise(j, f, c);
	json_end_object(j);
}

/* NaN is unknown. */
static void write_seconds(struct json *j, const char *key, const struct first_cause *f,
			  double seconds)
{
	json_key(j, key);
	if (isnan(seconds))
		json_none(j);
	else
		json_i64(j, finding_ns(f, seconds) - f->origin_ns);
}

/* The rank that is named; nulls where none is. */
static void write_named(struct json *j, const struct first_cause *f)
{
	if (f->rank) {
		json_key_i64(j, "rank", f->rank->rank);
		json_key_f64(j, "probability", f->candidates[0].probability);
		write_onset(j, f, f->candidates[0].rise);
		write_seconds(j, "lead_ns", f, f->lead);
		write_rise(j, f, &f->candidates[0]);
		json_key(j, "phase_attribution");
		phase_write_json(j, &f->phase);
		return;
	}
	json_key_null(j, "rank");
	json_key_f64(j, "probability",
		     f->verdict == VERDICT_CANNOT_TELL && f->n_candidates
			     ? finding_probability(f, &f->candidates[0])
			     : NAN);
	json_key_null(j, "onset_ns");
	json_key_null(j, "onset_interval_ns");
	json_key_null(j, "lead_ns");
	json_key_null(j, "phase_attribution");
}

static void write_words(struct json *j, const struct rank_analysis *a, const struct first_cause *f)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;

	finding_add_reason(&text, a, f);
	json_key_string(j, "reason", text.data);
	json_key_string(j, "reason_code", finding_why_name(f->why));
	buf_reset(&text);
	finding_add_remedy(&text, a, f);
	json_key_string(j, "settled_by", text.len ? text.data : NULL);
}

void finding_write_json(struct json *j, const struct rank_analysis *a, const struct first_cause *f)
{
	json_begin_object(j);
	json_key_string(j, "verdict", finding_verdict_name(f->verdict));
	write_named(j, f);
	json_key(j, "candidates");
	json_begin_array(j);
	for (size_t i = 0; i < f->n_candidates; i++)
		write_candidate(j, f, &f->candidates[i]);
	json_end_array(j);
	write_words(j, a, f);
	json_key_bool(j, "has_passed", f->has_passed);
	write_seconds(j, "lead_below_ns", f, f->lead_below);
	json_key(j, "least_rise_bytes");
	if (isnan(f->least_mib))
		json_none(j);
	else
		json_i64(j, (int64_t)(f->least_mib * BYTES_PER_MIB));
	json_key(j, "clocks");
	json_begin_object(j);
	json_key_u64(j, "count", f->n_clocks);
	if (f->has_free_clock)
		json_key_null(j, "error_ns");
	else
		json_key_i64(j, "error_ns", finding_ns(f, f->clock_error) - f->origin_ns);
	json_key_bool(j, "is_assumed", f->is_assumed);
	json_end_object(j);
	json_key_u64(j, "stray_records", strays_count(a));
	json_key_u64(j, "episodes", f->n_episodes);
	json_key_u64(j, "episodes_shared", f->n_shared);
	json_end_object(j);
}
