/*
 * request - one line from a client, as JSON-RPC 2.0 understands it.
 */
#ifndef PROCTOR_RPC_REQUEST_H
#define PROCTOR_RPC_REQUEST_H

#include <stddef.h>

#include "base/err.h"
#include "rpc/value.h"

#define RPC_MAX_DEPTH 64      /* of lists and objects in each other, in a request */
#define RPC_MAX_VALUES 131072 /* in a request: a tree of at most 32 MB, beside its texts */

struct rpc_request {
	const struct rpc_value *id; /* text, number or null; NULL: a notification, never answered */
	const char *method;
	const struct rpc_value *params; /* an object or a list; NULL: none */
};

/*
 * A request, or a list of them (a batch) of at most max_batch. -EBADMSG: not
 * JSON. -EMSGSIZE: too deep or too many values. -EPROTO: a batch that is empty or
 * too long.
 */
int rpc_request_parse(const char *line, size_t len, size_t max_batch, struct rpc_value **ret,
		      struct err *err);

/*
 * Reads one request out of the parsed line; ret borrows from v. -EPROTO: it is
 * none; ret->id is then what the error is told to, or NULL where that cannot be
 * seen (which does not make it a notification: an error is told all the same).
 */
int rpc_request_read(const struct rpc_value *v, struct rpc_request *ret, struct err *err);

#endif
