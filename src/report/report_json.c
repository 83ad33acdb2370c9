#include "report/facts.h"

#include <stdio.h>

#include "base/json.h"
#include "base/unknown.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/run_record.h"

/* ---- runs like this ---- */

/* 1, 0, and -1 for what cannot be told. */
static void key_score(struct json *j, const char *key, int is_covered)
{
	if (is_covered < 0)
		json_key_null(j, key);
	else
		json_key_bool(j, key, is_covered);
}

static void json_write_standing(struct json *j, const struct standing *s)
{
	static const char *const keys[STANDING_COUNT] = {
		[STANDING_WALL] = "wall_seconds",
		[STANDING_CPU] = "total_cpu_seconds",
		[STANDING_PEAK] = "peak_rss_mb",
	};
	const struct estimate *e;

	if (!s) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	json_key_string(j, "basis", s->basis);
	json_key_u64(j, "others", s->n_others);
	json_key_u64(j, "others_failed", s->n_failed);
	json_key_string(j, "usual_of", s->is_by_success ? "success" : "all");
	for (enum standing_quantity q = 0; q < STANDING_COUNT; q++) {
		json_key_object(j, keys[q]);
		json_key_f64(j, "value", s->values[q].value);
		json_key_f64(j, "median", s->values[q].median);
		json_key_f64(j, "low", s->values[q].low);
		json_key_f64(j, "high", s->values[q].high);
		json_key_u64(j, "runs", s->values[q].n);
		json_key_u64(j, "runs_below", s->values[q].n_below);
		json_key_u64(j, "runs_above", s->values[q].n_above);
		json_key_bool(j, "unusual", s->values[q].is_unusual);
		json_end_object(j);
	}
	e = &s->expected;
	json_key_object(j, "expected");
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
	json_end_object(j);
}

/* ---- the report ---- */

/* Points of series[]: an hour of samples a second apart. */
#define SERIES_MAX 3600

static void key_time(struct json *j, const char *key, uint64_t wall_ns)
{
	json_key_f64(j, key, u64_to_seconds(wall_ns));
}

/* The fields of one try, inside an object that the caller opened. */
static void write_try(struct json *j, const struct sheet_record *sheet,
		      const struct figures *figures)
{
	rows_write_try(j, sheet);
	rows_write_figures(j, figures, false);
	json_end_object(j);
}

/* By number; the last try's numbers stand at the sheet itself. */
static void write_sheets(struct json *j, const struct facts *f)
{
	json_key_object(j, "sheet_metrics");
	for (size_t i = 0; i < f->n_sheets; i++) {
		const struct sheet_fact *sheet = &f->sheets[i];
		char key[16];

		snprintf(key, sizeof(key), "%d", sheet->last->num);
		json_key_object(j, key);
		json_key_string(j, "name", sheet->last->name);
		json_key_string(j, "command", sheet->last->command);
		write_try(j, sheet->last, &sheet->figures);
		json_key_array(j, "tries");
		for (size_t k = 0; k < sheet->n_tries; k++) {
			struct figures figures;

			figures_of_sheet(f->a, sheet->tries[k], &figures);
			json_begin_object(j);
			write_try(j, sheet->tries[k], &figures);
			json_end_object(j);
		}
		json_end_array(j);
		json_end_object(j);
	}
	json_end_object(j);
}

static void write_call(struct json *j, const struct syscall_use *use)
{
	json_begin_object(j);
	json_key_string(j, "name", use->name);
	json_key_u64(j, "count", use->count);
	json_key_u64(j, "errors", use->errors);
	json_key_f64(j, "cpu_seconds", u64_to_seconds(use->cpu_ns));
	json_key_f64(j, "wait_seconds", u64_to_seconds(use->wait_ns));
	json_end_object(j);
}

void json_write_calls(struct json *j, const char *text)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct syscall_use *uses;
	size_t n;

	if (!text || syscall_text_read(text, &arena, &uses, &n) < 0) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		write_call(j, &uses[i]);
	json_end_array(j);
}

/* Takes up to max samples of one sheet into one point: the highest of each value. */
static size_t merge_points(const struct series_point *points, size_t max, struct series_point *ret)
{
	size_t n = 1;

	*ret = points[0];
	for (; n < max && points[n].sheet_num == ret->sheet_num; n++) {
		ret->wall_ns = points[n].wall_ns;
		ret->rss_bytes = u64_max_known(ret->rss_bytes, points[n].rss_bytes);
		ret->cpu_percent = f64_max_known(points[n].cpu_percent, ret->cpu_percent);
		ret->n_processes = u64_max_known(ret->n_processes, points[n].n_processes);
	}
	return n;
}

static void write_series(struct json *j, const struct facts *f)
{
	const struct attempt *a = f->a;
	size_t per_point = (a->details.n_series + SERIES_MAX - 1) / SERIES_MAX;
	struct series_point p;

	json_key_u64(j, "series_samples", a->details.n_series);
	json_key_u64(j, "series_samples_per_point", a->details.n_series > 0 ? per_point : 1);
	json_key_array(j, "series");
	for (size_t i = 0; i < a->details.n_series;) {
		size_t left = a->details.n_series - i;

		i += merge_points(&a->details.series[i], left < per_point ? left : per_point, &p);
		json_begin_object(j);
		key_time(j, "timestamp", p.wall_ns);
		json_key_f64(j, "rss_mb", u64_to_mb(p.rss_bytes));
		json_key_f64(j, "cpu_percent", p.cpu_percent);
		json_key_u64(j, "processes", p.n_processes);
		json_key_int(j, "sheet_num", p.sheet_num);
		json_end_object(j);
	}
	json_end_array(j);
}

/* null where nobody counted, and a line of unknown[] says so. An empty list would be a claim. */
static void write_syscalls(struct json *j, const struct attempt *a)
{
	json_key(j, "syscall_hotspots");
	syscall_uses_write_times(j, a->details.syscalls, a->details.n_syscalls);
	json_key(j, "syscalls");
	if (a->details.n_syscalls == 0) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < a->details.n_syscalls; i++)
		write_call(j, &a->details.syscalls[i]);
	json_end_array(j);
}

/* null where there are no ranks, or nobody looked; unknown[] says which. */
static void write_telemetry(struct json *j, const struct rank_finding *t)
{
	json_key(j, "telemetry");
	if (!t) {
		json_none(j);
		return;
	}
	json_begin_object(j);
	json_key_u64(j, "ranks", t->n_ranks);
	json_key_i64(j, "world_size", t->world_size);
	json_key_u64(j, "samples", t->n_samples);
	json_key_string(j, "measure", t->measure);
	json_key_object(j, "finding");
	json_key_string(j, "verdict", t->verdict);
	if (t->rank >= 0)
		json_key_i64(j, "rank", t->rank);
	else
		json_key_null(j, "rank");
	json_key_string(j, "kind", t->kind);
	json_key_f64(j, "probability", t->probability);
	key_time(j, "onset", t->onset_wall_ns);
	json_key_string(j, "phase", t->phase);
	json_key_string(j, "phase_resolution",
			!t->phase		? NULL
			: t->is_phase_ambiguous ? "ambiguous"
						: "unique");
	json_key_bool(j, "has_passed", t->has_passed);
	json_key_string(j, "reason", t->reason);
	json_key_string(j, "settled_by", t->remedy[0] ? t->remedy : NULL);
	json_end_object(j);
	json_key_string(j, "cpu", t->cpu[0] ? t->cpu : NULL);
	json_key_string(j, "gpu", t->gpu[0] ? t->gpu : NULL);
	json_end_object(j);
}

/* null where nobody looked: an empty list would be a claim. */
static void write_anomalies(struct json *j, const struct facts *f)
{
	json_key(j, "anomalies");
	if (facts_has_note(f, "anomalies")) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < f->a->details.n_anomalies; i++) {
		json_begin_object(j);
		episode_write_fields(j, &f->a->details.anomalies[i]);
		json_end_object(j);
	}
	json_end_array(j);
}

int json_report_write(struct buf *out, const struct facts *f)
{
	CLEANUP(buf_release) struct buf verdict = BUF_INIT;
	const bool is_counted = f->a->details.n_syscalls > 0;
	struct json j;

	json_init_object(&j, out);
	rows_write_attempt(&j, f->a);
	verdict_add_sentence(&verdict, f);
	json_key_string(&j, "verdict", verdict.data);
	key_time(&j, "last_seen", figures_last_seen(f->a));
	rows_write_figures(&j, &f->figures, true);
	json_key_string(&j, "syscalls",
			evidence_name(is_counted ? facts_syscall_evidence(f) : EVIDENCE_UNKNOWN));
	json_key_string(&j, "syscall_hotspots",
			evidence_name(is_counted ? facts_hotspot_evidence(f) : EVIDENCE_UNKNOWN));
	json_end_object(&j);
	write_sheets(&j, f);
	write_anomalies(&j, f);
	write_syscalls(&j, f->a);
	write_telemetry(&j, f->a->details.telemetry);
	json_key(&j, "runs_like_this");
	json_write_standing(&j, f->a->details.standing);
	json_key_object(&j, "rungs");
	for (size_t i = 0; i < f->a->details.n_rungs; i++)
		json_key_string(&j, f->a->details.rungs[i].measurement, facts_rung(f, i).rung);
	json_end_object(&j);
	json_key_object(&j, "rung_reasons");
	for (size_t i = 0; i < f->a->details.n_rungs; i++)
		json_key_string(&j, f->a->details.rungs[i].measurement, facts_rung(f, i).reason);
	json_end_object(&j);
	json_key_array(&j, "unknown");
	for (size_t i = 0; i < f->n_notes; i++) {
		json_begin_object(&j);
		json_key_string(&j, "what", f->notes[i].what);
		json_key_string(&j, "why", f->notes[i].why);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_key_array(&j, "processes");
	for (size_t i = 0; i < f->a->n_processes; i++) {
		json_begin_object(&j);
		rows_write_process(&j, f, &f->a->processes[i]);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_key_array(&j, "events");
	for (size_t i = 0; i < f->a->n_events; i++)
		proc_event_write_json(&j, &f->a->events[i]);
	json_end_array(&j);
	json_key_array(&j, "phases");
	for (size_t i = 0; i < f->a->n_phases; i++) {
		json_begin_object(&j);
		phase_record_write_fields(&j, &f->a->phases[i]);
		json_end_object(&j);
	}
	json_end_array(&j);
	write_series(&j, f);
	json_end_object(&j);
	buf_add_char(out, '\n');
	return buf_error(out);
}
