#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "rpc/server_internal.h"

/* ---- requests ---- */

int rpc_request_parse(const char *line, size_t len, size_t max_batch, struct rpc_value **ret,
		      struct err *err)
{
	const struct rpc_value_limits limits = { RPC_MAX_DEPTH, RPC_MAX_VALUES };
	struct rpc_value *v = NULL;
	int r = rpc_value_parse(line, len, &limits, &v, err);

	if (r < 0)
		return r;
	if (rpc_value_is_list(v) && rpc_value_len(v) == 0)
		r = err_set(err, -EPROTO, "a batch has at least one request");
	else if (rpc_value_is_list(v) && rpc_value_len(v) > max_batch)
		r = err_set(err, -EPROTO, "a batch of %zu requests; at most %zu", rpc_value_len(v),
			    max_batch);
	if (r < 0) {
		rpc_value_free(v);
		return r;
	}
	*ret = v;
	return 0;
}

static bool is_id(const struct rpc_value *v)
{
	return rpc_value_is_string(v) || rpc_value_is_number(v) || rpc_value_is_null(v);
}

int rpc_request_read(const struct rpc_value *v, struct rpc_request *ret, struct err *err)
{
	const struct rpc_value *id = rpc_value_get(v, "id");
	const char *version = rpc_value_string(rpc_value_get(v, "jsonrpc"));
	const char *fault = NULL;

	*ret = (struct rpc_request){
		.id = is_id(id) ? id : NULL,
		.method = rpc_value_string(rpc_value_get(v, "method")),
		.params = rpc_value_get(v, "params"),
	};
	if (!rpc_value_is_object(v))
		fault = "a request is an object";
	else if (!version || strcmp(version, "2.0") != 0)
		fault = "'jsonrpc' must be \"2.0\"";
	else if (!ret->method)
		fault = "'method' must be a text";
	else if (ret->params && !rpc_value_is_object(ret->params) &&
		 !rpc_value_is_list(ret->params))
		fault = "'params' must be an object or a list";
	else if (id && !is_id(id))
		fault = "'id' must be a text, a number or null";
	return fault ? err_set(err, -EPROTO, "%s", fault) : 0;
}

/* ---- calls ---- */

static void call_free(struct rpc_call *call)
{
	buf_release(&call->id);
	buf_release(&call->result);
	free(call);
}

/* A faulty request is answered also where it has no id. NULL: no memory. */
static struct rpc_call *call_new(struct rpc_conn *conn, struct batch *batch,
				 const struct rpc_request *request, bool is_faulty)
{
	struct rpc_call *call = calloc(1, sizeof(*call));
	struct json j;

	if (!call)
		return NULL;
	call->conn = conn;
	call->batch = batch;
	call->params = request->params;
	call->id = call->result = (struct buf)BUF_INIT;
	if (request->id || is_faulty) {
		json_init(&j, &call->id);
		rpc_value_write(request->id, &j);
	}
	if (buf_error(&call->id) < 0) {
		call_free(call);
		return NULL;
	}
	return call;
}

/* ---- what a method does with it ---- */

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
	return &call->conn->peer;
}

bool rpc_call_wants_answer(const struct rpc_call *call)
{
	return call->id.len > 0;
}

int rpc_call_read(const struct rpc_call *call, const struct rpc_field *fields, size_t n, void *ret,
		  struct err *err)
{
	return rpc_fields_read(call->params, fields, n, ret, err);
}

/* The result is written behind the head of its answer, so that it need not be copied there. */
struct json *rpc_call_result(struct rpc_call *call)
{
	if (!call->has_result) {
		buf_add_str(&call->result, "{\"jsonrpc\":\"2.0\",\"result\":");
		json_init(&call->json, &call->result);
		call->has_result = true;
	}
	return &call->json;
}

/* ---- batches ---- */

/* The line goes when the last call of it is answered. Without any answer there is none. */
static void batch_settle(struct rpc_conn *conn, struct batch *batch)
{
	if (batch->requests || batch->n_open > 0)
		return;
	conn->batch_bytes -= batch->line.len;
	if (batch->line.len > 0) {
		buf_add_char(&batch->line, ']');
		conn_send(conn, &batch->line);
	}
	buf_release(&batch->line);
	free(batch);
}

/* No more calls will come of it. */
static void batch_end_requests(struct rpc_conn *conn)
{
	struct batch *batch = TAKE_PTR(conn->batch);

	rpc_value_free(batch->requests);
	batch->requests = NULL;
	conn->batch_request_bytes = 0;
	conn_count(conn);
	batch_settle(conn, batch);
}

/* ---- answers ---- */

/*
 * The call is over: its answer is sent, or waits for those of its batch. {"jsonrpc":…,"result":…,
 * "id":…} or, where error is negative, {…"error":…}; none for a notification. An error comes
 * instead of an answer that is too long, or for which there is no memory.
 */
static void finish(struct rpc_call *call, int error, const struct err *err)
{
	CLEANUP(buf_release) struct buf answer = BUF_INIT;
	struct rpc_conn *conn = call->conn;
	struct batch *batch = call->batch;
	size_t max = conn->server->limits.max_reply_bytes, used = batch ? batch->line.len : 0;
	size_t room = used < max ? max - used : 0;
	int r;

	if (call->id.len > 0 && error < 0) {
		conn_render_error(call->id.data, error, err ? err->text : "", &answer);
	} else if (call->id.len > 0) {
		if (!call->has_result)
			json_none(rpc_call_result(call));
		conn_render_id(&call->result, call->id.data);
		answer = call->result;
		call->result = (struct buf)BUF_INIT;
	}
	r = buf_error(&answer) < 0 ? -ENOMEM : answer.len > room ? -EMSGSIZE : 0;
	if (r < 0) {
		struct err why = ERR_INIT;

		if (r == -EMSGSIZE)
			err_set(&why, r, "the reply would be longer than %zu bytes", room);
		buf_release(&answer);
		conn_render_error(call->id.data, r, why.text, &answer);
	}
	conn->server->stats.n_errors += error < 0 || r < 0;
	call_free(call);
	if (batch && answer.len > 0) {
		buf_add_char(&batch->line, used == 0 ? '[' : ',');
		buf_add(&batch->line, answer.data, answer.len);
		conn->batch_bytes += batch->line.len - used;
		conn_count(conn);
	}
	if (batch) {
		batch->n_open--;
		batch_settle(conn, batch);
	} else if (answer.len > 0) {
		conn_send(conn, &answer);
	}
}

/* ---- deferred calls ---- */

void rpc_call_defer(struct rpc_call *call, rpc_gone_fn *gone, void *ctx)
{
	call->is_deferred = true;
	call->gone = gone;
	call->gone_ctx = ctx;
}

void rpc_call_hold(struct rpc_call *call)
{
	call->is_holding = true;
}

static void unlink_call(struct rpc_call *call)
{
	struct rpc_conn *conn = call->conn;

	LIST_REMOVE(conn->calls, call, next);
	conn->n_calls--;
	if (call->is_holding)
		conn->is_held = false; /* there was but one, as it held up the others */
}

void rpc_call_fail(struct rpc_call *call, int error, const struct err *err)
{
	struct rpc_conn *conn = call->conn;

	unlink_call(call);
	finish(call, error, err);
	conn_settle_soon(conn);
}

void rpc_call_answer(struct rpc_call *call)
{
	rpc_call_fail(call, 0, NULL);
}

void dispatch_abandon(struct rpc_conn *conn)
{
	if (conn->batch)
		batch_end_requests(conn);
	while (conn->calls) {
		struct rpc_call *call = conn->calls;
		rpc_gone_fn *gone = call->gone;
		void *ctx = call->gone_ctx;

		/* Other calls of its batch may still be open. */
		unlink_call(call);
		finish(call, -ESHUTDOWN,
		       NULL); /* read by clients that are there when the server ends */
		gone(ctx);
	}
}

/* ---- one request ---- */

static int run_method(struct rpc_call *call, const char *name, struct err *err)
{
	const struct rpc_server *server = call->conn->server;
	const uid_t uid = call->conn->peer.uid;
	struct suggest s = suggest_for(name);
	char quoted[UTF8_QUOTED_BYTES];

	for (size_t i = 0; i < server->n_methods; i++) {
		const struct rpc_method *method = &server->methods[i];

		if (strcmp(method->name, name) != 0)
			continue;
		if ((method->flags & RPC_FOR_OWNER) && uid != 0 && uid != server->own_uid)
			return err_set(err, -EACCES,
				       "only root and the daemon's own user may call %s",
				       method->name);
		if ((method->flags & RPC_NO_PARAMS) && rpc_call_read(call, NULL, 0, NULL, err) < 0)
			return -EINVAL;
		return method->fn(server->ctx, call, err);
	}
	for (size_t i = 0; i < server->n_methods; i++)
		suggest_offer(&s, server->methods[i].name);
	utf8_quote(name, quoted);
	if (s.best)
		return err_set(err, -ENOSYS, "no method %s; did you mean '%s'?", quoted, s.best);
	return err_set(err, -ENOSYS, "no method %s", quoted);
}

static void dispatch_one(struct rpc_conn *conn, struct batch *batch, const struct rpc_value *v)
{
	struct err err = ERR_INIT;
	struct rpc_request request;
	struct rpc_call *call;
	int r = rpc_request_read(v, &request, &err);

	conn->server->stats.n_requests++;
	call = call_new(conn, batch, &request, r < 0);
	if (!call) {
		conn_drop(conn, "out of memory");
		return;
	}
	if (batch)
		batch->n_open++;
	if (r == 0)
		r = run_method(call, request.method, &err);
	if (r < 0 || !call->is_deferred) {
		finish(call, r, &err);
		return;
	}
	call->params = NULL; /* they end with the method */
	call->next = conn->calls;
	conn->calls = call;
	conn->n_calls++;
	conn->is_held = conn->is_held || call->is_holding;
}

/* One request at least, so that it comes to an end; and others while the turn lasts. */
void dispatch_continue(struct rpc_conn *conn)
{
	struct batch *batch = conn->batch;

	do {
		dispatch_one(conn, batch, rpc_value_at(batch->requests, batch->n_begun++));
		if (batch->n_begun == rpc_value_len(batch->requests)) {
			batch_end_requests(conn);
			return;
		}
	} while (!conn->is_broken && !conn->is_held && clock_boot_ns() < conn->turn_ends_ns);
}

/* ---- lines ---- */

void dispatch_parsed(struct rpc_conn *conn, const struct parsed *parsed)
{
	bool is_batch = parsed->r == 0 && rpc_value_is_list(parsed->value);
	struct batch *batch = is_batch ? calloc(1, sizeof(*batch)) : NULL;

	if (batch) {
		*batch = (struct batch){ .requests = parsed->value, .line = BUF_INIT };
		conn->batch = batch;
		conn->batch_request_bytes = parsed->line_bytes; /* as long as the list is there */
		conn_count(conn);
		dispatch_continue(conn);
		return;
	}
	if (is_batch)
		conn_send_error(conn, "null", -ENOMEM, "out of memory");
	else if (parsed->r < 0)
		conn_send_error(conn, "null", parsed->r, parsed->err.text);
	else
		dispatch_one(conn, NULL, parsed->value);
	rpc_value_free(parsed->value);
}

void dispatch_line(struct rpc_conn *conn, const char *line, size_t len)
{
	struct parsed parsed = { .line_bytes = len };
	size_t n_blank = 0;

	while (n_blank < len && line[n_blank] != '\0' && strchr(" \t\r", line[n_blank]))
		n_blank++;
	if (n_blank == len)
		return;
	parsed.r = rpc_request_parse(line, len, conn->server->limits.max_batch, &parsed.value,
				     &parsed.err);
	dispatch_parsed(conn, &parsed);
}

/* ---- subscribers ---- */

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
	LIST_REMOVE(sub->conn->subscribers, sub, next);
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

size_t rpc_subscriber_waiting(const struct rpc_subscriber *sub)
{
	return sub->conn->out.events.bytes;
}

void rpc_push(struct rpc_subscriber *sub, struct message *event)
{
	struct rpc_conn *conn = sub->conn;
	uint64_t n_lost = conn->out.n_lost;

	if (conn->is_broken)
		return;
	if (outbox_is_full(&conn->out) && !conn->is_clogged)
		conn_write(conn); /* it may read fast enough, and many events come at once */
	if (outbox_add_event(&conn->out, message_ref(event)) < 0)
		conn_drop(conn, "out of memory");
	conn->server->stats.n_events_lost += conn->out.n_lost - n_lost;
	conn_settle_soon(conn);
}
