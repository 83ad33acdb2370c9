#include "base/unknown.h"
#include "model/run_record.h"
#include "report/json.h"

static void write_value(struct json *j, const char *key, const struct standing_value *v)
{
	json_key(j, key);
	json_begin_object(j);
	json_key_f64(j, "value", v->value);
	json_key_f64(j, "median", v->median);
	json_key_f64(j, "low", v->low);
	json_key_f64(j, "high", v->high);
	json_key_u64(j, "runs", v->n);
	json_key_u64(j, "runs_below", v->n_below);
	json_key_u64(j, "runs_above", v->n_above);
	json_key_bool(j, "unusual", v->is_unusual);
	json_end_object(j);
}

/* 1, 0, and -1 for what cannot be told. */
static void key_score(struct json *j, const char *key, int is_covered)
{
	if (is_covered < 0)
		json_key_null(j, key);
	else
		json_key_bool(j, key, is_covered);
}

static void write_expected(struct json *j, const struct standing *s)
{
	const struct estimate *e = &s->expected;

	json_key(j, "expected");
	json_begin_object(j);
	json_key_string(j, "basis", e->n_runs ? s->expected_basis : "no data");
	json_key_u64(j, "runs", e->n_runs);
	json_key_f64(j, "estimated_peak_memory_mb", e->peak_rss_mb);
	json_key_f64(j, "confidence", e->peak_coverage);
	json_key_f64(j, "estimated_cpu_seconds", e->cpu_seconds);
	json_key_f64(j, "cpu_seconds_90", e->cpu_high_seconds);
	json_key_f64(j, "cpu_coverage", e->cpu_coverage);
	json_key_f64(j, "estimated_wall_seconds", e->wall_seconds);
	key_score(j, "peak_covered", s->score.is_peak_covered);
	key_score(j, "cpu_covered", s->score.is_cpu_covered);
	json_end_object(j);
}

void json_write_standing(struct json *j, const struct standing *s)
{
	static const char *const keys[STANDING_COUNT] = {
		[STANDING_WALL] = "wall_seconds",
		[STANDING_CPU] = "total_cpu_seconds",
		[STANDING_PEAK] = "peak_rss_mb",
	};

	if (!s) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	json_key_string(j, "basis", s->basis);
	json_key_u64(j, "others", s->n_others);
	json_key_u64(j, "others_failed", s->n_failed);
	json_key_string(j, "usual_of", s->is_by_success ? "success" : "all");
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++)
		write_value(j, keys[q], &s->values[q]);
	write_expected(j, s);
	json_end_object(j);
}
