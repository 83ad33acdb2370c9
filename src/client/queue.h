/*
 * queue - events that were read and are not yet handed over.
 *
 * They come in while an answer is awaited. Only the newest are kept; how many were
 * lost is told before the next one.
 */
#ifndef PROCTOR_CLIENT_QUEUE_H
#define PROCTOR_CLIENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	uint64_t n_lost_untold;
};

/* Forgets all of it. */
void event_queue_release(struct event_queue *q);

/* Takes over topic and data. NULL (no memory), or no memory here: it is counted as lost. */
void event_queue_push(struct event_queue *q, char *topic, double timestamp, char *data);

/* A notice that n events were lost before they came here. */
void event_queue_push_lost(struct event_queue *q, uint64_t n);

/* The oldest, or a notice of how many were lost before it. False: there is none. */
bool event_queue_pop(struct event_queue *q, struct queued_event *ret);

bool event_queue_is_empty(const struct event_queue *q);

void queued_event_release(struct queued_event *event);

#endif
