/*
 * call - one request on its way to its answer.
 *
 * It belongs to the connection it came on. Most calls live for as long as their
 * method runs; a deferred one waits in the connection's list.
 */
#ifndef PROCTOR_RPC_CALL_H
#define PROCTOR_RPC_CALL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
#include "rpc/request.h"
#include "rpc/server.h"

struct rpc_conn;

/* A value that a method writes, if it wants to. */
struct call_value {
	struct buf text;
	struct json json;
	bool is_there;
};

/* Requests that came in one line, and whose answers go into one. */
struct batch {
	struct rpc_value *requests; /* owned; NULL: all of them have been made calls */
	size_t n_begun;		    /* of these */
	struct buf line;	    /* "[…,…" so far */
	size_t n_open;		    /* calls that are not yet answered */
};

struct rpc_call {
	struct rpc_conn *conn;
	struct batch *batch; /* NULL: it came alone */
	const struct rpc_value *params;
	struct buf id; /* as JSON; empty: a notification */
	struct call_value result, data;
	bool is_deferred, is_holding;
	rpc_gone_fn *gone;
	void *gone_ctx;
	struct rpc_call *prev, *next; /* in the list of its connection, once it is deferred */
};

/* NULL: no memory. */
struct rpc_call *call_new(struct rpc_conn *conn, struct batch *batch,
			  const struct rpc_request *request);
void call_free(struct rpc_call *call);

/*
 * The whole answer, without the newline: {"jsonrpc":…,"result":…,"id":…} or, where
 * error is negative, {…"error":…}. Empty for a notification. What the method wrote
 * is used up. -EMSGSIZE, -ENOMEM: it cannot be had.
 */
int call_render(struct rpc_call *call, int error, const struct err *err, size_t max_bytes,
		struct buf *ret);

/* An error without a call; id is JSON, "null" where it cannot be told. */
void call_render_error(const char *id, int error, const char *sentence, struct buf *ret);

#endif
