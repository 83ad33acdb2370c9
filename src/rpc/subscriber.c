#include <errno.h>
#include <stdlib.h>

#include "rpc/notice.h"
#include "rpc/server_internal.h"

int rpc_call_subscribe(struct rpc_call *call, rpc_gone_fn *gone, void *ctx,
		       struct rpc_subscriber **ret, struct err *err)
{
	struct rpc_conn *conn = call->conn;
	struct rpc_subscriber *sub;

	if (conn->n_subscribers >= conn->server->limits.max_subscriptions)
		return err_set(err, -EBUSY, "one connection has at most %zu subscriptions",
			       conn->server->limits.max_subscriptions);
	sub = calloc(1, sizeof(*sub));
	if (!sub)
		return err_set(err, -ENOMEM, "out of memory");
	*sub = (struct rpc_subscriber){
		.conn = conn, .gone = gone, .gone_ctx = ctx, .next = conn->subscribers
	};
	if (conn->subscribers)
		conn->subscribers->prev = sub;
	conn->subscribers = sub;
	conn->n_subscribers++;
	conn->server->stats.n_subscribers++;
	*ret = sub;
	return 0;
}

void *rpc_call_subscription(const struct rpc_call *call, rpc_gone_fn *gone)
{
	for (const struct rpc_subscriber *sub = call->conn->subscribers; sub; sub = sub->next)
		if (sub->gone == gone)
			return sub->gone_ctx;
	return NULL;
}

struct rpc_subscriber *rpc_subscriber_free(struct rpc_subscriber *sub)
{
	if (!sub)
		return NULL;
	if (sub->prev)
		sub->prev->next = sub->next;
	else
		sub->conn->subscribers = sub->next;
	if (sub->next)
		sub->next->prev = sub->prev;
	sub->conn->n_subscribers--;
	sub->conn->server->stats.n_subscribers--;
	free(sub);
	return NULL;
}

struct rpc_subscriber *rpc_subscriber_hang_up(struct rpc_subscriber *sub)
{
	struct rpc_conn *conn = sub ? sub->conn : NULL;

	if (!conn)
		return NULL;
	rpc_subscriber_free(sub);
	conn_drop(conn, "what it was told is not so any more");
	return NULL;
}

void subscribers_abandon(struct rpc_conn *conn)
{
	while (conn->subscribers) {
		rpc_gone_fn *gone = conn->subscribers->gone;
		void *ctx = conn->subscribers->gone_ctx;

		rpc_subscriber_free(conn->subscribers);
		gone(ctx);
	}
}

const struct rpc_peer *rpc_subscriber_peer(const struct rpc_subscriber *sub)
{
	return &sub->conn->peer;
}

/* struct rpc_event is a message under another name. */
struct rpc_event *rpc_event_new(const char *topic, uint64_t wall_ns, const char *json, size_t len)
{
	return (struct rpc_event *)notice_event(topic, wall_ns, json, len);
}

struct rpc_event *rpc_event_unref(struct rpc_event *event)
{
	message_unref((struct message *)event);
	return NULL;
}

void rpc_push(struct rpc_subscriber *sub, struct rpc_event *event)
{
	struct rpc_conn *conn = sub->conn;
	uint64_t n_lost = conn->out.n_lost;

	if (conn->is_broken)
		return;
	if (outbox_is_full(&conn->out) && !conn->is_clogged)
		conn_write(conn); /* it may read fast enough, and many events come at once */
	if (outbox_add_event(&conn->out, message_ref((struct message *)event)) < 0)
		conn_drop(conn, "out of memory");
	conn->server->stats.n_events_lost += conn->out.n_lost - n_lost;
	server_settle_soon(conn);
}
