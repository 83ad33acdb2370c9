#include "store/tables.h"

#include <errno.h>
#include <stdbool.h>

#include "model/run_record.h"
#include "model/job.h"
#include "model/pattern.h"
#include "model/snapshot.h"
#include "store/store.h"

/* ---- attempts, sheets, ranks ---- */

static const struct column attempt_name_items[] = {
	COLUMN_AS("a.id", attempt, id, column_bits),
	COLUMN(attempt, job_id, column_text),
	COLUMN(attempt, attempt_num, column_int),
	COLUMN(attempt, boot_id, column_chars),
};
const struct columns attempt_name_columns = COLUMNS(attempt_name_items);

static const struct column attempt_begin_items[] = {
	COLUMN_AS("runner_pid", attempt, runner.pid, column_int),
	COLUMN_AS("runner_start_ticks", attempt, runner.start_ticks, column_u64),
	COLUMN(attempt, command, column_text),
	COLUMN(attempt, argv_hash, column_bits),
	COLUMN(attempt, input_bytes, column_u64),
	COLUMN(attempt, input_hash, column_bits),
	COLUMN(attempt, uid, column_u64),
	COLUMN(attempt, submission, column_u64),
	COLUMN(attempt, host, column_text),
	COLUMN(attempt, workdir, column_text),
	COLUMN(attempt, is_attached, column_flag),
	COLUMN(attempt, pid_ns, column_u64),
	COLUMN(attempt, interval_seconds, column_f64),
	COLUMN(attempt, started_wall_ns, column_u64),
	COLUMN(attempt, total_sheets, column_int),
};
const struct columns attempt_begin_columns = COLUMNS(attempt_begin_items);

static const struct column attempt_identity_items[] = {
	COLUMN_AS("runner_pid", attempt, runner.pid, column_int),
	COLUMN_AS("runner_start_ticks", attempt, runner.start_ticks, column_u64),
	COLUMN(attempt, started_wall_ns, column_u64),
};
const struct columns attempt_identity_columns = COLUMNS(attempt_identity_items);

static const struct column clock_items[] = {
	COLUMN_AS("clock_error_ns", attempt, clock.error_ns, column_u64),
	COLUMN_AS("is_clock_synchronised", attempt, clock.is_synchronised, column_int_or_none),
};
const struct columns clock_columns = COLUMNS(clock_items);

static const struct column attempt_progress_items[] = {
	COLUMN(attempt, last_completed_sheet, column_int),
	COLUMN(attempt, current_sheet, column_int_or_none),
};
const struct columns attempt_progress_columns = COLUMNS(attempt_progress_items);

static const struct column attempt_end_items[] = {
	COLUMN(attempt, ended_wall_ns, column_u64),
	COLUMN(attempt, outcome, column_outcome),
	COLUMN(attempt, reason, column_text),
	COLUMN_AS("exit_code", attempt, status.exit_code, column_int_or_none),
	COLUMN_AS("signal", attempt, status.signal, column_int_or_none),
};
const struct columns attempt_end_columns = COLUMNS(attempt_end_items);

static const struct column usage_items[] = {
	COLUMN(usage, wall_ns, column_u64),
	COLUMN(usage, user_ns, column_u64),
	COLUMN(usage, system_ns, column_u64),
	COLUMN(usage, cpu_evidence, column_evidence),
	COLUMN(usage, peak_rss_bytes, column_u64),
	COLUMN(usage, peak_rss_evidence, column_evidence),
	COLUMN(usage, max_process_rss_bytes, column_u64),
	COLUMN(usage, max_process_rss_evidence, column_evidence),
	COLUMN(usage, rchar, column_u64),
	COLUMN(usage, wchar, column_u64),
	COLUMN(usage, syscr, column_u64),
	COLUMN(usage, syscw, column_u64),
	COLUMN(usage, read_bytes, column_u64),
	COLUMN(usage, write_bytes, column_u64),
	COLUMN(usage, io_evidence, column_evidence),
	COLUMN(usage, minor_faults, column_u64),
	COLUMN(usage, major_faults, column_u64),
	COLUMN(usage, voluntary_switches, column_u64),
	COLUMN(usage, involuntary_switches, column_u64),
	COLUMN(usage, spawn_count, column_u64),
	COLUMN(usage, spawn_evidence, column_evidence),
	COLUMN(usage, peak_processes, column_u64),
	COLUMN(usage, peak_cpu_percent, column_f64),
	COLUMN(usage, peak_gpu_bytes, column_u64),
	COLUMN(usage, gpu_busy_ns, column_u64),
	COLUMN(usage, gpu_idle_ns, column_u64),
};
const struct columns usage_columns = COLUMNS(usage_items);

static const struct column daemon_items[] = {
	COLUMN_AS("pid", daemon_record, key.pid, column_int),
	COLUMN_AS("start_ticks", daemon_record, key.start_ticks, column_u64),
	COLUMN(daemon_record, version, column_text),
	COLUMN(daemon_record, started_wall_ns, column_u64),
};
const struct columns daemon_columns = COLUMNS(daemon_items);

static const struct column sheet_items[] = {
	COLUMN(sheet_record, num, column_int),
	COLUMN(sheet_record, try_num, column_int),
	COLUMN(sheet_record, name, column_text),
	COLUMN(sheet_record, command, column_text),
	COLUMN(sheet_record, total_ranks, column_int),
	COLUMN(sheet_record, started_wall_ns, column_u64),
	COLUMN(sheet_record, ended_wall_ns, column_u64),
	COLUMN(sheet_record, outcome, column_outcome),
	COLUMN(sheet_record, reason, column_text),
	COLUMN_AS("exit_code", sheet_record, status.exit_code, column_int_or_none),
	COLUMN_AS("signal", sheet_record, status.signal, column_int_or_none),
};
const struct columns sheet_columns = COLUMNS(sheet_items);

static const struct column rank_items[] = {
	COLUMN(rank_record, rank, column_int),
	COLUMN(rank_record, pid, column_int),
	COLUMN_AS("exit_code", rank_record, status.exit_code, column_int_or_none),
	COLUMN_AS("signal", rank_record, status.signal, column_int_or_none),
	COLUMN(rank_record, ended_wall_ns, column_u64),
};
const struct columns rank_columns = COLUMNS(rank_items);

/* ---- processes and their events ---- */

static const struct column process_items[] = {
	COLUMN_AS("pid", proc_record, key.pid, column_int),
	COLUMN_AS("start_ticks", proc_record, key.start_ticks, column_u64),
	COLUMN(proc_record, ppid, column_int),
	COLUMN(proc_record, sheet_num, column_int_or_none),
	COLUMN(proc_record, rank, column_int_or_none),
	COLUMN(proc_record, local_rank, column_int_or_none),
	COLUMN(proc_record, world_size, column_int_or_none),
	COLUMN(proc_record, command, column_text),
	COLUMN(proc_record, uid, column_u64),
	COLUMN(proc_record, born_wall_ns, column_u64),
	COLUMN(proc_record, died_wall_ns, column_u64),
	COLUMN_AS("exit_code", proc_record, status.exit_code, column_int_or_none),
	COLUMN_AS("signal", proc_record, status.signal, column_int_or_none),
	COLUMN(proc_record, user_ns, column_u64),
	COLUMN(proc_record, system_ns, column_u64),
	COLUMN(proc_record, max_rss_bytes, column_u64),
	COLUMN(proc_record, evidence, column_evidence),
	COLUMN(proc_record, cpu_evidence, column_evidence),
	COLUMN(proc_record, rchar, column_u64),
	COLUMN(proc_record, wchar, column_u64),
	COLUMN(proc_record, read_bytes, column_u64),
	COLUMN(proc_record, write_bytes, column_u64),
	COLUMN(proc_record, major_faults, column_u64),
	COLUMN(proc_record, max_threads, column_u64),
	COLUMN(proc_record, max_fds, column_u64),
	COLUMN(proc_record, max_gpu_bytes, column_u64),
	COLUMN(proc_record, gpu_busy_ns, column_u64),
	COLUMN(proc_record, gpu_idle_ns, column_u64),
	COLUMN(proc_record, n_samples, column_u64),
	COLUMN(proc_record, syscalls, column_text),
};
const struct columns process_columns = COLUMNS(process_items);

/* In the order of STATEMENT_SET_PROCESS_CALLS. */
static const struct column process_call_items[] = {
	COLUMN(proc_record, syscalls, column_text),
	COLUMN_AS("pid", proc_record, key.pid, column_int),
	COLUMN_AS("start_ticks", proc_record, key.start_ticks, column_u64),
};
const struct columns process_call_columns = COLUMNS(process_call_items);

static const struct column process_total_items[] = {
	COLUMN(proc_record, user_ns, column_u64),
	COLUMN(proc_record, system_ns, column_u64),
	COLUMN(proc_record, max_rss_bytes, column_u64),
	COLUMN(proc_record, rchar, column_u64),
	COLUMN(proc_record, wchar, column_u64),
	COLUMN(proc_record, read_bytes, column_u64),
	COLUMN(proc_record, write_bytes, column_u64),
	COLUMN(proc_record, major_faults, column_u64),
	COLUMN(proc_record, max_threads, column_u64),
	COLUMN(proc_record, max_fds, column_u64),
	COLUMN(proc_record, max_gpu_bytes, column_u64),
};
const struct columns process_total_columns = COLUMNS(process_total_items);

static const struct column event_items[] = {
	COLUMN(proc_event, wall_ns, column_u64),
	COLUMN_AS("pid", proc_event, key.pid, column_int),
	COLUMN_AS("start_ticks", proc_event, key.start_ticks, column_u64),
	COLUMN(proc_event, type, column_event_type),
	COLUMN_AS("exit_code", proc_event, status.exit_code, column_int_or_none),
	COLUMN_AS("signal", proc_event, status.signal, column_int_or_none),
	COLUMN(proc_event, sheet_num, column_int_or_none),
	COLUMN(proc_event, details, column_detail),
};
const struct columns event_columns = COLUMNS(event_items);

static const struct column event_sql_items[] = {
	COLUMN(proc_event, wall_ns, column_u64),
	COLUMN_AS("pid", proc_event, key.pid, column_int),
	COLUMN_AS("start_ticks", proc_event, key.start_ticks, column_u64),
	COLUMN_AS("exit_code", proc_event, status.exit_code, column_int_or_none),
	COLUMN_AS("signal", proc_event, status.signal, column_int_or_none),
	COLUMN(proc_event, sheet_num, column_int_or_none),
	COLUMN(proc_event, details, column_detail),
};
const struct columns event_sql_columns = COLUMNS(event_sql_items);

static const struct column event_owner_items[] = {
	COLUMN(event_row, attempt_id, column_bits),
	COLUMN(event_row, uid, column_u64),
	COLUMN(event_row, is_attached, column_flag),
};
const struct columns event_owner_columns = COLUMNS(event_owner_items);

/* ---- what the report says besides ---- */

static const struct column phase_items[] = {
	COLUMN(phase_record, rank, column_int_or_none),
	COLUMN(phase_record, pid, column_int),
	COLUMN(phase_record, name, column_text),
	COLUMN(phase_record, path, column_text),
	COLUMN(phase_record, entered_wall_ns, column_u64),
	COLUMN(phase_record, left_wall_ns, column_u64),
};
const struct columns phase_columns = COLUMNS(phase_items);

static const struct column phase_row_items[] = {
	COLUMN(phase_row, id, column_bits),
	COLUMN(phase_row, job_id, column_text),
	COLUMN(phase_row, attempt_num, column_int),
};
const struct columns phase_row_columns = COLUMNS(phase_row_items);

static const struct column rung_items[] = {
	COLUMN(rung, measurement, column_text),
	COLUMN(rung, rung, column_text),
	COLUMN(rung, reason, column_text),
};
const struct columns rung_columns = COLUMNS(rung_items);

static const struct column unknown_items[] = {
	COLUMN(unknown_note, what, column_text),
	COLUMN(unknown_note, why, column_text),
};
const struct columns unknown_columns = COLUMNS(unknown_items);

static const struct column syscall_items[] = {
	COLUMN(syscall_use, name, column_text),	  COLUMN(syscall_use, count, column_u64),
	COLUMN(syscall_use, errors, column_u64),  COLUMN(syscall_use, cpu_ns, column_u64),
	COLUMN(syscall_use, wait_ns, column_u64),
};
const struct columns syscall_columns = COLUMNS(syscall_items);

/* ---- samples: the rest is in words, see codec.h ---- */

static const struct column sample_process_items[] = {
	COLUMN_AS("pid", proc_sample, key.pid, column_int),
	COLUMN_AS("start_ticks", proc_sample, key.start_ticks, column_u64),
	COLUMN(proc_sample, sheet_num, column_int_or_none),
	COLUMN(proc_sample, rank, column_int_or_none),
	COLUMN(proc_sample, local_rank, column_int_or_none),
	COLUMN(proc_sample, world_size, column_int_or_none),
	COLUMN(proc_sample, comm, column_chars),
	COLUMN(proc_sample, command, column_text),
	COLUMN(proc_sample, cgroup, column_text),
	COLUMN(proc_sample, ns_pid, column_u64),
	COLUMN(proc_sample, start_wall_ns, column_u64),
};
const struct columns sample_process_columns = COLUMNS(sample_process_items);

static const struct column image_items[] = {
	COLUMN(proc_sample, sheet_num, column_int_or_none),
	COLUMN(proc_sample, rank, column_int_or_none),
	COLUMN(proc_sample, comm, column_chars),
	COLUMN(proc_sample, command, column_text),
	COLUMN(proc_sample, cgroup, column_text),
};
const struct columns image_columns = COLUMNS(image_items);

static const struct column sample_shared_items[] = {
	COLUMN(proc_sample, ppid, column_int), /* becomes the subreaper's when the parent dies */
	COLUMN(proc_sample, uid, column_u64),  /* setuid() */
};
const struct columns sample_shared_columns = COLUMNS(sample_shared_items);

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
