/*
 * library - libproctor: the daemon's socket for programs that are not proctor.
 *
 * <proctor/proctor.h> is its manual. library.c is the connection and its events, methods.c
 * the calls by name. No other name is visible outside than those in libproctor.map.
 */
#ifndef PROCTOR_CLIENT_LIBRARY_H
#define PROCTOR_CLIENT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <proctor/proctor.h>

#include "base/buf.h"
#include "base/err.h"
#include "rpc/rpc.h"

/*
 * Events that were read and are not yet handed over: they come in while an answer is awaited. Only
 * the newest are kept; the number of lost ones is reported before the next one.
 */
#define EVENT_QUEUE_MAX 4096
#define EVENT_QUEUE_MAX_BYTES ((size_t)64 << 20) /* the newest is kept however large it is */

struct queued_event {
	char *topic, *data; /* malloc'ed; data is JSON */
	double timestamp;   /* unix seconds, or NaN */
	uint64_t n_lost;    /* of a notice that events were lost, else 0 */
	struct queued_event *next;
};

struct event_queue {
	struct queued_event *first, *last;
	size_t n, bytes;
	uint64_t n_lost_unreported;
};

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

#endif
