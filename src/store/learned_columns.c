#include "store/learned_columns.h"

#include <errno.h>
#include <stdbool.h>

#include "model/run_record.h"
#include "model/pattern.h"

/* ---- a type that only these have ---- */

static int bind_bool(sqlite3_stmt *stmt, int index, const void *field)
{
	return sqlite3_bind_int(stmt, index, *(const bool *)field);
}

static int read_bool(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena)
{
	(void)size;
	(void)arena;
	*(bool *)field = sqlite3_column_int(stmt, index) != 0;
	return 0;
}

static const struct column_type column_bool = { bind_bool, read_bool };

/* ---- runs ---- */

/* A verdict about an attempt is one about its run; a sheet has its own outcome. */
#define OUTCOME_OF_RUN "CASE WHEN r.is_whole THEN a.outcome ELSE r.outcome END"
#define MEASURED_OUTCOME                                                                       \
	"CASE WHEN r.is_whole THEN (SELECT v.measured_outcome FROM verdicts v WHERE v.attempt" \
	" = a.id) END"

static const struct column run_owner_items[] = {
	COLUMN_AS("r.attempt", run_record, attempt, column_bits),
	COLUMN_AS("job_id", run_record, job_id, column_text),
	COLUMN_AS("a.attempt_num", run_record, attempt_num, column_int),
	COLUMN_AS("a.host", run_record, host, column_text),
	COLUMN_AS("a.argv_hash", run_record, argv_hash, column_bits),
	COLUMN_AS("a.input_hash", run_record, input_hash, column_bits),
	COLUMN_AS(OUTCOME_OF_RUN, run_record, outcome, column_outcome),
	COLUMN_AS(MEASURED_OUTCOME, run_record, measured, column_outcome),
};
const struct columns run_owner_columns = COLUMNS(run_owner_items);

static const struct column run_items[] = {
	COLUMN(run_record, sheet_num, column_int),
	COLUMN(run_record, is_whole, column_bool),
	COLUMN_AS("class_exact", run_record, class.rungs[RUNG_EXACT], column_bits),
	COLUMN_AS("class_masked", run_record, class.rungs[RUNG_MASKED], column_bits),
	COLUMN_AS("class_program", run_record, class.rungs[RUNG_PROGRAM], column_bits),
	COLUMN_AS("class_command", run_record, class.command, column_bits),
	COLUMN_AS("label", run_record, class.label, column_text),
	COLUMN(run_record, started_wall_ns, column_u64),
	COLUMN(run_record, ended_wall_ns, column_u64),
	COLUMN(run_record, peak_rss_mb, column_f64),
	COLUMN(run_record, max_process_rss_mb, column_f64),
	COLUMN_AS("early_rss_5s_mb", run_record, early_rss_mb[0], column_f64),
	COLUMN_AS("early_rss_15s_mb", run_record, early_rss_mb[1], column_f64),
	COLUMN_AS("early_rss_60s_mb", run_record, early_rss_mb[2], column_f64),
	COLUMN_AS("early_rss_300s_mb", run_record, early_rss_mb[3], column_f64),
	COLUMN_AS("rss_slope_5s_mb_s", run_record, rss_slope_mb_s[0], column_f64),
	COLUMN_AS("rss_slope_15s_mb_s", run_record, rss_slope_mb_s[1], column_f64),
	COLUMN_AS("rss_slope_60s_mb_s", run_record, rss_slope_mb_s[2], column_f64),
	COLUMN_AS("rss_slope_300s_mb_s", run_record, rss_slope_mb_s[3], column_f64),
	COLUMN(run_record, cpu_seconds, column_f64),
	COLUMN(run_record, wall_seconds, column_f64),
	COLUMN(run_record, spawn_count, column_f64),
	COLUMN(run_record, max_threads, column_f64),
	COLUMN(run_record, max_fds, column_f64),
	COLUMN(run_record, io_mb, column_f64),
	COLUMN(run_record, major_faults, column_f64),
	COLUMN(run_record, memory_stall_pct, column_f64),
	COLUMN(run_record, io_stall_pct, column_f64),
	COLUMN(run_record, cpu_stall_pct, column_f64),
	COLUMN(run_record, gpu_memory_mb, column_f64),
	COLUMN(run_record, gpu_utilization_pct, column_f64),
	COLUMN(run_record, syscalls, column_text),
	COLUMN(run_record, anomalies, column_text),
};
const struct columns run_columns = COLUMNS(run_items);
_Static_assert(RUN_HORIZONS == 4, "each horizon has its columns");

/* ---- patterns ---- */

static const struct column pattern_items[] = {
	COLUMN(pattern, type, column_text),
	COLUMN(pattern, name, column_text),
	COLUMN(pattern, tags, column_text),
	COLUMN(pattern, description, column_text),
	COLUMN(pattern, n_jobs, column_u64),
	COLUMN(pattern, occurrences, column_bits),
	COLUMN(pattern, confidence, column_f64),
	COLUMN(pattern, first_wall_ns, column_u64),
	COLUMN(pattern, last_wall_ns, column_u64),
	COLUMN(pattern, jobs, column_text),
	COLUMN(pattern, grade, column_text),
	COLUMN(pattern, label, column_text),
	COLUMN_AS("class_command", pattern, class_key, column_bits),
	COLUMN(pattern, feature, column_text),
	COLUMN(pattern, is_above, column_bool),
	COLUMN(pattern, threshold, column_f64),
	COLUMN(pattern, p, column_f64),
	COLUMN(pattern, rate_in, column_f64),
	COLUMN(pattern, rate_out, column_f64),
	COLUMN(pattern, base_rate, column_f64),
	COLUMN(pattern, frozen_wall_ns, column_u64),
	COLUMN(pattern, n_later, column_u64),
	COLUMN(pattern, n_later_failed, column_u64),
	COLUMN(pattern, later_p, column_f64),
	COLUMN(pattern, brier, column_f64),
	COLUMN(pattern, brier_base, column_f64),
	COLUMN(pattern, n_looks, column_bits),
	COLUMN(pattern, confirmed_wall_ns, column_u64),
	COLUMN(pattern, lapsed_wall_ns, column_u64),
	COLUMN(pattern, retired_wall_ns, column_u64),
	COLUMN(pattern, retired_why, column_text),
};
const struct columns pattern_columns = COLUMNS(pattern_items);

/* ---- estimates ---- */

static const struct column estimate_items[] = {
	COLUMN(estimate, peak_rss_mb, column_f64),  COLUMN(estimate, peak_coverage, column_f64),
	COLUMN(estimate, cpu_seconds, column_f64),  COLUMN(estimate, cpu_high_seconds, column_f64),
	COLUMN(estimate, cpu_coverage, column_f64), COLUMN(estimate, wall_seconds, column_f64),
	COLUMN(estimate, n_runs, column_u64),	    COLUMN(estimate, n_censored, column_u64),
	COLUMN(estimate, n_left_out, column_u64),
};
const struct columns estimate_columns = COLUMNS(estimate_items);

static const struct column score_items[] = {
	COLUMN(estimate_score, is_peak_covered, column_int_or_none),
	COLUMN(estimate_score, is_cpu_covered, column_int_or_none),
};
const struct columns score_columns = COLUMNS(score_items);
