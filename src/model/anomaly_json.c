#include <string.h>

#include "base/unknown.h"
#include "model/anomaly.h"

void anomaly_write_fields(struct json *j, const struct anomaly *a)
{
	json_key_f64(j, "timestamp", a->timestamp);
	json_key_string(j, "anomaly_type", anomaly_type_name(a->type));
	json_key(j, "pid");
	if (a->has_pid)
		json_i64(j, a->pid);
	else
		json_none(j);
	json_key_string(j, "job_id", a->job_id);
	json_key_int(j, "sheet_num", a->sheet_num);
	json_key_string(j, "description", a->text);
	json_key_string(j, "severity", severity_name(a->severity));
	json_key_f64(j, "metric_value", a->metric_value);
	json_key_f64(j, "threshold", a->threshold);
}

/* ---- the host ---- */

static void write_process(struct json *j, const struct anomaly_process *p)
{
	json_begin_object(j);
	json_key_i64(j, "pid", p->key.pid);
	json_key_u64(j, "start_ticks", p->key.start_ticks);
	json_key_string(j, "comm", p->comm);
	json_key_string(j, "job_id", p->job_id[0] ? p->job_id : NULL);
	json_key_f64(j, "cpu_percent", p->cpu_percent);
	json_key_f64(j, "rss_mb", u64_to_mb(p->rss_bytes));
	json_end_object(j);
}

static void write_top(struct json *j, const char *key, bool is_known,
		      const struct anomaly_process *top, size_t n)
{
	json_key(j, key);
	if (!is_known) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		write_process(j, &top[i]);
	json_end_array(j);
}

void anomaly_host_write_json(struct json *j, const struct anomaly_host *host)
{
	json_begin_object(j);
	json_key_f64(j, "memory_total_mb", u64_to_mb(host->memory_total_bytes));
	json_key_f64(j, "memory_available_mb", u64_to_mb(host->memory_available_bytes));
	json_key_f64(j, "swap_free_mb", u64_to_mb(host->swap_free_bytes));
	json_key_f64(j, "load_avg_1", host->load1);
	json_key_f64(j, "psi_cpu_some", host->cpu_some);
	json_key_f64(j, "psi_memory_some", host->memory_some);
	json_key_f64(j, "psi_memory_full", host->memory_full);
	json_key_f64(j, "psi_io_some", host->io_some);
	json_key_f64(j, "psi_io_full", host->io_full);
	json_key_u64(j, "processes", host->n_processes);
	json_key_int(j, "running_jobs", host->running_jobs);
	write_top(j, "top_cpu", host->knows_cpu, host->top_cpu, host->n_top_cpu);
	write_top(j, "top_rss", host->knows_rss, host->top_rss, host->n_top_rss);
	json_end_object(j);
}

/* ---- the evidence ---- */

static void write_files(struct json *j, const struct anomaly_evidence *e)
{
	json_key(j, "open_files");
	if (!u64_known(e->n_files_open)) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < e->n_files; i++) {
		json_begin_object(j);
		json_key_i64(j, "fd", e->files[i].fd);
		json_key_string(j, "target", e->files[i].target);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_syscalls(struct json *j, const struct anomaly_evidence *e)
{
	json_key(j, "top_syscalls");
	if (!e->has_syscalls) {
		json_none(j);
		return;
	}
	json_begin_array(j);
	for (size_t i = 0; i < e->n_syscalls; i++) {
		json_begin_object(j);
		json_key_string(j, "name", e->syscalls[i].name);
		json_key_u64(j, "count", e->syscalls[i].count);
		json_key_f64(j, "time_pct", e->syscalls[i].time_pct);
		json_end_object(j);
	}
	json_end_array(j);
}

void anomaly_evidence_write_json(struct json *j, const struct anomaly_evidence *e)
{
	json_begin_object(j);
	json_key_f64(j, "fast_interval_seconds", e->fast_interval_seconds);
	json_key_u64(j, "open_file_count", e->n_files_open);
	write_files(j, e);
	write_syscalls(j, e);
	json_key_string(j, "trace", e->trace[0] ? e->trace : NULL);
	json_key_string(j, "trace_missing", e->trace_missing[0] ? e->trace_missing : NULL);
	json_end_object(j);
}

/* ---- an episode ---- */

static void write_host(struct json *j, const struct episode *e)
{
	json_key(j, "host");
	if (e->host_json)
		json_raw(j, e->host_json, strlen(e->host_json));
	else
		anomaly_host_write_json(j, &e->host);
}

static void write_evidence(struct json *j, const struct episode *e)
{
	json_key(j, "evidence");
	json_begin_object(j);
	json_key_f64(j, "from", u64_to_seconds(e->full_from_wall_ns));
	json_key_f64(j, "until", u64_to_seconds(e->full_until_wall_ns));
	json_key(j, "culprit");
	if (e->evidence_json)
		json_raw(j, e->evidence_json, strlen(e->evidence_json));
	else if (e->evidence)
		anomaly_evidence_write_json(j, e->evidence);
	else
		json_none(j);
	json_end_object(j);
}

void episode_write_fields(struct json *j, const struct episode *e)
{
	anomaly_write_fields(j, &e->worst);
	json_key_string(j, "episode", e->name);
	json_key_u64(j, "start_ticks", e->worst.start_ticks);
	json_key_f64(j, "began", u64_to_seconds(e->began_wall_ns));
	json_key_f64(j, "peak", u64_to_seconds(e->peak_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(e->ended_wall_ns));
	json_key_f64(j, "as_of", u64_to_seconds(e->seen_wall_ns));
	json_key_u64(j, "count", e->count);
	json_key_f64(j, "before_value", e->before_value);
	json_key_f64(j, "first_value", e->first_value);
	json_key_f64(j, "peak_value", e->peak_value);
	json_key_f64(j, "after_value", e->after_value);
	json_key_string(j, "comm", e->comm[0] ? e->comm : NULL);
	json_key_int(j, "gpu", e->gpu);
	json_key_string(j, "unit", e->unit);
	json_key_f64(j, "seconds_to_limit", e->seconds_to_limit);
	json_key_string(j, "why_cleared", e->why_cleared);
	write_host(j, e);
	write_evidence(j, e);
}

void episode_write_event(struct json *j, const struct episode *e, enum episode_change change,
			 uint64_t wall_ns)
{
	json_begin_object(j);
	json_key_string(j, "event", "monitor.anomaly");
	json_key_string(j, "change", episode_change_name(change));
	json_key_f64(j, "changed", u64_to_seconds(wall_ns));
	episode_write_fields(j, e);
	json_end_object(j);
}
