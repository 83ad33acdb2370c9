#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "daemon/methods/raw_event.h"
#include "daemon/anomaly/anomaly.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

/* ---- what a process, a job or the host uses at the moment ---- */

static void write_host(struct json *j, const struct service *s)
{
	const struct system_sample *now = &s->scan.snap.system;
	double share =
		s->scan.has_host_before ? system_cpu_share(&s->scan.host_before, now) : F64_UNKNOWN;

	json_key_f64(j, "rss_mb", u64_to_mb(now->memory_used_bytes));
	json_key_f64(j, "cpu_pct", 100 * share * now->cpu_count);
	json_key_f64(j, "load_avg_1", now->load1);
}

static void write_point(struct json *j, const struct series_point *point)
{
	json_key_f64(j, "rss_mb", u64_to_mb(point->rss_bytes));
	json_key_f64(j, "cpu_pct", point->cpu_percent);
	json_key_u64(j, "processes", point->n_processes);
}

/* Whether the peer may know of what goes on in a job. */
static bool is_shown(const struct service *s, const struct rpc_peer *peer, const struct episode *e)
{
	const struct watched *job = watch_find_attempt(s->watch, e->attempt_id);

	return peer && service_may_read(s, peer, job ? job->a.uid : U64_UNKNOWN);
}

/* Those of the host and of the attempt; where that is 0, of all jobs that the peer may see. */
static void write_active(struct json *j, const struct service *s, const struct rpc_peer *peer,
			 int64_t attempt_id)
{
	const struct episode *e;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	json_key(j, "anomalies_active");
	json_begin_array(j);
	for (size_t i = 0; (e = detect_active(s->detect, i)); i++)
		if (!service_is_judged_by_runner(s, e) &&
		    (!e->worst.job_id ||
		     (attempt_id ? e->attempt_id == attempt_id : is_shown(s, peer, e))))
			json_str(j, anomaly_type_name(e->worst.type));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < jobs[i]->n_active; k++)
			if (attempt_id ? jobs[i]->a.id == attempt_id
				       : peer && service_may_read(s, peer, jobs[i]->a.uid))
				json_str(j, anomaly_type_name(jobs[i]->active[k].type));
	json_end_array(j);
}

/* By the last look. Two users may have jobs of one name. */
static bool is_of_job(const struct service *s, size_t i, const struct watched *job)
{
	int owner = s->scan.snap.processes[i].job_id ? membership_owner(s->scan.membership, i) : -1;

	return owner >= 0 && s->assigned.uids[owner] == job->a.uid &&
	       strcmp(s->scan.snap.processes[i].job_id, job->job_id) == 0;
}

/* "read 53%": the call with the most time on a CPU, and its share in that of all. */
static void write_hottest(struct json *j, struct call_sums *sums)
{
	double total_ns = 0;
	char text[128];

	call_sums_sort(sums);
	for (size_t i = 0; i < sums->n; i++)
		total_ns += u64_known(sums->uses[i].cpu_ns) ? (double)sums->uses[i].cpu_ns : 0;
	if (sums->n == 0 || !u64_known(sums->uses[0].cpu_ns) || !(total_ns > 0)) {
		json_key_string(j, "syscall_hotspot", NULL);
		return;
	}
	snprintf(text, sizeof(text), "%s %.0f%%", sums->uses[0].name,
		 100 * (double)sums->uses[0].cpu_ns / total_ns);
	json_key_string(j, "syscall_hotspot", text);
}

/* Of the process, or of all of the job, since the look before; null where nobody counts. */
static void write_hotspot(struct json *j, const struct service *s, const struct watched *job,
			  const struct proc_sample *p)
{
	CLEANUP(call_sums_release)
	struct call_sums sums = { .is_sampled = s->syscalls.time_every > 1 };

	if (p)
		call_sums_add(&sums, p->syscalls, p->n_syscalls);
	for (size_t i = 0; !p && job && s->scan.has_snap && i < s->scan.snap.n_processes; i++)
		if (is_of_job(s, i, job))
			call_sums_add(&sums, s->scan.snap.processes[i].syscalls,
				      s->scan.snap.processes[i].n_syscalls);
	write_hottest(j, &sums);
}

static void write_rest(struct json *j, const struct service *s, const struct rpc_peer *peer,
		       int64_t attempt_id)
{
	write_active(j, s, peer, attempt_id);
	json_key_f64(j, "daemon_rss_mb", u64_to_mb(s->scan.snap.daemon_rss_bytes));
	json_key_string(j, "pressure_level", s->scan.snap.pressure_level);
	json_key_f64(j, "system_memory_available_mb",
		     u64_to_mb(s->scan.snap.system.memory_available_bytes));
}

void service_write_context(struct json *j, const struct service *s, const struct rpc_peer *peer,
			   const struct proc_sample *p)
{
	json_begin_object(j);
	if (p) {
		json_key_i64(j, "pid", p->key.pid);
		json_key_f64(j, "rss_mb", u64_to_mb(p->rss_bytes));
		json_key_f64(j, "cpu_pct", p->cpu_percent);
	} else {
		write_host(j, s);
	}
	write_hotspot(j, s, NULL, p);
	write_rest(j, s, peer, p ? p->attempt_id : 0);
	json_end_object(j);
}

/* Whether that tick was in this sheet; of a job, in its last one. */
static bool is_point_of(const struct series_point *point, const struct watched *job,
			const struct sheet_record *sheet)
{
	const struct attempt *a = &job->a;
	const struct sheet_record *of = sheet	      ? sheet
					: a->n_sheets ? &a->sheets[a->n_sheets - 1]
						      : NULL;
	uint64_t began = of ? of->started_wall_ns : a->started_wall_ns;
	uint64_t ended = of ? of->ended_wall_ns : a->ended_wall_ns;

	return u64_known(began) && point->wall_ns >= began && point->wall_ns <= ended;
}

/* The last tick; where that has shown that nothing is left, which may be how the end was noticed,
 * the last that showed something. */
static const struct series_point *find_point(const struct watched *job)
{
	return job->point.n_processes > 0 || job->lived.n_processes == 0 ? &job->point
									 : &job->lived;
}

/* A sheet that has just begun, or was over before a tick came, has used nobody knows how much. */
static void write_change_context(struct json *j, const struct service *s, const struct watched *job,
				 const struct sheet_record *sheet)
{
	static const struct series_point unknown = { .rss_bytes = U64_UNKNOWN,
						     .cpu_percent = F64_UNKNOWN,
						     .n_processes = U64_UNKNOWN };
	const struct series_point *point = find_point(job);
	bool is_of_it = is_point_of(point, job, sheet);

	json_begin_object(j);
	write_point(j, is_of_it ? point : &unknown);
	write_hotspot(j, s, is_of_it ? job : NULL, NULL);
	write_rest(j, s, NULL, job->a.id);
	json_end_object(j);
}

/* ---- events ---- */

uid_t service_event_owner(uint64_t uid)
{
	return u64_known(uid) ? (uid_t)uid : geteuid();
}

void service_publish(struct service *s, enum topic topic, uint64_t wall_ns, uint64_t uid,
		     const struct buf *json)
{
	const struct event event = {
		.topic = topic,
		.wall_ns = wall_ns,
		.owner = service_event_owner(uid),
		.json = json->data,
		.len = json->len,
	};

	if (buf_error(json) == 0)
		bus_publish(s->bus, &event);
	service_forget_rendered(s);
}

void service_tell_process(struct service *s, const struct proc_event *ev, int attempt_num,
			  uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	enum topic topic = process_event_topic(ev->type);
	struct json j;

	service_keep_process_event(s, ev, attempt_num, uid);
	if (!bus_is_wanted(s->bus, topic))
		return;
	json_init(&j, &out);
	process_event_write_json(&j, ev, attempt_num);
	service_publish(s, topic, ev->wall_ns, uid, &out);
}

/* The parts that follow jobs hear of it first. */
static void hand_on_change(struct service *s, enum change change, const struct watched *job)
{
	if (change == CHANGE_JOB_STARTED) {
		service_bind_stream(s, job);
		service_expect_births(s, job);
		service_count_calls_of(s, job);
	}
	if (change == CHANGE_JOB_STARTED && job->a.is_attached)
		service_follow_attached(s, job);
	if (change == CHANGE_JOB_ENDED) {
		service_drain_life(s); /* what killed it may wait there */
		service_end_signals_of(s, job->a.id);
		service_end_anomalies_of(s, job);
		service_sum_calls_of(s, job);
		service_answer_waiters(s, job);
		service_end_queued(s, job);
		service_leave_job(s, job);
		service_give_back_soon(s); /* a job of many processes took megabytes to store */
		service_run_queue_soon(s);
		learner_note_end(s->learner);
		s->database.is_ingest_due = true;
	}
}

void service_tell_change(void *ctx, enum change change, const struct watched *job,
			 const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct service *s = ctx;
	enum topic topic = change_topic(change, &job->a, sheet);
	struct json j;

	hand_on_change(s, change, job);
	if (!bus_is_wanted(s->bus, topic) ||
	    (change == CHANGE_JOB_STARTED && !attempt_has_begun(&job->a)))
		return;
	json_init(&j, &out);
	json_begin_object(&j);
	change_write_fields(&j, change, &job->a, sheet);
	json_key(&j, "resource_context");
	write_change_context(&j, s, job, sheet);
	json_end_object(&j);
	service_publish(s, topic, change_time(change, &job->a, sheet), job->a.uid, &out);
}

/* Only here: no attempt of it is in the record yet. */
void service_tell_queued(struct service *s, const struct queued *job)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	if (!bus_is_wanted(s->bus, TOPIC_JOB_QUEUED))
		return;
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "event", topic_name(TOPIC_JOB_QUEUED));
	json_key_f64(&j, "timestamp", u64_to_seconds(job->submitted_wall_ns));
	json_key_string(&j, "job_id", job->job_id);
	json_key_string(&j, "command", job->name);
	json_key_string(&j, "status", "queued");
	json_key_f64(&j, "submitted", u64_to_seconds(job->submitted_wall_ns));
	json_key(&j, "resource_context");
	service_write_context(&j, s, NULL, NULL);
	json_end_object(&j);
	service_publish(s, TOPIC_JOB_QUEUED, job->submitted_wall_ns, job->uid, &out);
}

/* Not recorded, as it is of the host: what ran by then is known by now. */
static void tell_held(struct service *s, const char *job_id, int attempt_num, uint64_t uid,
		      const char *why)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	uint64_t now = clock_wall_ns();
	struct json j;

	if (!bus_is_wanted(s->bus, TOPIC_JOB_HELD))
		return;
	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "event", topic_name(TOPIC_JOB_HELD));
	json_key_f64(&j, "timestamp", u64_to_seconds(now));
	json_key_string(&j, "job_id", job_id);
	json_key_int(&j, "attempt", attempt_num);
	json_key_string(&j, "status", attempt_num > 0 ? "running" : "queued");
	json_key_string(&j, "reason", why);
	json_key_u64(&j, "delay_seconds", pressure_delay_seconds(s->pressure.level));
	json_key(&j, "resource_context");
	service_write_context(&j, s, NULL, NULL);
	json_end_object(&j);
	service_publish(s, TOPIC_JOB_HELD, now, uid, &out);
}

void service_tell_held_up(struct service *s, const struct queued *job)
{
	tell_held(s, job->job_id, -1, job->uid, job->reason);
}

void service_tell_held(struct service *s, const struct watched *job)
{
	tell_held(s, job->job_id, job->a.attempt_num, job->a.uid, job->why_held);
}

/*
 * What else the host was doing names jobs of others: it is for who reads all. So is that of
 * a job of which nobody knows any more whose it was.
 */
void service_publish_anomaly(struct service *s, const struct episode *e, enum episode_change change,
			     uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	uint64_t wall_ns = episode_change_time(e, change); /* as in the record */
	struct episode shown;
	struct json j;

	if (!bus_is_wanted(s->bus, TOPIC_ANOMALY))
		return;
	episode_copy(&shown, e);
	if (service_event_owner(uid) != geteuid()) {
		anomaly_host_init(&shown.host);
		shown.host_json = NULL;
	}

	json_init(&j, &out);
	episode_write_event(&j, &shown, change, wall_ns);
	service_publish(s, TOPIC_ANOMALY, wall_ns, uid, &out);
}

void service_tell_snapshot(struct service *s)
{
	if (bus_is_wanted(s->bus, TOPIC_SNAPSHOT))
		service_publish(s, TOPIC_SNAPSHOT, s->scan.snap.wall_ns, geteuid(),
				service_snapshot_json(s));
}
