/*
 * outbox - lines that wait to be written to one client.
 *
 * Replies are kept until they are written, and go before events. Of events only
 * the newest are kept: one that has no room pushes out the oldest, and the next event
 * that is written comes after a line with the number of lost ones. Nothing here
 * blocks. An event is rendered once and shared by all clients that get it: each queue that
 * holds it has a reference.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* ---- one line, for one client or for many ---- */

struct message {
	unsigned n_refs;
	size_t len;
	char *bytes; /* with the newline */
	int fd;	     /* of a file with the bytes that many share; negative: there is none */
};

/* Takes over what is in line and adds the newline. NULL: no memory. */
struct message *message_new(struct buf *line);
struct message *message_ref(struct message *m);
struct message *message_unref(struct message *m); /* NULL is fine. Returns NULL. */

/* It did not work, or who is left does not read: it is not shared from now on. */
void message_unshare(struct message *m);

/* An event; json is one JSON value on one line. NULL: no memory, or json has a newline in it. */
struct message *message_new_event(const char *topic, uint64_t wall_ns, const char *json,
				  size_t len);

/* ---- the outbox ---- */

/* First in, first out. */
struct message_queue {
	struct message **items; /* a ring */
	size_t first, n, cap;
	size_t bytes; /* of all in it */
};

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
	uint64_t n_lost_unsent; /* events, since the last line about it */
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

/* What its events take, with their files: of one that others wait for as well, its part. */
size_t outbox_event_bytes(const struct outbox *o);

/* Whether one more event would push out another. */
bool outbox_is_full(const struct outbox *o);

/*
 * Writes what the socket takes, which is one that does not block; SIGPIPE is to be ignored.
 * Returns how many bytes that were (0: it is full, or there is nothing), or -EPIPE,
 * -ECONNRESET…: the peer is gone. -ENOMEM.
 */
ssize_t outbox_write(struct outbox *o, int fd);
