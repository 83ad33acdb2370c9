/*
 * client - libproctor: the daemon's socket for programs that are not proctor.
 *
 * <proctor/proctor.h> is its manual. This is what its parts share: client.c is the
 * connection, queue.c events that wait, events.c how they are handed over, and
 * methods.c the calls by name. No name of ours is seen outside but those that
 * libproctor.map lists.
 */
#ifndef PROCTOR_CLIENT_CLIENT_H
#define PROCTOR_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <proctor/proctor.h>

#include "base/buf.h"
#include "base/err.h"
#include "client/queue.h"
#include "rpc/rpc.h"

struct proctor {
	struct rpc_client *rpc; /* NULL: not open */
	pid_t opened_by;	/* a forked child has the same socket, and must not use it */
	int timeout_ms;		/* below 0: for ever */
	struct err err;		/* of the last function */
	bool was_answered;	/* err is what the daemon said */
	struct buf error_data;	/* for proctor_error_data() */
	proctor_event_fn *fn;	/* NULL: nothing is subscribed */
	void *ctx;
	struct event_queue events;
};

/* What every function does first. -EINVAL, -ENOTCONN, -EBADFD: it cannot be used. */
int client_begin(struct proctor *p);

/* Below 0: RPC_FOREVER. */
uint64_t client_timeout(int timeout_ms);

/* What the rpc_client calls with each event: it goes into the queue. 1: there is one in it now. */
int client_take_event(void *ctx, const struct rpc_value *params);

/* The text of a value, to be freed. -ENOMEM. */
int client_render(const struct rpc_value *value, char **ret, struct err *err);

#endif
