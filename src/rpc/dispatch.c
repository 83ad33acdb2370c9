#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "rpc/server_internal.h"

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

static void batch_add(struct rpc_conn *conn, struct batch *batch, struct buf *answer)
{
	size_t before = batch->line.len;

	if (answer->len == 0)
		return;
	buf_add_char(&batch->line, before == 0 ? '[' : ',');
	buf_add(&batch->line, answer->data, answer->len);
	conn->batch_bytes += batch->line.len - before;
	conn_count(conn);
}

/* ---- answers ---- */

/* Instead of an answer that cannot be had. */
static void render_failure(struct rpc_call *call, int r, size_t max_bytes, struct buf *ret)
{
	struct err err = ERR_INIT;

	if (r == -EMSGSIZE)
		err_set(&err, r, "the reply would be longer than %zu bytes", max_bytes);
	buf_release(ret);
	call_render_error(call->id.data, r, err.text, ret);
}

/* Room for this answer: all of the limit, or what the batch has left of it. */
static size_t room_for(const struct rpc_call *call)
{
	size_t max = call->conn->server->limits.max_reply_bytes;
	size_t used = call->batch ? call->batch->line.len : 0;

	return used < max ? max - used : 0;
}

/* The call is over: its answer is sent, or waits for those of its batch. */
static void finish(struct rpc_call *call, int error, const struct err *err)
{
	CLEANUP(buf_release) struct buf answer = BUF_INIT;
	struct rpc_conn *conn = call->conn;
	struct batch *batch = call->batch;
	size_t room = room_for(call);
	int r = call_render(call, error, err, room, &answer);

	if (r < 0)
		render_failure(call, r, room, &answer);
	conn->server->stats.n_errors += error < 0 || r < 0;
	call_free(call);
	if (batch) {
		batch_add(conn, batch, &answer);
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

static void link_call(struct rpc_call *call)
{
	struct rpc_conn *conn = call->conn;

	call->params = NULL; /* they end with the method */
	call->next = conn->calls;
	if (conn->calls)
		conn->calls->prev = call;
	conn->calls = call;
	conn->n_calls++;
	conn->is_held = conn->is_held || call->is_holding;
}

static void unlink_call(struct rpc_call *call)
{
	struct rpc_conn *conn = call->conn;

	if (call->prev)
		call->prev->next = call->next;
	else
		conn->calls = call->next;
	if (call->next)
		call->next->prev = call->prev;
	conn->n_calls--;
	if (call->is_holding)
		conn->is_held = false; /* there was but one, as it held up the others */
}

void rpc_call_fail(struct rpc_call *call, int error, const struct err *err)
{
	struct rpc_conn *conn = call->conn;

	unlink_call(call);
	finish(call, error, err);
	server_settle_soon(conn);
}

void rpc_call_answer(struct rpc_call *call)
{
	rpc_call_fail(call, 0, NULL);
}

/* One of a batch, whose other calls may still be open. */
static void abandon_call(struct rpc_call *call)
{
	rpc_gone_fn *gone = call->gone;
	void *ctx = call->gone_ctx;

	unlink_call(call);
	finish(call, -ESHUTDOWN, NULL); /* read by who is still there when the server ends */
	gone(ctx);
}

void dispatch_abandon(struct rpc_conn *conn)
{
	if (conn->batch)
		batch_end_requests(conn);
	while (conn->calls)
		abandon_call(conn->calls);
}

/* ---- one request ---- */

static const struct rpc_method *find_method(const struct rpc_server *server, const char *name)
{
	for (size_t i = 0; i < server->n_methods; i++)
		if (strcmp(server->methods[i].name, name) == 0)
			return &server->methods[i];
	return NULL;
}

static int refuse_unknown(const struct rpc_server *server, const char *name, struct err *err)
{
	struct suggest s = suggest_for(name);
	char quoted[UTF8_QUOTED_BYTES];

	for (size_t i = 0; i < server->n_methods; i++)
		suggest_offer(&s, server->methods[i].name);
	utf8_quote(name, quoted);
	if (s.best)
		return err_set(err, -ENOSYS, "no method %s; did you mean '%s'?", quoted, s.best);
	return err_set(err, -ENOSYS, "no method %s", quoted);
}

static int check_access(const struct rpc_method *method, const struct rpc_conn *conn,
			struct err *err)
{
	if (method->access == RPC_FOR_ALL || conn->peer.uid == 0 ||
	    conn->peer.uid == conn->server->own_uid)
		return 0;
	return err_set(err, -EACCES, "only root and the daemon's own user may call %s",
		       method->name);
}

static int run_method(struct rpc_call *call, const char *name, struct err *err)
{
	const struct rpc_server *server = call->conn->server;
	const struct rpc_method *method = find_method(server, name);
	int r;

	if (!method)
		return refuse_unknown(server, name, err);
	r = check_access(method, call->conn, err);
	if (r < 0)
		return r;
	return method->fn(server->ctx, call, err);
}

static void answer_fault(struct rpc_conn *conn, struct batch *batch, const struct rpc_value *id,
			 int error, const char *sentence)
{
	CLEANUP(buf_release) struct buf id_text = BUF_INIT, answer = BUF_INIT;
	struct json j;

	json_init(&j, &id_text);
	rpc_value_write(id, &j);
	if (batch) {
		call_render_error(id_text.data, error, sentence, &answer);
		batch_add(conn, batch, &answer);
		conn->server->stats.n_errors++;
	} else {
		conn_send_error(conn, id_text.data, error, sentence);
	}
}

static void dispatch_one(struct rpc_conn *conn, struct batch *batch, const struct rpc_value *v)
{
	struct err err = ERR_INIT;
	struct rpc_request request;
	struct rpc_call *call;
	int r;

	conn->server->stats.n_requests++;
	r = rpc_request_read(v, &request, &err);
	if (r < 0) {
		answer_fault(conn, batch, request.id, r, err.text);
		return;
	}
	call = call_new(conn, batch, &request);
	if (!call) {
		answer_fault(conn, batch, request.id, -ENOMEM, "out of memory");
		return;
	}
	if (batch)
		batch->n_open++;
	r = run_method(call, request.method, &err);
	if (r == 0 && call->is_deferred)
		link_call(call);
	else
		finish(call, r, &err);
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

/* Takes over the list. The line that it came in counts for as long as it is there. */
static void begin_batch(struct rpc_conn *conn, struct rpc_value *list, size_t line_bytes)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch) {
		rpc_value_free(list);
		conn_send_error(conn, "null", -ENOMEM, "out of memory");
		return;
	}
	*batch = (struct batch){ .requests = list, .line = BUF_INIT };
	conn->batch = batch;
	conn->batch_request_bytes = line_bytes;
	conn_count(conn);
	dispatch_continue(conn);
}

/* ---- lines ---- */

void dispatch_parsed(struct rpc_conn *conn, const struct parsed *parsed)
{
	if (parsed->r == 0 && rpc_value_is_list(parsed->value)) {
		begin_batch(conn, parsed->value, parsed->line_bytes);
		return; /* the batch has it, or has freed it */
	}
	if (parsed->r < 0)
		conn_send_error(conn, "null", parsed->r, parsed->err.text);
	else
		dispatch_one(conn, NULL, parsed->value);
	rpc_value_free(parsed->value);
}

static bool is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r", line[i]) || line[i] == '\0')
			return false;
	return true;
}

void dispatch_line(struct rpc_conn *conn, const char *line, size_t len)
{
	struct parsed parsed = { .line_bytes = len };

	if (is_blank(line, len))
		return;
	parsed.r = rpc_request_parse(line, len, conn->server->limits.max_batch, &parsed.value,
				     &parsed.err);
	dispatch_parsed(conn, &parsed);
}
