/*
 * outbox - what waits to be written to one client.
 *
 * Replies are kept until they are written, and go before events. Of events only
 * the newest are kept: what has no room pushes out the oldest, and the next event
 * that is written comes after a line that says how many were lost. Nothing here
 * blocks.
 */
#ifndef PROCTOR_RPC_OUTBOX_H
#define PROCTOR_RPC_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rpc/message.h"

#define OUTBOX_BATCH 32 /* messages handed to the kernel in one call */

struct outbox_limits {
	size_t max_events;
	size_t max_event_bytes; /* the newest event is kept even if it alone is larger */
};

struct outbox {
	struct outbox_limits limits;
	struct message_queue replies, events;
	struct {
		struct message *message;
		bool is_reply;
	} writing[OUTBOX_BATCH]; /* out of the queues; of the first a part may be written */
	size_t n_writing, written;
	size_t reply_bytes;	/* of replies that are not written in full */
	uint64_t n_lost_untold; /* events, since the last line about it */
	uint64_t n_lost;	/* in all */
};

void outbox_init(struct outbox *o, const struct outbox_limits *limits);
void outbox_release(struct outbox *o);

/* Both take over the caller's reference. -ENOMEM: it is lost, and so is the connection's order. */
int outbox_add_reply(struct outbox *o, struct message *m);
int outbox_add_event(struct outbox *o, struct message *m);

bool outbox_is_empty(const struct outbox *o);

/* The message of which a part is written: until its rest is, it can be neither lost nor freed.
 * NULL: none. */
struct message *outbox_half_written(const struct outbox *o);

/* Whether one more event would push out another. */
bool outbox_is_full(const struct outbox *o);

/*
 * Writes what the socket takes, which is one that does not block; SIGPIPE is to be ignored.
 * Returns how many bytes that were (0: it is full, or there is nothing), or -EPIPE,
 * -ECONNRESET…: the peer is gone. -ENOMEM.
 */
ssize_t outbox_write(struct outbox *o, int fd);

#endif
