#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"

/* ---- snapshots ---- */

/* Whose job process number i of the last snapshot is of; U64_UNKNOWN: of none. */
static uint64_t uid_of_process(const struct service *s, size_t i)
{
	int owner = s->snap.processes[i].job_id ? assign_owner(s->assigner, i) : -1;

	return owner >= 0 ? s->root_uids[owner] : U64_UNKNOWN;
}

static void release_shown(struct snapshot *shown)
{
	free(shown->processes);
	free(shown->progress);
}

/* The host, and the jobs of one user. All but its two arrays is that of the last snapshot. */
static int show_to(const struct service *s, uid_t uid, struct snapshot *ret)
{
	const struct snapshot *snap = &s->snap;

	*ret = *snap;
	ret->n_processes = ret->n_progress = 0;
	ret->active_sheets = 0;
	ret->processes = reallocarray(NULL, snap->n_processes + 1, sizeof(*ret->processes));
	ret->progress = reallocarray(NULL, snap->n_progress + 1, sizeof(*ret->progress));
	if (!ret->processes || !ret->progress)
		return -ENOMEM;
	for (size_t i = 0; i < snap->n_processes; i++)
		if (uid_of_process(s, i) == uid)
			ret->processes[ret->n_processes++] = snap->processes[i];
	for (size_t i = 0; i < snap->n_progress; i++) { /* in the order of the roots */
		if (s->root_uids[i] != uid)
			continue;
		ret->active_sheets += snap->progress[i].current_sheet != SHEET_NONE;
		ret->progress[ret->n_progress++] = snap->progress[i];
	}
	ret->running_jobs = (int)ret->n_progress;
	return 0;
}

static int write_shown(const struct service *s, uid_t uid, struct json *j)
{
	CLEANUP(release_shown) struct snapshot shown = { 0 };
	int r = show_to(s, uid, &shown);

	if (r == 0)
		snapshot_write_json(j, &shown, SNAPSHOT_JOBS);
	return r;
}

static int daemon_top(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct service *s = ctx;

	if (!s->has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (service_reads_all(s, peer))
		snapshot_write_json(rpc_call_result(call), &s->snap, SNAPSHOT_JOBS);
	else if (write_shown(s, peer->uid, rpc_call_result(call)) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	return 0;
}

/* ---- what was rendered of the event that is being published ---- */

/* For everybody who sees it alike, or (a snapshot) for one user. */
struct rendered {
	bool is_for_user;
	uid_t uid;
	struct rpc_event *event;
	struct rendered *next;
};

void service_forget_rendered(struct service *s)
{
	struct rendered *next;

	for (struct rendered *r = s->rendered; r; r = next) {
		next = r->next;
		rpc_event_unref(r->event);
		free(r);
	}
	s->rendered = NULL;
}

static struct rendered *find_rendered(struct service *s, bool is_for_user, uid_t uid)
{
	for (struct rendered *r = s->rendered; r; r = r->next)
		if (r->is_for_user == is_for_user && (!is_for_user || r->uid == uid))
			return r;
	return NULL;
}

static struct rpc_event *render_for(const struct service *s, const struct event *ev,
				    bool is_for_user, uid_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct json j;

	if (!is_for_user)
		return rpc_event_new(topic_name(ev->topic), ev->wall_ns, ev->json, ev->len);
	json_init(&j, &out);
	if (write_shown(s, uid, &j) < 0 || buf_error(&out) < 0)
		return NULL;
	return rpc_event_new(topic_name(ev->topic), ev->wall_ns, out.data, out.len);
}

/* However many get it, it is rendered once. NULL: no memory. Borrowed. */
static struct rpc_event *render(struct service *s, const struct event *ev, bool is_for_user,
				uid_t uid)
{
	struct rendered *r = find_rendered(s, is_for_user, uid);

	if (r)
		return r->event;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct rendered){ is_for_user, uid, render_for(s, ev, is_for_user, uid),
				s->rendered };
	s->rendered = r;
	return r->event;
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
	struct service *s = sub->service;
	const struct rpc_peer *peer = rpc_subscriber_peer(sub->subscriber);
	bool reads_all = service_reads_all(s, peer);
	bool is_for_user = ev->topic == TOPIC_SNAPSHOT && !reads_all;
	struct rpc_event *event;

	if (!is_for_user && !event_is_visible(ev, peer->uid, reads_all))
		return;
	event = render(s, ev, is_for_user, peer->uid);
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

/* One of a job that the peer may read. */
static const struct proc_sample *find_process(const struct service *s, const struct rpc_peer *peer,
					      uint64_t pid)
{
	for (size_t i = 0; i < s->snap.n_processes; i++)
		if ((uint64_t)s->snap.processes[i].key.pid == pid)
			return s->snap.processes[i].job_id &&
					       service_may_read(s, peer, uid_of_process(s, i))
				       ? &s->snap.processes[i]
				       : NULL;
	return NULL;
}

static int resource_context(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct context_params params = { .pid = U64_UNKNOWN };
	const struct proc_sample *p = NULL;
	int r = rpc_call_read(call, context_fields, ARRAY_SIZE(context_fields), &params, err);

	if (r < 0)
		return r;
	if (!s->has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (u64_known(params.pid)) {
		p = find_process(s, rpc_call_peer(call), params.pid);
		if (!p)
			return err_set(err, -ENOENT, "pid %llu is of no job that runs",
				       (unsigned long long)params.pid);
	}
	service_write_context(rpc_call_result(call), s, NULL, p);
	return 0;
}

const struct rpc_method service_view_methods[] = {
	{ "daemon.top", daemon_top, RPC_FOR_ALL },
	{ "daemon.top.stream", daemon_top_stream, RPC_FOR_ALL },
	{ "events.subscribe", events_subscribe, RPC_FOR_ALL },
	{ "resource.context", resource_context, RPC_FOR_ALL },
	{ 0 },
};
