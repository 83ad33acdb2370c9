#include "store/tables.h"

#include <errno.h>
#include <stdbool.h>

#include "model/run_record.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/store.h"

/* ---- attempts, sheets, ranks ---- */

static const struct column attempt_name_items[] = {
	COLUMN_AS("a.id", attempt, id, COLUMN_BITS),
	COLUMN(attempt, job_id, COLUMN_TEXT),
	COLUMN(attempt, attempt_num, COLUMN_INT),
	COLUMN(attempt, boot_id, COLUMN_CHARS),
};
const struct columns attempt_name_columns = COLUMNS(attempt_name_items);

static const struct column attempt_identity_items[] = {
	COLUMN_AS("runner_pid", attempt, runner.pid, COLUMN_INT),
	COLUMN_AS("runner_start_ticks", attempt, runner.start_ticks, COLUMN_U64),
	COLUMN(attempt, started_wall_ns, COLUMN_U64),
};
const struct columns attempt_identity_columns = COLUMNS(attempt_identity_items);

/* ---- processes and their events ---- */

/* In the order of STATEMENT_SET_PROCESS_CALLS. */
static const struct column process_call_items[] = {
	COLUMN(proc_record, syscalls, COLUMN_TEXT),
	COLUMN_AS("pid", proc_record, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_record, key.start_ticks, COLUMN_U64),
};
const struct columns process_call_columns = COLUMNS(process_call_items);

static const struct column process_total_items[] = {
	COLUMN(proc_record, user_ns, COLUMN_U64),
	COLUMN(proc_record, system_ns, COLUMN_U64),
	COLUMN(proc_record, max_rss_bytes, COLUMN_U64),
	COLUMN(proc_record, rchar, COLUMN_U64),
	COLUMN(proc_record, wchar, COLUMN_U64),
	COLUMN(proc_record, read_bytes, COLUMN_U64),
	COLUMN(proc_record, write_bytes, COLUMN_U64),
	COLUMN(proc_record, major_faults, COLUMN_U64),
	COLUMN(proc_record, max_threads, COLUMN_U64),
	COLUMN(proc_record, max_fds, COLUMN_U64),
	COLUMN(proc_record, max_gpu_bytes, COLUMN_U64),
};
const struct columns process_total_columns = COLUMNS(process_total_items);

static const struct column event_sql_items[] = {
	COLUMN(proc_event, wall_ns, COLUMN_U64),
	COLUMN_AS("pid", proc_event, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_event, key.start_ticks, COLUMN_U64),
	COLUMN_AS("exit_code", proc_event, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", proc_event, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, details, COLUMN_DETAIL),
};
const struct columns event_sql_columns = COLUMNS(event_sql_items);

static const struct column event_owner_items[] = {
	COLUMN(event_row, attempt_id, COLUMN_BITS),
	COLUMN(event_row, uid, COLUMN_U64),
	COLUMN(event_row, is_attached, COLUMN_FLAG),
};
const struct columns event_owner_columns = COLUMNS(event_owner_items);

/* ---- what the report says besides ---- */

static const struct column phase_row_items[] = {
	COLUMN(phase_row, id, COLUMN_BITS),
	COLUMN(phase_row, job_id, COLUMN_TEXT),
	COLUMN(phase_row, attempt_num, COLUMN_INT),
};
const struct columns phase_row_columns = COLUMNS(phase_row_items);

/* ---- samples: the rest is in words, see model/words.h ---- */

static const struct column image_items[] = {
	COLUMN(proc_sample, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, comm, COLUMN_CHARS),
	COLUMN(proc_sample, command, COLUMN_TEXT),
	COLUMN(proc_sample, cgroup, COLUMN_TEXT),
};
const struct columns image_columns = COLUMNS(image_items);

static const struct column sample_shared_items[] = {
	COLUMN(proc_sample, ppid, COLUMN_INT), /* becomes the subreaper's when the parent dies */
	COLUMN(proc_sample, uid, COLUMN_U64),  /* setuid() */
};
const struct columns sample_shared_columns = COLUMNS(sample_shared_items);

/* ---- runs ---- */

/* A verdict about an attempt is one about its run; a sheet has its own outcome. */
#define OUTCOME_OF_RUN "CASE WHEN r.is_whole THEN a.outcome ELSE r.outcome END"
#define MEASURED_OUTCOME                                                                       \
	"CASE WHEN r.is_whole THEN (SELECT v.measured_outcome FROM verdicts v WHERE v.attempt" \
	" = a.id) END"

static const struct column run_owner_items[] = {
	COLUMN_AS("r.attempt", run_record, attempt, COLUMN_BITS),
	COLUMN_AS("job_id", run_record, job_id, COLUMN_TEXT),
	COLUMN_AS("a.attempt_num", run_record, attempt_num, COLUMN_INT),
	COLUMN_AS("a.host", run_record, host, COLUMN_TEXT),
	COLUMN_AS("a.argv_hash", run_record, argv_hash, COLUMN_BITS),
	COLUMN_AS("a.input_hash", run_record, input_hash, COLUMN_BITS),
	COLUMN_AS(OUTCOME_OF_RUN, run_record, outcome, COLUMN_OUTCOME),
	COLUMN_AS(MEASURED_OUTCOME, run_record, measured, COLUMN_OUTCOME),
};
const struct columns run_owner_columns = COLUMNS(run_owner_items);

static const struct column run_items[] = {
	COLUMN(run_record, sheet_num, COLUMN_INT),
	COLUMN(run_record, is_whole, COLUMN_FLAG),
	COLUMN_AS("class_exact", run_record, class.rungs[RUNG_EXACT], COLUMN_BITS),
	COLUMN_AS("class_masked", run_record, class.rungs[RUNG_MASKED], COLUMN_BITS),
	COLUMN_AS("class_program", run_record, class.rungs[RUNG_PROGRAM], COLUMN_BITS),
	COLUMN_AS("class_command", run_record, class.command, COLUMN_BITS),
	COLUMN_AS("label", run_record, class.label, COLUMN_TEXT),
	COLUMN(run_record, started_wall_ns, COLUMN_U64),
	COLUMN(run_record, ended_wall_ns, COLUMN_U64),
	COLUMN(run_record, peak_rss_mb, COLUMN_F64),
	COLUMN(run_record, max_process_rss_mb, COLUMN_F64),
	COLUMN_AS("early_rss_5s_mb", run_record, early_rss_mb[0], COLUMN_F64),
	COLUMN_AS("early_rss_15s_mb", run_record, early_rss_mb[1], COLUMN_F64),
	COLUMN_AS("early_rss_60s_mb", run_record, early_rss_mb[2], COLUMN_F64),
	COLUMN_AS("early_rss_300s_mb", run_record, early_rss_mb[3], COLUMN_F64),
	COLUMN_AS("rss_slope_5s_mb_s", run_record, rss_slope_mb_s[0], COLUMN_F64),
	COLUMN_AS("rss_slope_15s_mb_s", run_record, rss_slope_mb_s[1], COLUMN_F64),
	COLUMN_AS("rss_slope_60s_mb_s", run_record, rss_slope_mb_s[2], COLUMN_F64),
	COLUMN_AS("rss_slope_300s_mb_s", run_record, rss_slope_mb_s[3], COLUMN_F64),
	COLUMN(run_record, cpu_seconds, COLUMN_F64),
	COLUMN(run_record, wall_seconds, COLUMN_F64),
	COLUMN(run_record, spawn_count, COLUMN_F64),
	COLUMN(run_record, max_threads, COLUMN_F64),
	COLUMN(run_record, max_fds, COLUMN_F64),
	COLUMN(run_record, io_mb, COLUMN_F64),
	COLUMN(run_record, major_faults, COLUMN_F64),
	COLUMN(run_record, memory_stall_pct, COLUMN_F64),
	COLUMN(run_record, io_stall_pct, COLUMN_F64),
	COLUMN(run_record, cpu_stall_pct, COLUMN_F64),
	COLUMN(run_record, gpu_memory_mb, COLUMN_F64),
	COLUMN(run_record, gpu_utilization_pct, COLUMN_F64),
	COLUMN(run_record, syscalls, COLUMN_TEXT),
	COLUMN(run_record, anomalies, COLUMN_TEXT),
};
const struct columns run_columns = COLUMNS(run_items);
_Static_assert(RUN_HORIZONS == 4, "each horizon has its columns");

/* ---- patterns ---- */

static const struct column pattern_items[] = {
	COLUMN(pattern, type, COLUMN_TEXT),
	COLUMN(pattern, name, COLUMN_TEXT),
	COLUMN(pattern, tags, COLUMN_TEXT),
	COLUMN(pattern, description, COLUMN_TEXT),
	COLUMN(pattern, n_jobs, COLUMN_U64),
	COLUMN(pattern, occurrences, COLUMN_BITS),
	COLUMN(pattern, confidence, COLUMN_F64),
	COLUMN(pattern, first_wall_ns, COLUMN_U64),
	COLUMN(pattern, last_wall_ns, COLUMN_U64),
	COLUMN(pattern, jobs, COLUMN_TEXT),
	COLUMN(pattern, grade, COLUMN_TEXT),
	COLUMN(pattern, label, COLUMN_TEXT),
	COLUMN_AS("class_command", pattern, class_key, COLUMN_BITS),
	COLUMN(pattern, feature, COLUMN_TEXT),
	COLUMN(pattern, is_above, COLUMN_FLAG),
	COLUMN(pattern, threshold, COLUMN_F64),
	COLUMN(pattern, p, COLUMN_F64),
	COLUMN(pattern, rate_in, COLUMN_F64),
	COLUMN(pattern, rate_out, COLUMN_F64),
	COLUMN(pattern, base_rate, COLUMN_F64),
	COLUMN(pattern, frozen_wall_ns, COLUMN_U64),
	COLUMN(pattern, n_later, COLUMN_U64),
	COLUMN(pattern, n_later_failed, COLUMN_U64),
	COLUMN(pattern, later_p, COLUMN_F64),
	COLUMN(pattern, brier, COLUMN_F64),
	COLUMN(pattern, brier_base, COLUMN_F64),
	COLUMN(pattern, n_looks, COLUMN_BITS),
	COLUMN(pattern, confirmed_wall_ns, COLUMN_U64),
	COLUMN(pattern, lapsed_wall_ns, COLUMN_U64),
	COLUMN(pattern, retired_wall_ns, COLUMN_U64),
	COLUMN(pattern, retired_why, COLUMN_TEXT),
};
const struct columns pattern_columns = COLUMNS(pattern_items);

/* ---- estimates ---- */

static const struct column estimate_items[] = {
	COLUMN(estimate, peak_rss_mb, COLUMN_F64),  COLUMN(estimate, peak_coverage, COLUMN_F64),
	COLUMN(estimate, cpu_seconds, COLUMN_F64),  COLUMN(estimate, cpu_high_seconds, COLUMN_F64),
	COLUMN(estimate, cpu_coverage, COLUMN_F64), COLUMN(estimate, wall_seconds, COLUMN_F64),
	COLUMN(estimate, n_runs, COLUMN_U64),	    COLUMN(estimate, n_censored, COLUMN_U64),
	COLUMN(estimate, n_left_out, COLUMN_U64),
};
const struct columns estimate_columns = COLUMNS(estimate_items);

static const struct column score_items[] = {
	COLUMN(estimate_score, is_peak_covered, COLUMN_INT_OR_NONE),
	COLUMN(estimate_score, is_cpu_covered, COLUMN_INT_OR_NONE),
};
const struct columns score_columns = COLUMNS(score_items);
