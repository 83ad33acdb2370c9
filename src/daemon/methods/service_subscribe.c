#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "daemon/methods/methods.h"

/* ---- what was rendered of the event that is being published ---- */

/* However many get it, it is rendered once. NULL: no memory. Borrowed. */
static struct rpc_event *render(struct service *s, const struct event *ev, bool is_for_user,
				uid_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct rendered *r;
	struct json j;

	for (r = s->clients.rendered; r; r = r->next)
		if (r->is_for_user == is_for_user && (!is_for_user || r->uid == uid))
			return r->event;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct rendered){ is_for_user, uid, NULL, s->clients.rendered };
	s->clients.rendered = r;
	json_init(&j, &out);
	if (!is_for_user)
		r->event = rpc_event_new(topic_name(ev->topic), ev->wall_ns, ev->json, ev->len);
	else if (service_write_shown(s, uid, &j) == 0 && buf_error(&out) == 0)
		r->event = rpc_event_new(topic_name(ev->topic), ev->wall_ns, out.data, out.len);
	return r->event;
}

/* ---- subscriptions ---- */

/* Of one user who does not read all: each event is handed to every one of them. */
#define SUBSCRIBERS_PER_USER 64

/* Of one connection, whatever it has subscribed to. */
struct subscription {
	struct service *service;
	struct rpc_subscriber *subscriber;
	uid_t uid;
	unsigned topics;
	int bus_id;
	struct subscription *next;
};

static void on_subscriber_gone(void *ctx)
{
	struct subscription *sub = ctx;
	struct subscription **at = &sub->service->clients.subscriptions;

	while (*at && *at != sub)
		at = &(*at)->next;
	if (*at)
		*at = sub->next;
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

static int begin(struct service *s, struct rpc_call *call, unsigned topics, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct subscription *sub;
	size_t n = 0;
	int r = 0;

	/* What wakes us for everybody's events is not for one user alone. */
	for (sub = s->clients.subscriptions; sub && !service_is_owner(peer); sub = sub->next)
		n += sub->uid == peer->uid;
	if (n >= SUBSCRIBERS_PER_USER)
		return err_set(err, -EBUSY, "one user may have %d connections that subscribe",
			       SUBSCRIBERS_PER_USER);
	sub = calloc(1, sizeof(*sub));
	if (!sub)
		return err_set(err, -ENOMEM, "no memory left for a subscription");
	*sub = (struct subscription){
		.service = s, .uid = peer->uid, .topics = topics, .next = s->clients.subscriptions
	};
	s->clients.subscriptions = sub;
	sub->bus_id = bus_subscribe(s->bus, topics, on_event, sub);
	if (sub->bus_id < 0)
		r = err_set(err, sub->bus_id, "there are too many subscribers");
	else
		r = rpc_call_subscribe(call, on_subscriber_gone, sub, &sub->subscriber, err);
	if (r < 0)
		on_subscriber_gone(sub);
	return r;
}

/* Who subscribes again gets more topics on the same connection, and each event once. */
static int subscribe(struct service *s, struct rpc_call *call, unsigned topics, struct err *err)
{
	struct subscription *sub = rpc_call_subscription(call, on_subscriber_gone);

	if (!sub)
		return begin(s, call, topics, err);
	sub->topics |= topics;
	bus_set_topics(s->bus, sub->bus_id, sub->topics);
	return 0;
}

static int daemon_top_stream(void *ctx, struct rpc_call *call, struct err *err)
{
	int r = rpc_call_read(call, NULL, 0, NULL, err);

	return r < 0 ? r : subscribe(ctx, call, topic_bit(TOPIC_SNAPSHOT), err);
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

const struct rpc_method service_subscribe_methods[] = {
	{ "daemon.top.stream", daemon_top_stream, RPC_FOR_ALL },
	{ "events.subscribe", events_subscribe, RPC_FOR_ALL },
	{ 0 },
};
