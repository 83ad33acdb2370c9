/*
 * sample_feed - what the task iterator has read of some processes, as bytes for the collector of
 * another process.
 *
 * A message has the processes that differ from the message before, and the pids of those that are
 * to be forgotten. A process that sleeps costs nothing. A sender and a receiver that lost a message
 * begin again: see feed_read().
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct task_list;
struct task_process;

/* Of struct task_process, as its numbers stand in a message: another number for each change of the
 * struct. */
#define FEED_LAYOUT 1

/* What one receiver has, ascending by pid. All zero: it has nothing. */
struct feed_sender {
	struct feed_sent {
		pid_t pid;
		uint64_t hash;
	} * sent, *next;
	size_t n, cap, cap_next;
	uint64_t n_messages;
};

void feed_sender_release(struct feed_sender *s); /* the next message has everything */

/*
 * Appends a message: these pids (ascending), as far as the list has them. Of a flood that has
 * changed the rest is left out, and forgotten by the receiver. -ENOMEM.
 */
int feed_write(struct feed_sender *s, const struct task_list *list, uint64_t boot_ns,
	       const pid_t *pids, size_t n, struct buf *out);

/* What a receiver has, ascending by pid; boot_ns: when all of it was read. All zero: nothing. */
struct feed {
	struct task_process **items, **next;
	size_t n, cap, cap_next;
	uint64_t boot_ns;
	uint64_t n_messages;
};

void feed_release(struct feed *f);

/* -EBADMSG: it is none, or one before it is missing, and feed_sender_release() is needed. The feed
 * is empty then. */
int feed_read(struct feed *f, const void *bytes, size_t n);
