#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
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

bool service_is_subscribed(const struct service *s, enum topic topic)
{
	const struct subscription *sub = s->clients.subscriptions;

	while (sub && !(sub->topics & topic_bit(topic)))
		sub = sub->next;
	return sub != NULL;
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
void service_hand_out(struct service *s, const struct event *ev)
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
	int r = rpc_call_read(call, NULL, 0, NULL, err);

	return r < 0 ? r : subscribe(ctx, call, topic_bit(TOPIC_SNAPSHOT), err);
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
