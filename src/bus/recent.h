/*
 * recent - the last events of a bus, for whoever asks afterwards.
 *
 * Bounded in number and in bytes: the oldest go first.
 */
#ifndef PROCTOR_BUS_RECENT_H
#define PROCTOR_BUS_RECENT_H

#include <stddef.h>

struct event;
struct recent;

/* Empty. NULL: no memory. */
struct recent *recent_new(size_t max_events, size_t max_bytes);
struct recent *recent_free(struct recent *recent); /* NULL is fine. Returns NULL. */

/* A bus_handler, whose ctx is the struct recent: keeps a copy, if there is memory for one. */
void recent_add(void *ctx, const struct event *ev);

/* Oldest first; NULL at the end. Valid until the next is added. */
const struct event *recent_at(const struct recent *recent, size_t i);
size_t recent_count(const struct recent *recent);

#endif
