#include "learn/words.h"

#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"

static const char *const grade_names[] = { "none", "suggestive", "supported", "confirmed" };

const char *grade_name(enum grade grade)
{
	return grade_names[grade];
}

static void add_runs_of(struct buf *out, const struct finding *f)
{
	if (f->label)
		buf_printf(out, "runs of `%s` ", f->label);
	else
		buf_add_str(out, "runs ");
}

/* 0.003, 0.00012, 0.04 */
static void add_p(struct buf *out, double p)
{
	buf_printf(out, p < 0.001 ? "%.1g" : p < 0.1 ? "%.2g" : "%.2f", p);
}

static void add_censoring(struct buf *out, const struct finding *f)
{
	bool is_named = strchr(f->feature, ':');

	if (!f->is_censored)
		return;
	buf_add_str(out, is_named ? " (censored: it may have come with the end"
				  : " (censored: a failure cuts this short");
	buf_add_str(out, f->may_follow ? ", so it may be a consequence and no cause)" : ")");
}

static void add_tested(struct buf *out, const struct finding *f)
{
	const struct effect_side *in = &f->effect.in, *rest = &f->effect.out;

	add_runs_of(out, f);
	buf_printf(out,
		   "%s failed %zu of %zu times (95 %% interval %.0f to %.0f %%); others %zu of %zu",
		   f->phrase, in->n_failed, in->n, in->interval.low * 100, in->interval.high * 100,
		   rest->n_failed, rest->n);
	buf_add_str(out, "; adjusted p ");
	add_p(out, f->p);
	buf_printf(out, ", %s", grade_name(f->grade));
	add_censoring(out, f);
}

/* No rate and no interval: so few say that it was so, not that it will be. */
static void add_untested(struct buf *out, const struct finding *f)
{
	const struct effect_side *in = &f->effect.in, *rest = &f->effect.out;

	buf_printf(out, "suggestive: %zu of %zu failures and %zu of %zu passes ", in->n_failed,
		   in->n_failed + rest->n_failed, in->n - in->n_failed,
		   in->n - in->n_failed + (rest->n - rest->n_failed));
	if (f->label)
		buf_printf(out, "of `%s` ", f->label);
	buf_printf(out, "were runs %s; %zu runs cannot give a p below ", f->phrase, f->n_runs);
	add_p(out, f->p_floor);
	add_censoring(out, f);
}

const char *words_of_finding(const struct finding *f, struct arena *arena)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;

	if (f->is_tested)
		add_tested(&out, f);
	else
		add_untested(&out, f);
	return buf_error(&out) < 0 ? NULL : arena_strndup(arena, out.data, out.len);
}

/* ---- JSON ---- */

static void write_side(struct json *j, const char *key, const struct effect_side *side)
{
	json_key(j, key);
	json_begin_object(j);
	json_key_u64(j, "runs", side->n);
	json_key_u64(j, "failures", side->n_failed);
	json_key_f64(j, "failure_rate", side->rate);
	json_key(j, "interval_95");
	json_begin_array(j);
	json_f64(j, side->interval.low);
	json_f64(j, side->interval.high);
	json_end_array(j);
	json_end_object(j);
}

static void write_effect(struct json *j, const struct effect *e)
{
	json_key_string(j, "direction", e->is_above ? "above" : "at most");
	json_key_f64(j, "threshold", e->threshold);
	write_side(j, "inside", &e->in);
	write_side(j, "others", &e->out);
	json_key_f64(j, "risk_difference", e->risk_difference);
	json_key_f64(j, "odds_ratio", e->odds_ratio);
	json_key_f64(j, "leave_one_out_accuracy", e->loo_accuracy);
}

static void write_finding(struct json *j, const struct finding *f)
{
	json_begin_object(j);
	json_key_string(j, "class", f->label);
	json_key_string(j, "feature", f->feature);
	json_key_string(j, "grade", grade_name(f->grade));
	json_key_string(j, "sentence", f->sentence);
	json_key_bool(j, "tested", f->is_tested);
	json_key_f64(j, "p_adjusted", f->p);
	json_key_f64(j, "p_unadjusted", f->is_tested ? f->p_alone : F64_UNKNOWN);
	json_key_f64(j, "p_floor", f->p_floor);
	json_key_u64(j, "permutations", f->n_deals);
	json_key_bool(j, "exact", f->is_exact);
	json_key_f64(j, "auc", f->auc);
	json_key_bool(j, "censored", f->is_censored);
	json_key_bool(j, "may_be_consequence", f->may_follow);
	json_key_u64(j, "runs", f->n_runs);
	json_key_u64(j, "failures", f->n_failed);
	write_effect(j, &f->effect);
	json_end_object(j);
}

void analysis_write_findings(struct json *j, const struct analysis *a)
{
	json_begin_array(j);
	for (size_t i = 0; i < a->n; i++)
		write_finding(j, &a->findings[i]);
	json_end_array(j);
}
