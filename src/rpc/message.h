/*
 * message - one line on its way to one client or to many, and queues of them.
 *
 * An event is rendered once and shared by all who get it: each queue that holds
 * it has a reference.
 */
#ifndef PROCTOR_RPC_MESSAGE_H
#define PROCTOR_RPC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct message {
	unsigned n_refs;
	size_t len;
	char *bytes;	  /* with the newline */
	int fd;		  /* as of message_share() */
	uint64_t counted; /* in which round of a count of what is held; 0: none */
};

/* Takes over what is in line and adds the newline. NULL: no memory. */
struct message *message_new(struct buf *line);
struct message *message_ref(struct message *m);
struct message *message_unref(struct message *m); /* NULL is fine. Returns NULL. */

/*
 * A file in memory with the bytes of a long message that many wait for: the kernel hands its
 * pages to all of them, where it would copy the bytes for each. -1: there is none, as it is short,
 * few wait, or there is no room. The message keeps it.
 */
int message_share(struct message *m);

/* It did not work, or who is left does not read: message_share() says -1 from now on. */
void message_unshare(struct message *m);

/* What it takes, with its file. */
size_t message_held_bytes(const struct message *m);

/* First in, first out. */
struct message_queue {
	struct message **items; /* a ring */
	size_t first, n, cap;
	size_t bytes; /* of all in it */
};

void message_queue_release(struct message_queue *q);

/* Takes over the caller's reference, also when it fails: -ENOMEM. */
int message_queue_push(struct message_queue *q, struct message *m);

/* Hands over the oldest one; NULL: there is none. */
struct message *message_queue_pop(struct message_queue *q);

#endif
