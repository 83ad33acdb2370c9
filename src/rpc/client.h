/*
 * client - asks a daemon and waits for the answer.
 *
 * Blocking and small: one call at a time, on the caller's thread. The daemon at
 * the other end must be root's or our own, by the kernel's word; still, what it
 * sends is bounded in size and in time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json_cursor.h"
#include "rpc/value.h"

struct rpc_client;

#define RPC_FOREVER UINT64_MAX

#define RPC_CLIENT_CHUNK_BYTES (64 * 1024) /* read at once */

/*
 * An event: params is {"topic":…,"timestamp":…,"data":…}, or {"topic":"lost",
 * "count":…} when this client was too slow for that many. Borrowed during the
 * call. Non-zero ends rpc_client_listen(), which returns it.
 */
typedef int rpc_event_fn(void *ctx, const struct rpc_value *params);

/*
 * The data of an event as text, for topics that are long and come often: no tree is made of
 * them. Whatever of it is not read is passed over. Non-zero is as with rpc_event_fn.
 */
typedef int rpc_text_fn(void *ctx, struct json_cursor *data);

/*
 * The answer to rpc_client_ask(), as rpc_client_call() would return it: r is 0 and result what
 * the daemon said, borrowed; or r is the errno and err has its sentence.
 */
typedef void rpc_answer_fn(void *ctx, uint64_t id, int r, const struct rpc_value *result,
			   const struct err *err);

struct rpc_client_options {
	const char *path;	/* NULL: the first of socket_paths_find() where a daemon is */
	uint64_t timeout_ms;	/* for connecting, and for a call; 0: 10 s */
	size_t max_line_bytes;	/* of one answer; 0: 64 MiB and a bit */
	rpc_event_fn *on_event; /* NULL: events are passed over */
	const char *text_topic; /* events of this one go to on_text; NULL: of none */
	rpc_text_fn *on_text;
	rpc_answer_fn *on_answer; /* NULL: answers that nobody waits for are passed over */
	void *ctx;
};

/*
 * -ENOENT: no daemon runs. -EPERM: somebody plays daemon who is neither root nor
 * this user. -ETIMEDOUT, -EACCES… as the system says.
 */
int rpc_client_open(const struct rpc_client_options *options, struct rpc_client **ret,
		    struct err *err);

/* NULL is fine. Returns NULL. */
struct rpc_client *rpc_client_close(struct rpc_client *client);

/* From now on; RPC_FOREVER for calls that wait for something to happen. */
void rpc_client_set_timeout(struct rpc_client *client, uint64_t timeout_ms);

/*
 * Calls a method. params is a JSON object or list on one line, NULL for none. ret
 * (which may be NULL) gets the result, to be freed. If the daemon answers with an
 * error: the errno of rpc/value.h and the daemon's sentence. -ETIMEDOUT: no answer
 * in time; a late one is passed over. -ECONNRESET: the daemon is gone. Events that
 * come meanwhile go to on_event.
 */
int rpc_client_call(struct rpc_client *client, const char *method, const char *params,
		    struct rpc_value **ret, struct err *err);

/*
 * For who cannot wait: asks, and the answer goes to on_answer when rpc_client_listen() meets it,
 * in whatever order. Nothing keeps the time: an answer may never come.
 */
int rpc_client_ask(struct rpc_client *client, const char *method, const char *params,
		   uint64_t *ret_id, struct err *err);

/* The same without an answer: it is only sent. */
int rpc_client_notify(struct rpc_client *client, const char *method, const char *params,
		      struct err *err);

/* What the daemon said when the last call failed: its code (0: it said nothing) and data (or NULL).
 */
long long rpc_client_error_code(const struct rpc_client *client);
const struct rpc_value *rpc_client_error_data(const struct rpc_client *client);

/*
 * Hands events to on_event until that returns non-zero, which is returned. 0 ms:
 * only what is there already. -ETIMEDOUT, -ECONNRESET.
 */
int rpc_client_listen(struct rpc_client *client, uint64_t timeout_ms, struct err *err);

/*
 * For who has other things to wait for: when it can be read, listen for 0 ms. A
 * call may have read events along with its answer: listen for 0 ms after one, too.
 */
int rpc_client_fd(const struct rpc_client *client);

/* The daemon's, as it was when it began to listen; 0: in another pid namespace. */
pid_t rpc_client_daemon_pid(const struct rpc_client *client);

/* Whose it is: root's, or our own. */
uid_t rpc_client_daemon_uid(const struct rpc_client *client);
