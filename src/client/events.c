#include "client/client.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"

#define LISTEN_MAX 1024 /* events handed over by one call, however many come */

/* ---- subscribing ---- */

/* "a.*, b" becomes {"topics":["a.*","b"]}. */
static void write_topics(const char *topics, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key(&j, "topics");
	json_begin_array(&j);
	for (;;) {
		size_t n;

		topics += strspn(topics, ", ");
		n = strcspn(topics, ", ");
		if (n == 0)
			break;
		json_str_n(&j, topics, n);
		topics += n;
	}
	json_end_array(&j);
	json_end_object(&j);
}

int proctor_subscribe(struct proctor *p, const char *topics, proctor_event_fn *fn, void *ctx)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	int r = client_begin(p);

	if (r < 0)
		return r;
	if (!topics || !fn)
		return err_set(&p->err, -EINVAL, "a subscription has topics and a callback");
	if (p->fn)
		return err_set(&p->err, -EALREADY,
			       "this connection has a subscription: open another for more");
	write_topics(topics, &params);
	if (buf_error(&params) < 0)
		return err_set(&p->err, -ENOMEM, "no memory left to subscribe");
	r = proctor_call(p, "events.subscribe", params.data, NULL);
	if (r < 0)
		return r;
	p->fn = fn;
	p->ctx = ctx;
	return 0;
}

/* ---- events come in ---- */

static char *copy_data(const struct rpc_value *params)
{
	char *text = NULL;

	client_render(rpc_value_get(params, "data"), &text, NULL);
	return text;
}

int client_take_event(void *ctx, const struct rpc_value *params)
{
	struct proctor *p = ctx;
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	uint64_t n_lost = rpc_value_u64(rpc_value_get(params, "count"));

	if (!p->fn || !topic)
		return 0; /* nobody asked for it, or nobody knows what it is */
	if (strcmp(topic, "lost") != 0)
		event_queue_push(&p->events, strdup(topic),
				 rpc_value_f64(rpc_value_get(params, "timestamp")),
				 copy_data(params));
	else if (u64_known(n_lost) && n_lost > 0)
		event_queue_push_lost(&p->events, n_lost);
	else
		return 0;
	return 1;
}

/* ---- events are handed over ---- */

/* 1: there is one. 0: none came until then. */
static int fetch(struct proctor *p, int timeout_ms)
{
	int r;

	if (!event_queue_is_empty(&p->events))
		return 1;
	r = rpc_client_listen(p->rpc, client_timeout(timeout_ms), &p->err);
	if (r != -ETIMEDOUT)
		return r;
	p->err = (struct err)ERR_INIT; /* that nothing happens is no failure */
	return 0;
}

/* The callback may ask and listen by itself: nothing of p is held meanwhile. */
static int hand_over(struct proctor *p)
{
	CLEANUP(queued_event_release) struct queued_event queued = { 0 };
	struct proctor_event event;

	if (!event_queue_pop(&p->events, &queued))
		return 0;
	event = (struct proctor_event){
		.topic = queued.topic,
		.timestamp = queued.timestamp,
		.data = queued.data,
		.n_lost = queued.n_lost,
	};
	return p->fn(p->ctx, &event);
}

int proctor_listen(struct proctor *p, int timeout_ms)
{
	int n = 0, r = client_begin(p);

	if (r == 0 && !p->fn)
		r = err_set(&p->err, -EINVAL, "nothing is subscribed");
	if (r < 0)
		return r;
	while (n < LISTEN_MAX && p->rpc && p->fn) {
		r = fetch(p, n == 0 ? timeout_ms : 0);
		if (r <= 0)
			break;
		n++;
		if (hand_over(p) != 0)
			break;
	}
	/* Why there are no more is told by the next call. */
	return n > 0 ? n : r;
}
