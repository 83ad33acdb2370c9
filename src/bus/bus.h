/*
 * bus - hands each event to every subscriber, in the order they subscribed.
 *
 * Handlers run inside bus_publish(), on the loop thread. They copy what they
 * want to keep and they do not publish. They may subscribe (for the next event
 * on) and unsubscribe anybody (who then gets nothing more, not even this event).
 */
#ifndef PROCTOR_BUS_BUS_H
#define PROCTOR_BUS_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bus/change.h" /* how what happens to jobs is told */
#include "bus/recent.h" /* the last events, for whoever asks afterwards */
#include "bus/topic.h"

#define BUS_MAX_SUBSCRIBERS 4096

#define EVENT_NO_OWNER ((uid_t)-1)

/* Something that happened. All of it is borrowed during the call. */
struct event {
	enum topic topic;
	uint64_t wall_ns; /* when */
	uid_t owner;	  /* whose job it is about; EVENT_NO_OWNER: nobody's, the host's */
	const char *json; /* one JSON object, on one line */
	size_t len;
	bool is_raw; /* json is what its publisher will make one from; never on a bus */
};

struct bus;
typedef void bus_handler(void *ctx, const struct event *ev);

/* Returns an empty bus; the caller owns it. NULL: no memory. */
struct bus *bus_new(void);

/* NULL is fine. Returns NULL, so "b = bus_free(b)" leaves nothing dangling. */
struct bus *bus_free(struct bus *bus);

/* Borrows ctx until bus_unsubscribe(). Returns an id >= 0, or -ENOSPC, -ENOMEM. */
int bus_subscribe(struct bus *bus, unsigned topics, bus_handler *fn, void *ctx);

/* From the next event on it gets these topics instead. An id that is not there is fine. */
void bus_set_topics(struct bus *bus, int id, unsigned topics);

/* An id that is not there (any more) is fine: ids are not used again. */
void bus_unsubscribe(struct bus *bus, int id);

/* Whether anybody would get it: who renders an event can spare itself the work. */
bool bus_is_wanted(const struct bus *bus, enum topic topic);

/*
 * How many events there have been, with the one that is being handed out: a handler
 * that makes something of an event for several subscribers can tell whether it has
 * done so already.
 */
uint64_t bus_count(const struct bus *bus);

/* -EDEADLK: called by a handler; nobody was told. */
int bus_publish(struct bus *bus, const struct event *ev);

/* Who may see an event: root and whoever sees_all, its owner, and everybody what is nobody's. */
bool event_is_visible(const struct event *ev, uid_t uid, bool sees_all);

#endif
