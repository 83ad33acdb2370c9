#include <string.h>

#include "base/unknown.h"
#include "daemon/service_internal.h"

/* ---- what a process, a job or the host uses at the moment ---- */

static void write_host(struct json *j, const struct service *s)
{
	json_key_f64(j, "rss_mb", u64_to_mb(s->snap.system.memory_used_bytes));
	json_key_f64(j, "load_avg_1", s->snap.system.load1);
}

static void write_point(struct json *j, const struct series_point *point)
{
	json_key_f64(j, "rss_mb", u64_to_mb(point->rss_bytes));
	json_key_f64(j, "cpu_pct", point->cpu_percent);
	json_key_u64(j, "processes", point->n_processes);
}

/* What no rung measures yet is null. */
static void write_rest(struct json *j, const struct service *s)
{
	json_key_string(j, "syscall_hotspot", NULL);
	json_key_string(j, "anomalies_active", NULL);
	json_key_f64(j, "daemon_rss_mb", u64_to_mb(s->snap.daemon_rss_bytes));
	json_key_string(j, "pressure_level", s->snap.pressure_level);
	json_key_f64(j, "system_memory_available_mb",
		     u64_to_mb(s->snap.system.memory_available_bytes));
}

void service_write_context(struct json *j, const struct service *s, const struct watched *job,
			   const struct proc_sample *p)
{
	json_begin_object(j);
	if (p) {
		json_key_i64(j, "pid", p->key.pid);
		json_key_f64(j, "rss_mb", u64_to_mb(p->rss_bytes));
		json_key_f64(j, "cpu_pct", p->cpu_percent);
	} else if (job) {
		write_point(j, &job->point);
	} else {
		write_host(j, s);
	}
	write_rest(j, s);
	json_end_object(j);
}

/* ---- events ---- */

static void publish(struct service *s, enum topic topic, uint64_t wall_ns, uint64_t uid,
		    const struct buf *json)
{
	const struct event event = {
		.topic = topic,
		.wall_ns = wall_ns,
		.owner = u64_known(uid) ? (uid_t)uid : EVENT_NO_OWNER,
		.json = json->data,
		.len = json->len,
	};

	if (buf_error(json) == 0)
		bus_publish(s->bus, &event);
	service_forget_rendered(s);
}

static enum topic topic_of(enum watch_change change, const struct watched *job,
			   const struct sheet_record *sheet)
{
	switch (change) {
	case WATCH_JOB_STARTED:
		return TOPIC_JOB_STARTED;
	case WATCH_SHEET_STARTED:
		return TOPIC_SHEET_STARTED;
	case WATCH_SHEET_ENDED:
		return sheet->outcome == OUTCOME_SUCCESS ? TOPIC_SHEET_COMPLETED
							 : TOPIC_SHEET_FAILED;
	case WATCH_JOB_ENDED:
		break;
	}
	if (job->a.outcome == OUTCOME_CANCELLED)
		return TOPIC_JOB_CANCELLED;
	return job->a.outcome == OUTCOME_SUCCESS ? TOPIC_JOB_COMPLETED : TOPIC_JOB_FAILED;
}

static void write_sheet(struct json *j, const struct sheet_record *sheet)
{
	json_key_i64(j, "sheet_num", sheet->num);
	json_key_i64(j, "try", sheet->try_num);
	json_key_string(j, "name", sheet->name);
	json_key_string(j, "outcome", outcome_name(sheet->outcome));
	json_key_int(j, "exit_code", sheet->status.exit_code);
	json_key_int(j, "signal", sheet->status.signal);
	json_key_string(j, "reason", sheet->reason);
	json_key_f64(j, "started", u64_to_seconds(sheet->started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(sheet->ended_wall_ns));
}

static void write_job(struct json *j, const struct attempt *a)
{
	json_key_string(j, "command", a->command);
	json_key_string(j, "status", attempt_status_name(a));
	json_key_string(j, "outcome", outcome_name(a->outcome));
	json_key_int(j, "exit_code", a->status.exit_code);
	json_key_int(j, "signal", a->status.signal);
	json_key_string(j, "reason", a->reason);
	json_key_bool(j, "lost", a->is_lost);
	json_key_f64(j, "started", u64_to_seconds(a->started_wall_ns));
	json_key_f64(j, "ended", u64_to_seconds(a->ended_wall_ns));
}

static uint64_t time_of(enum watch_change change, const struct watched *job,
			const struct sheet_record *sheet)
{
	switch (change) {
	case WATCH_JOB_STARTED:
		return job->a.started_wall_ns;
	case WATCH_SHEET_STARTED:
		return sheet->started_wall_ns;
	case WATCH_SHEET_ENDED:
		return sheet->ended_wall_ns;
	case WATCH_JOB_ENDED:
		return job->a.ended_wall_ns;
	}
	return U64_UNKNOWN;
}

void service_tell_change(void *ctx, enum watch_change change, const struct watched *job,
			 const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct service *s = ctx;
	enum topic topic = topic_of(change, job, sheet);
	struct json j;

	if (change == WATCH_JOB_ENDED)
		service_answer_waiters(s, job);
	if (!bus_is_wanted(s->bus, topic))
		return;
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "event", topic_name(topic));
	json_key_f64(&j, "timestamp", u64_to_seconds(time_of(change, job, sheet)));
	json_key_string(&j, "job_id", job->job_id);
	json_key_i64(&j, "attempt", job->a.attempt_num);
	if (sheet)
		write_sheet(&j, sheet);
	else
		write_job(&j, &job->a);
	json_key(&j, "resource_context");
	service_write_context(&j, s, job, NULL);
	json_end_object(&j);
	publish(s, topic, time_of(change, job, sheet), job->a.uid, &out);
}

void service_tell_anomaly(struct service *s, const struct detect_change *change, uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	if (!bus_is_wanted(s->bus, TOPIC_ANOMALY))
		return;
	json_init(&j, &out);
	episode_write_event(&j, change->episode, change->change, s->snap.wall_ns);
	publish(s, TOPIC_ANOMALY, s->snap.wall_ns, uid, &out);
}

void service_tell_snapshot(struct service *s)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	if (!bus_is_wanted(s->bus, TOPIC_SNAPSHOT))
		return;
	json_init(&j, &out);
	snapshot_write_json(&j, &s->snap, SNAPSHOT_JOBS);
	publish(s, TOPIC_SNAPSHOT, s->snap.wall_ns, geteuid(), &out);
}
