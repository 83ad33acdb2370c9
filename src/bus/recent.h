/*
 * recent - the last events of a bus, for whoever asks afterwards.
 *
 * Bounded in number and in bytes. When there are more, the oldest go of the owner who has
 * the most: what happens in the jobs of one user does not push out what others did.
 */
#ifndef PROCTOR_BUS_RECENT_H
#define PROCTOR_BUS_RECENT_H

#include <stddef.h>

struct event;
struct recent;

/* Empty. NULL: no memory. */
struct recent *recent_new(size_t max_events, size_t max_bytes);
struct recent *recent_free(struct recent *recent); /* NULL is fine. Returns NULL. */

/*
 * A bus_handler, whose ctx is the struct recent: keeps a copy, if there is memory for one. One that
 * is raw is added without a bus; who reads it renders it.
 */
void recent_add(void *ctx, const struct event *ev);

/* NULL: there are none. Valid until the next is added. */
const struct event *recent_newest(const struct recent *recent);
const struct event *recent_oldest(const struct recent *recent);

/* Of one that these have returned, the one before it and the one after it; NULL at the end. */
const struct event *recent_older(const struct event *ev);
const struct event *recent_newer(const struct event *ev);

#endif
