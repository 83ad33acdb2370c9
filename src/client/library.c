#include "client/library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"

/* ---- events that wait ---- */

static void queued_event_release(struct queued_event *event)
{
	free(event->topic);
	free(event->data);
	*event = (struct queued_event){ 0 };
}

static size_t size_of(const struct queued_event *event)
{
	return sizeof(*event) + strlen(event->topic) + strlen(event->data);
}

/* The queue has one. */
static struct queued_event *take_first(struct event_queue *q)
{
	struct queued_event *event = q->first;

	q->first = event->next;
	if (!q->first)
		q->last = NULL;
	q->n--;
	q->bytes -= size_of(event);
	return event;
}

/* A notice stands for those it tells of. */
static void count_lost(struct event_queue *q, uint64_t n_lost)
{
	q->n_lost_unreported += n_lost ? n_lost : 1;
}

static void drop_first(struct event_queue *q)
{
	struct queued_event *event = take_first(q);

	count_lost(q, event->n_lost);
	queued_event_release(event);
	free(event);
}

/* Forgets all of it. */
static void event_queue_release(struct event_queue *q)
{
	while (q->first)
		drop_first(q);
	*q = (struct event_queue){ 0 };
}

/* Takes over what event has. Without memory, here or for its texts, it is counted as lost. */
static void event_queue_push(struct event_queue *q, struct queued_event *event)
{
	struct queued_event *kept = event->topic && event->data ? malloc(sizeof(*kept)) : NULL;

	if (!kept) {
		count_lost(q, event->n_lost);
		queued_event_release(event);
		return;
	}
	*kept = *event;
	if (q->last)
		q->last->next = kept;
	else
		q->first = kept;
	q->last = kept;
	q->n++;
	q->bytes += size_of(kept);
	while (q->n > EVENT_QUEUE_MAX || (q->n > 1 && q->bytes > EVENT_QUEUE_MAX_BYTES))
		drop_first(q);
}

/* topic and data are NULL where there is no memory. */
static struct queued_event make_notice(uint64_t n_lost)
{
	struct queued_event notice = { .timestamp = F64_UNKNOWN, .n_lost = n_lost };

	notice.topic = strdup("lost");
	if (asprintf(&notice.data, "{\"count\":%llu}", (unsigned long long)n_lost) < 0)
		notice.data = NULL;
	return notice;
}

/* The oldest, or a notice of how many were lost before it. False: there is none. */
static bool event_queue_pop(struct event_queue *q, struct queued_event *ret)
{
	struct queued_event *first;

	if (q->n_lost_unreported > 0) {
		struct queued_event notice = make_notice(q->n_lost_unreported);

		if (notice.topic && notice.data) {
			q->n_lost_unreported = 0;
			*ret = notice;
			return true;
		}
		queued_event_release(&notice); /* no memory: the next time */
	}
	if (!q->first)
		return false;
	first = take_first(q);
	*ret = *first;
	ret->next = NULL;
	free(first);
	return true;
}

/* ---- events come in ---- */

/* The text of a value, to be freed. -ENOMEM. */
static int client_render(const struct rpc_value *value, char **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;
	char *detached;

	json_init(&j, &text);
	rpc_value_write(value, &j);
	detached = buf_detach(&text);
	if (!detached)
		return err_set(err, -ENOMEM, "no memory left for what the daemon said");
	*ret = detached;
	return 0;
}

/* The handler of the rpc_client for events: they go into the queue. 1: there is one in it now. */
static int client_take_event(void *ctx, const struct rpc_value *params)
{
	struct proctor *p = ctx;
	const char *topic = rpc_value_string(rpc_value_get(params, "topic"));
	uint64_t n_lost = rpc_value_u64(rpc_value_get(params, "count"));
	struct queued_event event = { 0 };

	if (!p->fn || !topic)
		return 0; /* not subscribed, or no event */
	if (strcmp(topic, "lost") != 0) {
		event.topic = strdup(topic);
		event.timestamp = rpc_value_f64(rpc_value_get(params, "timestamp"));
		client_render(rpc_value_get(params, "data"), &event.data, NULL);
	} else if (u64_known(n_lost) && n_lost > 0) {
		event = make_notice(n_lost); /* lost before they came here */
	} else {
		return 0;
	}
	event_queue_push(&p->events, &event);
	return 1;
}

/* ---- the connection ---- */

#define DEFAULT_TIMEOUT_MS 10000

const char *proctor_version(void)
{
	return PROCTOR_VERSION;
}

struct proctor *proctor_new(void)
{
	struct proctor *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->timeout_ms = DEFAULT_TIMEOUT_MS;
	p->error_data = (struct buf)BUF_INIT;
	return p;
}

/* Of a forked child it is the copy that is closed: the parent's stays. */
static void disconnect(struct proctor *p)
{
	p->rpc = rpc_client_close(p->rpc);
	p->fn = NULL;
	event_queue_release(&p->events);
}

struct proctor *proctor_free(struct proctor *p)
{
	if (!p)
		return NULL;
	disconnect(p);
	buf_release(&p->error_data);
	free(p);
	return NULL;
}

/* Below 0: RPC_FOREVER. */
static uint64_t client_timeout(int timeout_ms)
{
	return timeout_ms < 0 ? RPC_FOREVER : (uint64_t)timeout_ms;
}

void proctor_set_timeout(struct proctor *p, int timeout_ms)
{
	if (!p)
		return;
	p->timeout_ms = timeout_ms;
	if (p->rpc)
		rpc_client_set_timeout(p->rpc, client_timeout(timeout_ms));
}

static void forget_error(struct proctor *p)
{
	p->err = (struct err)ERR_INIT;
	p->was_answered = false;
}

int proctor_open(struct proctor *p, const char *path)
{
	struct rpc_client_options options = {
		.path = path,
		.on_event = client_take_event,
		.ctx = p,
	};
	int r;

	if (!p)
		return -EINVAL;
	forget_error(p);
	disconnect(p);
	options.timeout_ms = p->timeout_ms == 0 ? 1 : client_timeout(p->timeout_ms);
	r = rpc_client_open(&options, &p->rpc, &p->err);
	p->opened_by = getpid();
	return r;
}

/* What every function does first. -EINVAL, -ENOTCONN, -EBADFD: it cannot be used. */
static int client_begin(struct proctor *p)
{
	if (!p)
		return -EINVAL;
	forget_error(p);
	if (!p->rpc)
		return err_set(&p->err, -ENOTCONN, "not connected: proctor_open() comes first");
	if (p->opened_by != getpid())
		return err_set(&p->err, -EBADFD,
			       "the connection is that of process %d, which this one was forked "
			       "from: open another",
			       (int)p->opened_by);
	return 0;
}

int proctor_fd(const struct proctor *p)
{
	return p && p->rpc ? rpc_client_fd(p->rpc) : -ENOTCONN;
}

/* ---- errors ---- */

const char *proctor_error(const struct proctor *p)
{
	return p ? p->err.text : "no memory left for a connection";
}

long long proctor_error_code(const struct proctor *p)
{
	return p && p->was_answered ? rpc_client_error_code(p->rpc) : 0;
}

const char *proctor_error_data(struct proctor *p)
{
	const struct rpc_value *data = p && p->was_answered ? rpc_client_error_data(p->rpc) : NULL;
	struct json j;

	if (!data)
		return NULL;
	buf_reset(&p->error_data);
	json_init(&j, &p->error_data);
	rpc_value_write(data, &j);
	return buf_error(&p->error_data) < 0 ? NULL : p->error_data.data;
}

/* ---- calls ---- */

static void cleanup_value(struct rpc_value **value)
{
	*value = rpc_value_free(*value);
}

int proctor_call(struct proctor *p, const char *method, const char *params, char **ret_json)
{
	CLEANUP(cleanup_value) struct rpc_value *value = NULL;
	int r = client_begin(p);

	if (ret_json)
		*ret_json = NULL;
	if (r < 0)
		return r;
	if (!method)
		return err_set(&p->err, -EINVAL, "no method is named");
	r = rpc_client_call(p->rpc, method, params, &value, &p->err);
	p->was_answered = r < 0 && rpc_client_error_code(p->rpc) != 0;
	if (r < 0 || !ret_json)
		return r;
	return client_render(value, ret_json, &p->err);
}

void proctor_free_text(char *text)
{
	free(text);
}

/* ---- subscribing ---- */

int proctor_subscribe(struct proctor *p, const char *topics, proctor_event_fn *fn, void *ctx)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	int r = client_begin(p);
	struct json j;

	if (r < 0)
		return r;
	if (!topics || !fn)
		return err_set(&p->err, -EINVAL, "a subscription has topics and a callback");
	if (p->fn)
		return err_set(&p->err, -EALREADY,
			       "this connection has a subscription: open another for more");
	/* "a.*, b" becomes {"topics":["a.*","b"]}. */
	json_init(&j, &params);
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
	if (buf_error(&params) < 0)
		return err_set(&p->err, -ENOMEM, "no memory left to subscribe");
	r = proctor_call(p, "events.subscribe", params.data, NULL);
	if (r < 0)
		return r;
	p->fn = fn;
	p->ctx = ctx;
	return 0;
}

/* ---- events are handed over ---- */

#define LISTEN_MAX 1024 /* events handed over by one call, however many come */

int proctor_listen(struct proctor *p, int timeout_ms)
{
	int n = 0, r = client_begin(p);
	bool goes_on = true;

	if (r == 0 && !p->fn)
		r = err_set(&p->err, -EINVAL, "nothing is subscribed");
	if (r < 0)
		return r;
	while (goes_on && n < LISTEN_MAX && p->rpc && p->fn) {
		CLEANUP(queued_event_release) struct queued_event queued = { 0 };
		struct proctor_event event;

		if (!p->events.first && p->events.n_lost_unreported == 0) {
			r = rpc_client_listen(p->rpc, client_timeout(n == 0 ? timeout_ms : 0),
					      &p->err);
			if (r == -ETIMEDOUT) {
				p->err = (struct err)
					ERR_INIT; /* that nothing happens is no failure */
				r = 0;
			}
			if (r <= 0)
				break;
		}
		n++;
		if (!event_queue_pop(&p->events, &queued))
			continue;
		event = (struct proctor_event){
			.topic = queued.topic,
			.timestamp = queued.timestamp,
			.data = queued.data,
			.n_lost = queued.n_lost,
		};
		/* The callback may ask and listen by itself: nothing of p is held meanwhile. */
		goes_on = p->fn(p->ctx, &event) == 0;
	}
	/* The next call returns why there are no more. */
	return n > 0 ? n : r;
}
