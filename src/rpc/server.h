/*
 * server - answers JSON-RPC 2.0 on a Unix stream socket, one request per line.
 *
 * It runs inside the loop and never blocks it. Clients are hostile until proven
 * otherwise: every queue and every wait has a bound (struct rpc_limits), and
 * whoever passes one is told or dropped while the others are served.
 * docs/rpc.md is what the other side sees.
 *
 * Methods, and the functions that tell that somebody is gone, run on the loop's
 * thread. They may answer, push and subscribe as they like; they do not free the
 * server.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "rpc/value.h"
#include "rpc/listen.h"
#include "rpc/outbox.h"

struct rpc_server;
struct rpc_call;
struct rpc_subscriber;

/* ---- methods ---- */

/*
 * Answers a call. 0: the result is what was written to rpc_call_result() (null if
 * nothing was), or comes later, see rpc_call_defer(). A negative errno: an error,
 * with the code that rpc/value.h has for it and the sentence of err.
 */
typedef int rpc_method_fn(void *ctx, struct rpc_call *call, struct err *err);

#define RPC_FOR_ALL 0u	 /* whoever can connect; the method looks at the peer itself */
#define RPC_FOR_OWNER 1u /* root, and the user that the server runs as */
#define RPC_NO_PARAMS 2u /* it has none, and others are refused */

/* One row of the table of methods. */
struct rpc_method {
	const char *name;
	rpc_method_fn *fn;
	unsigned flags;
};

/* Who asks; borrowed for as long as the call is there. */
const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);

/* False: a notification, which nobody waits for. */
bool rpc_call_wants_answer(const struct rpc_call *call);

/* rpc_fields_read() of the params: -EINVAL is what the method returns then. */
int rpc_call_read(const struct rpc_call *call, const struct rpc_field *fields, size_t n, void *ret,
		  struct err *err);

/* Where the one value goes that is the result. Nothing of it is sent if the call fails. */
struct json *rpc_call_result(struct rpc_call *call);

/*
 * The answer comes later: after the method, which returns 0 (an error ends the
 * call at once). It stays valid until it is answered, or until gone(ctx) has been
 * called because the client is no longer there (or the server ends).
 */
typedef void rpc_gone_fn(void *ctx);
void rpc_call_defer(struct rpc_call *call, rpc_gone_fn *gone, void *ctx);

/*
 * Of one that is deferred: until it is over nothing else of its client is handled, so that what
 * comes after it finds it done.
 */
void rpc_call_hold(struct rpc_call *call);

/* Answers a deferred call: with its result, or with an error (a negative errno). It is over then.
 */
void rpc_call_answer(struct rpc_call *call);
void rpc_call_fail(struct rpc_call *call, int error, const struct err *err);

/* ---- events ---- */

/*
 * Makes the caller's connection a subscriber, whom events can be pushed to from
 * now on (they come after the answer to this call). It is valid until
 * rpc_subscriber_free(), or until gone(ctx) has been called. -EBUSY: it has too
 * many subscriptions already. -ENOMEM.
 */
int rpc_call_subscribe(struct rpc_call *call, rpc_gone_fn *gone, void *ctx,
		       struct rpc_subscriber **ret, struct err *err);

/*
 * The ctx of the subscription that the caller's connection has with this gone; NULL: it has
 * none. So who subscribes twice can be given more on the one line.
 */
void *rpc_call_subscription(const struct rpc_call *call, rpc_gone_fn *gone);

/* Ends it without calling gone. NULL is fine. Returns NULL. */
struct rpc_subscriber *rpc_subscriber_free(struct rpc_subscriber *sub);

/* The same, and closes its connection: who is there may connect again. Returns NULL. */
struct rpc_subscriber *rpc_subscriber_hang_up(struct rpc_subscriber *sub);

const struct rpc_peer *rpc_subscriber_peer(const struct rpc_subscriber *sub);
size_t rpc_subscriber_waiting(const struct rpc_subscriber *sub); /* bytes of events, unread */

/* Never waits: a subscriber that does not keep up loses its oldest events and is told how many. The
 * event, of message_new_event(), is rendered once for all who get it, and stays the caller's. */
void rpc_push(struct rpc_subscriber *sub, struct message *event);

/* ---- the server ---- */

struct rpc_limits {
	size_t max_clients;
	size_t reserved_clients;     /* of these, for root and the server's own user */
	size_t max_clients_per_user; /* not for root and the server's own user; 0: any number */
	size_t reserved_files;	     /* file descriptors that no client gets: for the rest of the
				      * program; at most a quarter of what it may have */
	size_t max_request_bytes;    /* one line */
	size_t max_batch;	     /* requests in one line */
	size_t max_in_flight;	     /* deferred calls of a client, before it is read no more */
	size_t max_subscriptions;    /* of one client */
	size_t max_events;	     /* that wait for one subscriber */
	size_t max_event_bytes;	     /* the same in bytes */
	size_t max_reply_bytes;	     /* of one request or batch; instead of more an error is sent */
	size_t max_unread_bytes; /* replies that wait for one client, before it is read no more */
	size_t max_all_unread_bytes;  /* for all clients: beyond it the slowest reader is dropped */
	size_t max_all_request_bytes; /* half lines of all clients: the oldest is dropped */
	uint64_t line_timeout_ms;     /* half a line, and nothing comes of it */
	uint64_t read_timeout_ms;     /* replies or half an event wait, and nothing is read */
};

extern const struct rpc_limits rpc_default_limits;

struct rpc_options {
	const char *path; /* where to listen, see rpc/listen.h */
	mode_t mode;	  /* of the socket: 0600, or 0666 for all users of the host */
	int listen_fd;	  /* > 0: listen on this one instead, which is taken over */
	const struct rpc_method *methods; /* borrowed, as is ctx */
	size_t n_methods;
	void *ctx;			 /* handed to every method */
	const struct rpc_limits *limits; /* copied; NULL: rpc_default_limits */
};

/*
 * Fails as listener_open() does; err says it in one sentence. Clients are served
 * inside loop_run(). Sets malloc's thresholds for the whole process (mallopt(3)),
 * so that what large requests took goes back to the kernel: before there are other threads.
 */
int rpc_server_new(struct loop *loop, const struct rpc_options *options, struct rpc_server **ret,
		   struct err *err);

/*
 * Where somebody has removed the socket, as those do who clean up temporary folders, it is made
 * anew as in rpc_server_new(); who is connected stays so. 0: it was there. 1: it is again. Else err
 * says why not, and the next call tries again. One that was handed to us is not ours to make.
 */
int rpc_server_renew(struct rpc_server *server, const char *path, mode_t mode, struct err *err);

/*
 * A connection from inside the process, for a client whom the caller has identified: what it may do
 * is what that peer may do. ret_fd is the client's end, which does not block and is the caller's.
 * -EUSERS: there are too many clients.
 */
int rpc_server_connect(struct rpc_server *server, const struct rpc_peer *peer, int *ret_fd,
		       struct err *err);

/* Answers what is open with -ESHUTDOWN, sends what the clients take at once, then closes. NULL is
 * fine. Returns NULL. */
struct rpc_server *rpc_server_free(struct rpc_server *server);

struct rpc_stats {
	size_t n_clients, n_subscribers, n_open_calls;
	size_t request_bytes, unread_bytes; /* held right now: half lines, replies not yet read */
	uint64_t n_accepted, n_refused;	    /* clients since the server began */
	uint64_t n_dropped;		    /* clients that passed a bound, or were hung up on */
	uint64_t n_requests, n_errors;
	uint64_t n_events_lost;
};

void rpc_server_get_stats(const struct rpc_server *server, struct rpc_stats *ret);

/*
 * The socket that systemd handed to this process (LISTEN_PID, LISTEN_FDS), for
 * options.listen_fd. 0: none was. -EINVAL: more than one. What it says in the
 * environment is taken out, so that no child believes it.
 */
int rpc_take_inherited_fd(struct err *err);
