#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"
#include "model/anomaly.h"
#include "model/members.h"

#define MAX_TEXT_BYTES (1 << 20) /* of JSON that proctor wrote itself; longer text is damaged */

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

/* ---- the host and the evidence: tables that are written and read ---- */

#define ITEMS(struct_, field_, n_, known_, is_known_by_count_, members_, unknown_)       \
	{                                                                                \
		ARRAY_SIZE(((struct struct_ *)0)->field_), offsetof(struct struct_, n_), \
			offsetof(struct struct_, known_), is_known_by_count_, members_,  \
			ARRAY_SIZE(members_), sizeof(unknown_), &(unknown_)              \
	}

static const struct member process_members[] = {
	MEMBER(anomaly_process, PID, key.pid, "pid"),
	MEMBER(anomaly_process, U64, key.start_ticks, "start_ticks"),
	MEMBER(anomaly_process, COMM, comm, "comm"),
	MEMBER(anomaly_process, NAME, job_id, "job_id"),
	MEMBER(anomaly_process, F64, cpu_percent, "cpu_percent"),
	MEMBER(anomaly_process, MB, rss_bytes, "rss_mb"),
};
static const struct anomaly_process unknown_process = {
	.key.start_ticks = U64_UNKNOWN,
	.cpu_percent = F64_UNKNOWN,
	.rss_bytes = U64_UNKNOWN,
};

static const struct member_items top_cpu =
	ITEMS(anomaly_host, top_cpu, n_top_cpu, knows_cpu, false, process_members, unknown_process);
static const struct member_items top_rss =
	ITEMS(anomaly_host, top_rss, n_top_rss, knows_rss, false, process_members, unknown_process);

static const struct member host_members[] = {
	MEMBER(anomaly_host, MB, memory_total_bytes, "memory_total_mb"),
	MEMBER(anomaly_host, MB, memory_available_bytes, "memory_available_mb"),
	MEMBER(anomaly_host, MB, swap_free_bytes, "swap_free_mb"),
	MEMBER(anomaly_host, F64, load1, "load_avg_1"),
	MEMBER(anomaly_host, F64, cpu_some, "psi_cpu_some"),
	MEMBER(anomaly_host, F64, memory_some, "psi_memory_some"),
	MEMBER(anomaly_host, F64, memory_full, "psi_memory_full"),
	MEMBER(anomaly_host, F64, io_some, "psi_io_some"),
	MEMBER(anomaly_host, F64, io_full, "psi_io_full"),
	MEMBER(anomaly_host, U64, n_processes, "processes"),
	MEMBER(anomaly_host, INT, running_jobs, "running_jobs"),
	MEMBER_OF(anomaly_host, ITEMS, top_cpu, "top_cpu", false, &top_cpu),
	MEMBER_OF(anomaly_host, ITEMS, top_rss, "top_rss", false, &top_rss),
};

static const struct member file_members[] = {
	MEMBER(anomaly_file, PID, fd, "fd"),
	MEMBER(anomaly_file, COMM, target, "target"),
};
static const struct anomaly_file unknown_file = { .fd = -1 };

static const struct member syscall_members[] = {
	MEMBER(anomaly_syscall, COMM, name, "name"),
	MEMBER(anomaly_syscall, U64, count, "count"),
	MEMBER(anomaly_syscall, F64, time_pct, "time_pct"),
};
static const struct anomaly_syscall unknown_syscall = { "", U64_UNKNOWN, F64_UNKNOWN };

static const struct member_items files =
	ITEMS(anomaly_evidence, files, n_files, n_files_open, true, file_members, unknown_file);
static const struct member_items syscalls =
	ITEMS(anomaly_evidence, syscalls, n_syscalls, has_syscalls, false, syscall_members,
	      unknown_syscall);

static const struct member evidence_members[] = {
	MEMBER(anomaly_evidence, F64, fast_interval_seconds, "fast_interval_seconds"),
	MEMBER(anomaly_evidence, U64, n_files_open, "open_file_count"),
	MEMBER_OF(anomaly_evidence, ITEMS, files, "open_files", false, &files),
	MEMBER_OF(anomaly_evidence, ITEMS, syscalls, "top_syscalls", false, &syscalls),
	MEMBER(anomaly_evidence, NAME, doing, "doing"),
	MEMBER(anomaly_evidence, NAME, trace, "trace"),
	MEMBER(anomaly_evidence, NAME, trace_missing, "trace_missing"),
};

static void write_object(struct json *j, const struct member *members, size_t n, const void *from)
{
	json_begin_object(j);
	members_write(j, members, n, from);
	json_end_object(j);
}

void anomaly_host_write_json(struct json *j, const struct anomaly_host *host)
{
	write_object(j, host_members, ARRAY_SIZE(host_members), host);
}

void anomaly_evidence_write_json(struct json *j, const struct anomaly_evidence *e)
{
	write_object(j, evidence_members, ARRAY_SIZE(evidence_members), e);
}

/* The whole text as one object. -EBADMSG: it is none. */
static int read_document(const char *text, const struct member *members, size_t n, void *ret)
{
	size_t len = text ? strnlen(text, MAX_TEXT_BYTES) : 0, valid = 0, char_len;
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct json_cursor c;

	while (valid < len && (char_len = utf8_char_len(text + valid, len - valid)) > 0)
		valid += char_len;
	if (len == 0 || len == MAX_TEXT_BYTES || valid < len ||
	    text[strspn(text, " \t\r\n")] != '{')
		return -EBADMSG;
	json_cursor_init(&c, text, len);
	members_read(&c, &arena, members, n, ret);
	return c.is_bad || c.at[strspn(c.at, " \t\r\n")] ? -EBADMSG : 0;
}

int anomaly_host_read_json(const char *text, struct anomaly_host *ret)
{
	int r;

	anomaly_host_init(ret);
	r = read_document(text, host_members, ARRAY_SIZE(host_members), ret);
	if (r < 0)
		anomaly_host_init(ret);
	return r;
}

int anomaly_evidence_read_json(const char *text, struct anomaly_evidence *ret)
{
	int r;

	anomaly_evidence_init(ret);
	r = read_document(text, evidence_members, ARRAY_SIZE(evidence_members), ret);
	if (r < 0)
		anomaly_evidence_init(ret);
	return r;
}

/* ---- an episode ---- */

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
	json_key(j, "host");
	if (e->host_json)
		json_raw(j, e->host_json, strlen(e->host_json));
	else
		anomaly_host_write_json(j, &e->host);
	json_key_object(j, "evidence");
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
