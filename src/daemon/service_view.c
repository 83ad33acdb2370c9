#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"

/* ---- snapshots ---- */

/* Others see the host and their own jobs. */
static void hide_others(struct snapshot *snap, const struct service *s, const struct rpc_peer *peer)
{
	size_t n = 0, n_progress = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct watched *job = watch_find(s->watch, snap->processes[i].job_id);

		if (job && service_may_see(peer, job->a.uid))
			snap->processes[n++] = snap->processes[i];
	}
	snap->n_processes = n;
	for (size_t i = 0; i < snap->n_progress; i++) {
		const struct watched *job = watch_find(s->watch, snap->progress[i].job_id);

		if (job && service_may_see(peer, job->a.uid))
			snap->progress[n_progress++] = snap->progress[i];
	}
	snap->n_progress = n_progress;
}

static int daemon_top(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(snapshot_release) struct snapshot shown;
	struct service *s = ctx;

	snapshot_init(&shown);
	if (!s->has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (service_sees_all(rpc_call_peer(call))) {
		const struct buf *json = service_snapshot_json(s);

		if (buf_error(json) < 0)
			return err_set(err, -ENOMEM, "no memory left for a snapshot");
		json_raw(rpc_call_result(call), json->data, json->len);
		return 0;
	}
	if (snapshot_copy(&shown, &s->snap, SNAPSHOT_JOBS) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	hide_others(&shown, s, rpc_call_peer(call));
	snapshot_write_json(rpc_call_result(call), &shown, SNAPSHOT_JOBS);
	return 0;
}

/* ---- subscriptions ---- */

struct subscription {
	struct service *service;
	struct rpc_subscriber *subscriber;
	int bus_id;
};

static void on_subscriber_gone(void *ctx)
{
	struct subscription *sub = ctx;

	bus_unsubscribe(sub->service->bus, sub->bus_id);
	free(sub);
}

static void on_event(void *ctx, const struct event *ev)
{
	struct subscription *sub = ctx;
	const struct rpc_peer *peer = rpc_subscriber_peer(sub->subscriber);
	struct rpc_event *event;

	if (!event_is_visible(ev, peer->uid, service_sees_all(peer)))
		return;
	event = service_render_event(sub->service, ev);
	if (event)
		rpc_push(sub->subscriber, event);
}

static int subscribe(struct service *s, struct rpc_call *call, unsigned topics, struct err *err)
{
	struct subscription *sub = calloc(1, sizeof(*sub));
	int r;

	if (!sub)
		return err_set(err, -ENOMEM, "no memory left for a subscription");
	sub->service = s;
	sub->bus_id = bus_subscribe(s->bus, topics, on_event, sub);
	if (sub->bus_id < 0) {
		r = err_set(err, sub->bus_id, "there are too many subscribers");
		free(sub);
		return r;
	}
	r = rpc_call_subscribe(call, on_subscriber_gone, sub, &sub->subscriber, err);
	if (r < 0)
		on_subscriber_gone(sub);
	return r;
}

static int daemon_top_stream(void *ctx, struct rpc_call *call, struct err *err)
{
	return subscribe(ctx, call, topic_bit(TOPIC_SNAPSHOT), err);
}

struct subscribe_params {
	const struct rpc_value *topics;
};

static const struct rpc_field subscribe_fields[] = {
	{ "topics", RPC_STRINGS, offsetof(struct subscribe_params, topics), .is_required = true },
};

static int events_subscribe(void *ctx, struct rpc_call *call, struct err *err)
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

/* ---- contexts ---- */

struct context_params {
	uint64_t pid;
};

static const struct rpc_field context_fields[] = {
	{ "pid", RPC_U64, offsetof(struct context_params, pid), .min = 1, .max = 4194304 },
};

static const struct proc_sample *find_process(const struct service *s, uint64_t pid)
{
	for (size_t i = 0; i < s->snap.n_processes; i++)
		if ((uint64_t)s->snap.processes[i].key.pid == pid)
			return &s->snap.processes[i];
	return NULL;
}

static int resource_context(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct context_params params = { .pid = U64_UNKNOWN };
	const struct proc_sample *p = NULL;
	const struct watched *job;
	int r = rpc_call_read(call, context_fields, ARRAY_SIZE(context_fields), &params, err);

	if (r < 0)
		return r;
	if (!s->has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (u64_known(params.pid)) {
		p = find_process(s, params.pid);
		job = p && p->job_id ? watch_find(s->watch, p->job_id) : NULL;
		if (!job || !service_may_see(rpc_call_peer(call), job->a.uid))
			return err_set(err, -ENOENT, "pid %llu is of no job that runs",
				       (unsigned long long)params.pid);
	}
	service_write_context(rpc_call_result(call), s, NULL, p);
	return 0;
}

const struct rpc_method service_view_methods[] = {
	{ "daemon.top", daemon_top, RPC_FOR_ALL },
	{ "daemon.top.stream", daemon_top_stream, RPC_FOR_OWNER },
	{ "events.subscribe", events_subscribe, RPC_FOR_ALL },
	{ "resource.context", resource_context, RPC_FOR_ALL },
	{ 0 },
};
