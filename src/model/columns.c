#include "model/columns.h"

#include <string.h>

#include "base/unknown.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/run_record.h"
#include "model/snapshot.h"

static const struct column attempt_who_items[] = {
	COLUMN(attempt, job_id, COLUMN_TEXT),
	COLUMN(attempt, boot_id, COLUMN_CHARS),
	COLUMN(attempt, attempt_num, COLUMN_INT),
};
const struct columns attempt_who_columns = COLUMNS(attempt_who_items);

static const struct column attempt_begin_items[] = {
	COLUMN_AS("runner_pid", attempt, runner.pid, COLUMN_INT),
	COLUMN_AS("runner_start_ticks", attempt, runner.start_ticks, COLUMN_U64),
	COLUMN(attempt, command, COLUMN_TEXT),
	COLUMN(attempt, argv_hash, COLUMN_BITS),
	COLUMN(attempt, input_bytes, COLUMN_U64),
	COLUMN(attempt, input_hash, COLUMN_BITS),
	COLUMN(attempt, uid, COLUMN_U64),
	COLUMN(attempt, submission, COLUMN_U64),
	COLUMN(attempt, host, COLUMN_TEXT),
	COLUMN(attempt, workdir, COLUMN_TEXT),
	COLUMN(attempt, is_attached, COLUMN_FLAG),
	COLUMN(attempt, pid_ns, COLUMN_U64),
	COLUMN(attempt, interval_seconds, COLUMN_F64),
	COLUMN(attempt, started_wall_ns, COLUMN_U64),
	COLUMN(attempt, total_sheets, COLUMN_INT),
};
const struct columns attempt_begin_columns = COLUMNS(attempt_begin_items);

static const struct column clock_items[] = {
	COLUMN_AS("clock_error_ns", attempt, clock.error_ns, COLUMN_U64),
	COLUMN_AS("is_clock_synchronised", attempt, clock.is_synchronised, COLUMN_INT_OR_NONE),
};
const struct columns clock_columns = COLUMNS(clock_items);

static const struct column attempt_progress_items[] = {
	COLUMN(attempt, last_completed_sheet, COLUMN_INT),
	COLUMN(attempt, current_sheet, COLUMN_INT_OR_NONE),
};
const struct columns attempt_progress_columns = COLUMNS(attempt_progress_items);

static const struct column attempt_end_items[] = {
	COLUMN(attempt, ended_wall_ns, COLUMN_U64),
	COLUMN(attempt, outcome, COLUMN_OUTCOME),
	COLUMN(attempt, reason, COLUMN_TEXT),
	COLUMN_AS("cause", attempt, cause.kind, COLUMN_CAUSE),
	COLUMN_AS("cause_pid", attempt, cause.pid, COLUMN_INT_OR_NONE),
	COLUMN_AS("cause_other_pid", attempt, cause.other_pid, COLUMN_INT_OR_NONE),
	COLUMN_AS("exit_code", attempt, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", attempt, status.signal, COLUMN_INT_OR_NONE),
	COLUMN_AS("memory_limit_bytes", attempt, contained.limits.memory_bytes, COLUMN_U64),
	COLUMN_AS("tasks_limit", attempt, contained.limits.max_processes, COLUMN_U64),
	COLUMN_AS("cpus_limit", attempt, contained.limits.cpus, COLUMN_F64),
	COLUMN_AS("cgroup_peak_memory_bytes", attempt, contained.use.peak_memory_bytes, COLUMN_U64),
	COLUMN_AS("cgroup_cache_bytes", attempt, contained.use.cache_bytes, COLUMN_U64),
	COLUMN_AS("cgroup_cpu_ns", attempt, contained.use.cpu_ns, COLUMN_U64),
	COLUMN_AS("cgroup_user_ns", attempt, contained.use.user_ns, COLUMN_U64),
	COLUMN_AS("cgroup_system_ns", attempt, contained.use.system_ns, COLUMN_U64),
	COLUMN_AS("cgroup_throttled_ns", attempt, contained.use.throttled_ns, COLUMN_U64),
	COLUMN_AS("cgroup_peak_tasks", attempt, contained.use.peak_tasks, COLUMN_U64),
	COLUMN_AS("cgroup_memory_hits", attempt, contained.use.memory_hits, COLUMN_U64),
	COLUMN_AS("cgroup_task_hits", attempt, contained.use.task_hits, COLUMN_U64),
	COLUMN_AS("cgroup_oom_kills", attempt, contained.use.oom_kills, COLUMN_U64),
	COLUMN_AS("cgroup_cpu_stall_ns", attempt, contained.use.cpu_stall_ns, COLUMN_U64),
	COLUMN_AS("cgroup_memory_stall_ns", attempt, contained.use.memory_stall_ns, COLUMN_U64),
	COLUMN_AS("cgroup_io_stall_ns", attempt, contained.use.io_stall_ns, COLUMN_U64),
};
const struct columns attempt_end_columns = COLUMNS(attempt_end_items);

static const struct column usage_items[] = {
	COLUMN(usage, wall_ns, COLUMN_U64),
	COLUMN(usage, user_ns, COLUMN_U64),
	COLUMN(usage, system_ns, COLUMN_U64),
	COLUMN(usage, cpu_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, peak_rss_bytes, COLUMN_U64),
	COLUMN(usage, peak_rss_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, peak_memory_bytes, COLUMN_U64),
	COLUMN(usage, max_process_rss_bytes, COLUMN_U64),
	COLUMN(usage, max_process_rss_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, rchar, COLUMN_U64),
	COLUMN(usage, wchar, COLUMN_U64),
	COLUMN(usage, syscr, COLUMN_U64),
	COLUMN(usage, syscw, COLUMN_U64),
	COLUMN(usage, read_bytes, COLUMN_U64),
	COLUMN(usage, write_bytes, COLUMN_U64),
	COLUMN(usage, io_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, minor_faults, COLUMN_U64),
	COLUMN(usage, major_faults, COLUMN_U64),
	COLUMN(usage, voluntary_switches, COLUMN_U64),
	COLUMN(usage, involuntary_switches, COLUMN_U64),
	COLUMN(usage, spawn_count, COLUMN_U64),
	COLUMN(usage, spawn_evidence, COLUMN_EVIDENCE),
	COLUMN(usage, peak_processes, COLUMN_U64),
	COLUMN(usage, peak_cpu_percent, COLUMN_F64),
	COLUMN(usage, peak_gpu_bytes, COLUMN_U64),
	COLUMN(usage, gpu_busy_ns, COLUMN_U64),
	COLUMN(usage, gpu_idle_ns, COLUMN_U64),
	COLUMN(usage, time, COLUMN_TEXT),
};
const struct columns usage_columns = COLUMNS(usage_items);

static const struct column daemon_items[] = {
	COLUMN_AS("pid", daemon_record, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", daemon_record, key.start_ticks, COLUMN_U64),
	COLUMN(daemon_record, version, COLUMN_TEXT),
	COLUMN(daemon_record, started_wall_ns, COLUMN_U64),
};
const struct columns daemon_columns = COLUMNS(daemon_items);

static const struct column sheet_items[] = {
	COLUMN(sheet_record, num, COLUMN_INT),
	COLUMN(sheet_record, try_num, COLUMN_INT),
	COLUMN(sheet_record, name, COLUMN_TEXT),
	COLUMN(sheet_record, command, COLUMN_TEXT),
	COLUMN(sheet_record, total_ranks, COLUMN_INT),
	COLUMN(sheet_record, started_wall_ns, COLUMN_U64),
	COLUMN(sheet_record, ended_wall_ns, COLUMN_U64),
	COLUMN(sheet_record, outcome, COLUMN_OUTCOME),
	COLUMN(sheet_record, reason, COLUMN_TEXT),
	COLUMN_AS("cause", sheet_record, cause.kind, COLUMN_CAUSE),
	COLUMN_AS("cause_pid", sheet_record, cause.pid, COLUMN_INT_OR_NONE),
	COLUMN_AS("cause_other_pid", sheet_record, cause.other_pid, COLUMN_INT_OR_NONE),
	COLUMN_AS("exit_code", sheet_record, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", sheet_record, status.signal, COLUMN_INT_OR_NONE),
};
const struct columns sheet_columns = COLUMNS(sheet_items);

static const struct column rank_items[] = {
	COLUMN(rank_record, rank, COLUMN_INT),
	COLUMN(rank_record, pid, COLUMN_INT),
	COLUMN_AS("exit_code", rank_record, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", rank_record, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(rank_record, ended_wall_ns, COLUMN_U64),
};
const struct columns rank_columns = COLUMNS(rank_items);

static const struct column process_items[] = {
#define PROCESS_STORED(member_, stored_, column_) \
	COLUMN_AS(column_, proc_record, member_, COLUMN_##stored_),
#define PROCESS_FIELD(member_, stored_, column_, ...) PROCESS_STORED(member_, stored_, column_)
#include "model/process_fields.def"
};
const struct columns process_columns = COLUMNS(process_items);

static const struct column sample_process_items[] = {
	COLUMN_AS("pid", proc_sample, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_sample, key.start_ticks, COLUMN_U64),
	COLUMN(proc_sample, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, local_rank, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, world_size, COLUMN_INT_OR_NONE),
	COLUMN(proc_sample, comm, COLUMN_CHARS),
	COLUMN(proc_sample, command, COLUMN_TEXT),
	COLUMN(proc_sample, cgroup, COLUMN_TEXT),
	COLUMN(proc_sample, ns_pid, COLUMN_U64),
	COLUMN(proc_sample, start_wall_ns, COLUMN_U64),
};
const struct columns sample_process_columns = COLUMNS(sample_process_items);

static const struct column event_items[] = {
	COLUMN(proc_event, wall_ns, COLUMN_U64),
	COLUMN_AS("pid", proc_event, key.pid, COLUMN_INT),
	COLUMN_AS("start_ticks", proc_event, key.start_ticks, COLUMN_U64),
	COLUMN(proc_event, type, COLUMN_EVENT_TYPE),
	COLUMN_AS("exit_code", proc_event, status.exit_code, COLUMN_INT_OR_NONE),
	COLUMN_AS("signal", proc_event, status.signal, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, sheet_num, COLUMN_INT_OR_NONE),
	COLUMN(proc_event, details, COLUMN_DETAIL),
};
const struct columns event_columns = COLUMNS(event_items);

static const struct column phase_items[] = {
	COLUMN(phase_record, rank, COLUMN_INT_OR_NONE),
	COLUMN(phase_record, pid, COLUMN_INT),
	COLUMN(phase_record, name, COLUMN_TEXT),
	COLUMN(phase_record, path, COLUMN_TEXT),
	COLUMN(phase_record, entered_wall_ns, COLUMN_U64),
	COLUMN(phase_record, left_wall_ns, COLUMN_U64),
};
const struct columns phase_columns = COLUMNS(phase_items);

static const struct column rung_items[] = {
	COLUMN(rung, measurement, COLUMN_TEXT),
	COLUMN(rung, rung, COLUMN_TEXT),
	COLUMN(rung, reason, COLUMN_TEXT),
};
const struct columns rung_columns = COLUMNS(rung_items);

static const struct column unknown_items[] = {
	COLUMN(unknown_note, what, COLUMN_TEXT),
	COLUMN(unknown_note, why, COLUMN_TEXT),
};
const struct columns unknown_columns = COLUMNS(unknown_items);

static const struct column syscall_items[] = {
	COLUMN(syscall_use, name, COLUMN_TEXT),	  COLUMN(syscall_use, count, COLUMN_U64),
	COLUMN(syscall_use, errors, COLUMN_U64),  COLUMN(syscall_use, cpu_ns, COLUMN_U64),
	COLUMN(syscall_use, wait_ns, COLUMN_U64),
};
const struct columns syscall_columns = COLUMNS(syscall_items);

static const struct column episode_items[] = {
	COLUMN_AS("episode", episode, name, COLUMN_CHARS),
	COLUMN_AS("type", episode, worst.type, COLUMN_ANOMALY_TYPE),
	COLUMN_AS("severity", episode, worst.severity, COLUMN_SEVERITY),
	COLUMN_AS(NULL, episode, worst.timestamp, COLUMN_F64),
	COLUMN_AS(NULL, episode, worst.has_pid, COLUMN_FLAG),
	COLUMN_AS("pid", episode, worst.pid, COLUMN_BITS_OR_NONE),
	COLUMN_AS("start_ticks", episode, worst.start_ticks, COLUMN_U64),
	COLUMN_AS(NULL, episode, job_id, COLUMN_CHARS),
	COLUMN_AS("sheet_num", episode, worst.sheet_num, COLUMN_INT_OR_NONE),
	COLUMN_AS("description", episode, worst.text, COLUMN_CHARS),
	COLUMN_AS("metric_value", episode, worst.metric_value, COLUMN_F64),
	COLUMN_AS("threshold", episode, worst.threshold, COLUMN_F64),
	COLUMN(episode, comm, COLUMN_CHARS),
	COLUMN_AS(NULL, episode, is_adopted, COLUMN_FLAG),
	COLUMN(episode, gpu, COLUMN_INT_OR_NONE),
	COLUMN(episode, unit, COLUMN_TEXT),
	COLUMN(episode, began_wall_ns, COLUMN_U64),
	COLUMN(episode, peak_wall_ns, COLUMN_U64),
	COLUMN(episode, ended_wall_ns, COLUMN_U64),
	COLUMN_AS(NULL, episode, cleared_wall_ns, COLUMN_U64),
	COLUMN(episode, seen_wall_ns, COLUMN_U64),
	COLUMN_AS(NULL, episode, over_wall_ns, COLUMN_U64),
	COLUMN(episode, count, COLUMN_BITS),
	COLUMN(episode, before_value, COLUMN_F64),
	COLUMN(episode, first_value, COLUMN_F64),
	COLUMN(episode, peak_value, COLUMN_F64),
	COLUMN(episode, after_value, COLUMN_F64),
	COLUMN(episode, seconds_to_limit, COLUMN_F64),
	COLUMN(episode, why_cleared, COLUMN_TEXT),
	COLUMN(episode, full_from_wall_ns, COLUMN_U64),
	COLUMN(episode, full_until_wall_ns, COLUMN_U64),
	COLUMN_AS("host", episode, host_json, COLUMN_TEXT),
	COLUMN_AS("evidence", episode, evidence_json, COLUMN_TEXT),
};
const struct columns episode_columns = COLUMNS(episode_items);

static const struct column moment_items[] = {
	COLUMN(episode_moment, change, COLUMN_CHANGE),
	COLUMN(episode_moment, wall_ns, COLUMN_U64),
	COLUMN(episode_moment, severity, COLUMN_SEVERITY),
	COLUMN(episode_moment, value, COLUMN_F64),
	COLUMN_AS("description", episode_moment, text, COLUMN_CHARS),
};
const struct columns moment_columns = COLUMNS(moment_items);

/* ---- what is learned from runs ---- */

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
	COLUMN(run_record, time, COLUMN_TEXT),
	COLUMN(run_record, anomalies, COLUMN_TEXT),
};
const struct columns run_columns = COLUMNS(run_items);
_Static_assert(RUN_HORIZONS == 4, "each horizon has its columns");

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

static const struct column estimate_items[] = {
	COLUMN(estimate, peak_rss_mb, COLUMN_F64),  COLUMN(estimate, peak_coverage, COLUMN_F64),
	COLUMN(estimate, cpu_seconds, COLUMN_F64),  COLUMN(estimate, cpu_high_seconds, COLUMN_F64),
	COLUMN(estimate, cpu_coverage, COLUMN_F64), COLUMN(estimate, wall_seconds, COLUMN_F64),
	COLUMN(estimate, n_runs, COLUMN_U64),	    COLUMN(estimate, n_censored, COLUMN_U64),
	COLUMN(estimate, n_left_out, COLUMN_U64),
};
const struct columns estimate_columns = COLUMNS(estimate_items);

/* ---- what is not known yet ---- */

void columns_clear(const struct columns *columns, void *ret)
{
	for (size_t i = 0; i < columns->n; i++) {
		const struct column *c = &columns->items[i];
		void *field = (char *)ret + c->offset;

		memset(field, 0, c->size);
		if (c->type == COLUMN_U64)
			*(uint64_t *)field = U64_UNKNOWN;
		else if (c->type == COLUMN_F64)
			*(double *)field = F64_UNKNOWN;
		else if (c->type == COLUMN_INT_OR_NONE)
			*(int *)field = -1;
		else if (c->type == COLUMN_DETAIL)
			*(const char **)field = "";
	}
}
