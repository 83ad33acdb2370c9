#include "client/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

void queued_event_release(struct queued_event *event)
{
	free(event->topic);
	free(event->data);
	*event = (struct queued_event){ 0 };
}

static size_t size_of(const struct queued_event *event)
{
	return sizeof(*event) + strlen(event->topic) + strlen(event->data);
}

/* The queue has one. */
static struct queued_event *take_first(struct event_queue *q)
{
	struct queued_event *event = q->first;

	q->first = event->next;
	if (!q->first)
		q->last = NULL;
	q->n--;
	q->bytes -= size_of(event);
	return event;
}

/* A notice stands for those it tells of. */
static void count_lost(struct event_queue *q, uint64_t n_lost)
{
	q->n_lost_untold += n_lost ? n_lost : 1;
}

static void drop_first(struct event_queue *q)
{
	struct queued_event *event = take_first(q);

	count_lost(q, event->n_lost);
	queued_event_release(event);
	free(event);
}

void event_queue_release(struct event_queue *q)
{
	while (q->first)
		drop_first(q);
	*q = (struct event_queue){ 0 };
}

static void append(struct event_queue *q, struct queued_event *event)
{
	if (q->last)
		q->last->next = event;
	else
		q->first = event;
	q->last = event;
	q->n++;
	q->bytes += size_of(event);
}

/* Takes over what event has. */
static void push(struct event_queue *q, struct queued_event *event)
{
	struct queued_event *kept = event->topic && event->data ? malloc(sizeof(*kept)) : NULL;

	if (!kept) {
		count_lost(q, event->n_lost);
		queued_event_release(event);
		return;
	}
	*kept = *event;
	append(q, kept);
	while (q->n > EVENT_QUEUE_MAX || (q->n > 1 && q->bytes > EVENT_QUEUE_MAX_BYTES))
		drop_first(q);
}

void event_queue_push(struct event_queue *q, char *topic, double timestamp, char *data)
{
	push(q, &(struct queued_event){ .topic = topic, .data = data, .timestamp = timestamp });
}

/* topic and data are NULL where there is no memory. */
static struct queued_event make_notice(uint64_t n_lost)
{
	struct queued_event notice = { .timestamp = F64_UNKNOWN, .n_lost = n_lost };

	notice.topic = strdup("lost");
	if (asprintf(&notice.data, "{\"count\":%llu}", (unsigned long long)n_lost) < 0)
		notice.data = NULL;
	return notice;
}

void event_queue_push_lost(struct event_queue *q, uint64_t n)
{
	struct queued_event notice = make_notice(n);

	push(q, &notice);
}

/* False: no memory, it is told the next time. */
static bool pop_notice(struct event_queue *q, struct queued_event *ret)
{
	struct queued_event notice = make_notice(q->n_lost_untold);

	if (!notice.topic || !notice.data) {
		queued_event_release(&notice);
		return false;
	}
	q->n_lost_untold = 0;
	*ret = notice;
	return true;
}

bool event_queue_pop(struct event_queue *q, struct queued_event *ret)
{
	struct queued_event *first;

	if (q->n_lost_untold > 0 && pop_notice(q, ret))
		return true;
	if (!q->first)
		return false;
	first = take_first(q);
	*ret = *first;
	ret->next = NULL;
	free(first);
	return true;
}

bool event_queue_is_empty(const struct event_queue *q)
{
	return !q->first && q->n_lost_untold == 0;
}
