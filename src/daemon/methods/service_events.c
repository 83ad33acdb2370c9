#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

/* ---- subscriptions ---- */

/* Of one user who does not read all: each event is handed to every one of them. */
#define SUBSCRIBERS_PER_USER 64

/* Of one connection, whatever it has subscribed to. */
struct subscription {
	struct service *service;
	struct rpc_subscriber *subscriber;
	uid_t uid;
	unsigned topics;
	struct message *shown; /* the snapshot that is handed out, as this user sees it */
	struct subscription *next;
};

static void on_subscriber_gone(void *ctx)
{
	struct subscription *sub = ctx;

	LIST_REMOVE(sub->service->clients.subscriptions, sub, next);
	free(sub);
}

/* A snapshot for one user who does not read all: rendered once for all that this user has
 * subscribed. */
static struct message *render_shown(struct service *s, const struct event *ev,
				    struct subscription *of)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	for (struct subscription *sub = s->clients.subscriptions; sub; sub = sub->next)
		if (sub->uid == of->uid && sub->shown)
			return sub->shown;
	json_init(&j, &out);
	if (service_write_shown(s, of->uid, &j) == 0 && buf_error(&out) == 0)
		of->shown =
			message_new_event(topic_name(ev->topic), ev->wall_ns, out.data, out.len);
	return of->shown;
}

/* However many get it, it is rendered once. Who does not read fast enough is closed later, by the
 * server. */
static void hand_out(struct service *s, const struct event *ev)
{
	struct message *whole = NULL, *event;
	struct subscription *sub;

	for (sub = s->clients.subscriptions; sub; sub = sub->next) {
		const struct rpc_peer *peer = rpc_subscriber_peer(sub->subscriber);

		if (!(sub->topics & topic_bit(ev->topic)))
			continue;
		if (ev->topic == TOPIC_SNAPSHOT && !service_reads_all(s, peer)) {
			event = render_shown(s, ev, sub);
		} else if (service_may_read(s, peer, ev->owner)) {
			if (!whole)
				whole = message_new_event(topic_name(ev->topic), ev->wall_ns,
							  ev->json, ev->len);
			event = whole;
		} else {
			continue;
		}
		if (event)
			rpc_push(sub->subscriber, event);
	}
	message_unref(whole);
	for (sub = s->clients.subscriptions; sub; sub = sub->next)
		sub->shown = message_unref(sub->shown);
}

/* ---- events ---- */

/* Whose an event of a job of this user is: where nobody knows that, it is for who sees all. */
static uid_t owner_of(uint64_t uid)
{
	return u64_known(uid) ? (uid_t)uid : geteuid();
}

void service_publish(struct service *s, enum topic topic, uint64_t wall_ns, uint64_t uid,
		     const struct buf *json)
{
	const struct event event = {
		.topic = topic,
		.wall_ns = wall_ns,
		.owner = owner_of(uid),
		.json = json->data,
		.len = json->len,
	};

	if (buf_error(json) < 0)
		return;
	if (topic != TOPIC_SNAPSHOT)
		recent_add(s->clients.recent, &event);
	hand_out(s, &event);
}

static const enum topic process_topics[] = {
	[EVENT_SPAWN] = TOPIC_PROCESS_SPAWN,   [EVENT_EXIT] = TOPIC_PROCESS_EXIT,
	[EVENT_SIGNAL] = TOPIC_PROCESS_SIGNAL, [EVENT_KILL] = TOPIC_PROCESS_KILL,
	[EVENT_OOM] = TOPIC_PROCESS_OOM,       [EVENT_ORPHAN] = TOPIC_PROCESS_ORPHAN,
};

_Static_assert(ARRAY_SIZE(process_topics) == N_EVENT_TYPES, "each has its topic");

void service_tell_process(struct service *s, const struct proc_event *ev, int attempt_num,
			  uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	enum topic topic = process_topics[ev->type];
	struct json j;

	json_init_object(&j, &out);
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
	json_init_object(&j, &out);
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

	json_init_object(&j, &out);
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

	json_init_object(&j, &out);
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
	if (owner_of(uid) != geteuid()) {
		anomaly_host_init(&shown.host);
		shown.host_json = NULL;
	}

	json_init(&j, &out);
	episode_write_event(&j, &shown, change, wall_ns);
	service_publish(s, TOPIC_ANOMALY, wall_ns, uid, &out);
}

void service_tell_snapshot(struct service *s)
{
	const struct subscription *sub = s->clients.subscriptions;

	while (sub && !(sub->topics & topic_bit(TOPIC_SNAPSHOT)))
		sub = sub->next;
	if (sub)
		service_publish(s, TOPIC_SNAPSHOT, s->scan.snap.wall_ns, geteuid(),
				service_snapshot_json(s));
}

/* ---- the last of them ---- */

#define DEFAULT_LIMIT 50

struct events_params {
	double since;
	uint64_t limit;
	const char *job_id;
};

static const struct rpc_field events_fields[] = {
	{ "limit", RPC_U64, offsetof(struct events_params, limit), .min = 1, .max = RECENT_EVENTS },
	{ "since", RPC_F64, offsetof(struct events_params, since), .max = 1e11 },
	{ "job_id", RPC_STRING, offsetof(struct events_params, job_id), .is_required = false },
};

static bool is_asked_for(const struct service *s, const struct rpc_peer *peer,
			 const struct events_params *params, const struct event *ev)
{
	char member[JOB_ID_MAX + 16];
	int n;

	if (!service_may_read(s, peer, ev->owner) || u64_to_seconds(ev->wall_ns) < params->since)
		return false;
	if (!params->job_id)
		return true;
	/* In a JSON text a quote that is not escaped is never inside a string: so this is the
	 * member. */
	n = snprintf(member, sizeof(member), "\"job_id\":\"%s\"", params->job_id);
	return memmem(ev->json, ev->len, member, (size_t)n) != NULL;
}

int method_daemon_events(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct events_params params = { .limit = DEFAULT_LIMIT };
	struct json *j = rpc_call_result(call);
	const struct event *first = NULL;
	size_t n = 0;
	int r = rpc_call_read(call, events_fields, ARRAY_SIZE(events_fields), &params, err);

	if (r == 0 && params.job_id && !job_id_is_valid(params.job_id))
		r = err_set(err, -EINVAL, "'job_id' is not the id of a job");
	if (r < 0)
		return r;
	for (const struct event *ev = recent_newest(s->clients.recent); ev && n < params.limit;
	     ev = recent_older(ev))
		if (is_asked_for(s, peer, &params, ev)) {
			first = ev;
			n++;
		}
	json_begin_array(j);
	for (const struct event *ev = first; ev; ev = recent_newer(ev))
		if (is_asked_for(s, peer, &params, ev))
			json_raw(j, ev->json, ev->len);
	json_end_array(j);
	return 0;
}

/* ---- subscribing ---- */

/* Who subscribes again gets more topics on the same connection, and each event once. */
static int subscribe(struct service *s, struct rpc_call *call, unsigned topics, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct subscription *sub = rpc_call_subscription(call, on_subscriber_gone);
	size_t n = 0;
	int r;

	if (sub) {
		sub->topics |= topics;
		return 0;
	}
	/* What wakes us for everybody's events is not for one user alone. */
	for (sub = s->clients.subscriptions; sub && !service_is_owner(peer); sub = sub->next)
		n += sub->uid == peer->uid;
	if (n >= SUBSCRIBERS_PER_USER)
		return err_set(err, -EBUSY, "one user may have %d connections that subscribe",
			       SUBSCRIBERS_PER_USER);
	sub = calloc(1, sizeof(*sub));
	if (!sub)
		return err_set(err, -ENOMEM, "no memory left for a subscription");
	*sub = (struct subscription){ .service = s, .uid = peer->uid, .topics = topics };
	r = rpc_call_subscribe(call, on_subscriber_gone, sub, &sub->subscriber, err);
	if (r < 0) {
		free(sub);
		return r;
	}
	sub->next = s->clients.subscriptions;
	s->clients.subscriptions = sub;
	return 0;
}

int method_daemon_top_stream(void *ctx, struct rpc_call *call, struct err *err)
{
	return subscribe(ctx, call, topic_bit(TOPIC_SNAPSHOT), err);
}

struct subscribe_params {
	const struct rpc_value *topics;
};

static const struct rpc_field subscribe_fields[] = {
	{ "topics", RPC_STRINGS, offsetof(struct subscribe_params, topics), .is_required = true },
};

int method_events_subscribe(void *ctx, struct rpc_call *call, struct err *err)
{
	struct subscribe_params params = { 0 };
	unsigned topics = 0;
	int r = rpc_call_read(call, subscribe_fields, ARRAY_SIZE(subscribe_fields), &params, err);

	for (size_t i = 0; r == 0 && i < rpc_value_len(params.topics); i++)
		r = topics_add(rpc_value_string(rpc_value_at(params.topics, i)), &topics, err);
	if (r == 0 && topics == 0)
		r = err_set(err, -EINVAL, "'topics' names none: [\"*\"] is all of them");
	return r < 0 ? r : subscribe(ctx, call, topics, err);
}
