#include "bus/bus.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

struct subscriber {
	int id;
	unsigned topics;
	bus_handler *fn; /* NULL: unsubscribed while an event was being handed out */
	void *ctx;
};

struct bus {
	struct subscriber *items; /* in the order they subscribed */
	size_t n, cap;
	int next_id;
	uint64_t n_events;
	bool is_publishing;
};

struct bus *bus_new(void)
{
	return calloc(1, sizeof(struct bus));
}

struct bus *bus_free(struct bus *bus)
{
	if (bus)
		free(bus->items);
	free(bus);
	return NULL;
}

static int bus_grow(struct bus *bus)
{
	size_t cap = bus->cap ? bus->cap * 2 : 16;
	struct subscriber *items = reallocarray(bus->items, cap, sizeof(*items));

	if (!items)
		return -ENOMEM;
	bus->items = items;
	bus->cap = cap;
	return 0;
}

int bus_subscribe(struct bus *bus, unsigned topics, bus_handler *fn, void *ctx)
{
	if (bus->n >= BUS_MAX_SUBSCRIBERS || bus->next_id == INT_MAX)
		return -ENOSPC;
	if (bus->n == bus->cap && bus_grow(bus) < 0)
		return -ENOMEM;
	bus->items[bus->n++] = (struct subscriber){ bus->next_id, topics, fn, ctx };
	return bus->next_id++;
}

void bus_set_topics(struct bus *bus, int id, unsigned topics)
{
	for (size_t i = 0; i < bus->n; i++)
		if (bus->items[i].id == id)
			bus->items[i].topics = topics;
}

/* Closes the gaps that unsubscribing left. */
static void bus_compact(struct bus *bus)
{
	size_t kept = 0;

	for (size_t i = 0; i < bus->n; i++)
		if (bus->items[i].fn)
			bus->items[kept++] = bus->items[i];
	bus->n = kept;
}

void bus_unsubscribe(struct bus *bus, int id)
{
	for (size_t i = 0; i < bus->n; i++)
		if (bus->items[i].id == id)
			bus->items[i].fn = NULL;
	if (!bus->is_publishing)
		bus_compact(bus);
}

static bool wants(const struct subscriber *s, enum topic topic)
{
	return s->fn && (s->topics & topic_bit(topic));
}

bool bus_is_wanted(const struct bus *bus, enum topic topic)
{
	for (size_t i = 0; i < bus->n; i++)
		if (wants(&bus->items[i], topic))
			return true;
	return false;
}

uint64_t bus_count(const struct bus *bus)
{
	return bus->n_events;
}

int bus_publish(struct bus *bus, const struct event *ev)
{
	size_t n = bus->n; /* who subscribes meanwhile waits for the next one */

	if (bus->is_publishing)
		return -EDEADLK;
	bus->is_publishing = true;
	bus->n_events++;
	for (size_t i = 0; i < n; i++) {
		struct subscriber s = bus->items[i]; /* the array may move under a handler */

		if (wants(&s, ev->topic))
			s.fn(s.ctx, ev);
	}
	bus->is_publishing = false;
	bus_compact(bus);
	return 0;
}

bool event_is_visible(const struct event *ev, uid_t uid, bool sees_all)
{
	return sees_all || uid == 0 || ev->owner == EVENT_NO_OWNER || ev->owner == uid;
}
