#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

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

	if (buf_error(json) < 0)
		return;
	if (topic != TOPIC_SNAPSHOT)
		recent_add(s->clients.recent, &event);
	service_hand_out(s, &event);
}

static enum topic process_event_topic(enum event_type type)
{
	static const enum topic topics[] = {
		[EVENT_SPAWN] = TOPIC_PROCESS_SPAWN,   [EVENT_EXIT] = TOPIC_PROCESS_EXIT,
		[EVENT_SIGNAL] = TOPIC_PROCESS_SIGNAL, [EVENT_KILL] = TOPIC_PROCESS_KILL,
		[EVENT_OOM] = TOPIC_PROCESS_OOM,       [EVENT_ORPHAN] = TOPIC_PROCESS_ORPHAN,
	};

	_Static_assert(ARRAY_SIZE(topics) == N_EVENT_TYPES, "each has its topic");
	return topics[type];
}

void service_tell_process(struct service *s, const struct proc_event *ev, int attempt_num,
			  uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	enum topic topic = process_event_topic(ev->type);
	struct json j;

	json_init(&j, &out);
	json_begin_object(&j);
	json_key_string(&j, "event", topic_name(topic));
	proc_event_write_fields(&j, ev);
	json_key_i64(&j, "attempt", attempt_num);
	json_end_object(&j);
	service_publish(s, topic, ev->wall_ns, uid, &out);
}

void service_tell_change(struct service *s, enum change change, const struct watched *job,
			 const struct sheet_record *sheet)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	enum topic topic = change_topic(change, &job->a, sheet);
	struct json j;

	if (change == CHANGE_JOB_STARTED && !attempt_has_begun(&job->a))
		return;
	json_init(&j, &out);
	json_begin_object(&j);
	change_write_fields(&j, change, &job->a, sheet);
	json_key(&j, "resource_context");
	service_write_change_context(&j, s, job, sheet);
	json_end_object(&j);
	service_publish(s, topic, change_time(change, &job->a, sheet), job->a.uid, &out);
}

/* Only here: no attempt of it is in the record yet. */
void service_tell_queued(struct service *s, const struct queued *job)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

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
void service_tell_held(struct service *s, const char *job_id, int attempt_num, uint64_t uid,
		       const char *why)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	uint64_t now = clock_wall_ns();
	struct json j;

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
	if (service_is_subscribed(s, TOPIC_SNAPSHOT))
		service_publish(s, TOPIC_SNAPSHOT, s->scan.snap.wall_ns, geteuid(),
				service_snapshot_json(s));
}

/* ---- the last of them ---- */

#define MAX_EVENTS 4096
#define MAX_BYTES (4 << 20)
#define DEFAULT_LIMIT 50

/* Of everything that happens; a snapshot is none of that. */
int service_keep_events(struct service *s, struct err *err)
{
	s->clients.recent = recent_new(MAX_EVENTS, MAX_BYTES);
	return s->clients.recent ? 0 : err_set(err, -ENOMEM, "no memory left to begin");
}

struct events_params {
	double since;
	uint64_t limit;
	const char *job_id;
};

static const struct rpc_field events_fields[] = {
	{ "limit", RPC_U64, offsetof(struct events_params, limit), .min = 1, .max = MAX_EVENTS },
	{ "since", RPC_F64, offsetof(struct events_params, since), .max = 1e11 },
	{ "job_id", RPC_STRING, offsetof(struct events_params, job_id), .is_required = false },
};

/* In a JSON text a quote that is not escaped is never inside a string: so this is the member. */
static bool names_job(const struct event *ev, const char *job_id)
{
	char member[JOB_ID_MAX + 16];
	int n;

	n = snprintf(member, sizeof(member), "\"job_id\":\"%s\"", job_id);
	return memmem(ev->json, ev->len, member, (size_t)n) != NULL;
}

static bool is_asked_for(const struct service *s, const struct rpc_peer *peer,
			 const struct events_params *params, const struct event *ev)
{
	return service_may_read(s, peer, ev->owner) &&
	       !(u64_to_seconds(ev->wall_ns) < params->since) &&
	       (!params->job_id || names_job(ev, params->job_id));
}

/* The newest so many, told oldest first: the first of them. NULL: there are none. */
static const struct event *find_first(const struct service *s, const struct rpc_peer *peer,
				      const struct events_params *params)
{
	const struct event *ev = recent_newest(s->clients.recent), *first = NULL;

	for (size_t n = 0; ev && n < params->limit; ev = recent_older(ev)) {
		if (!is_asked_for(s, peer, params, ev))
			continue;
		first = ev;
		n++;
	}
	return first;
}

int method_daemon_events(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct events_params params = { .limit = DEFAULT_LIMIT };
	struct json *j = rpc_call_result(call);
	const struct event *ev;
	int r = rpc_call_read(call, events_fields, ARRAY_SIZE(events_fields), &params, err);

	if (r == 0 && params.job_id && !job_id_is_valid(params.job_id))
		r = err_set(err, -EINVAL, "'job_id' is not the id of a job");
	if (r < 0)
		return r;
	json_begin_array(j);
	for (ev = find_first(s, peer, &params); ev; ev = recent_newer(ev))
		if (is_asked_for(s, peer, &params, ev))
			json_raw(j, ev->json, ev->len);
	json_end_array(j);
	return 0;
}
