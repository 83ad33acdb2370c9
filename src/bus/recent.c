#include "bus/recent.h"

#include <stdlib.h>
#include <string.h>

#include "bus/bus.h"

struct recent {
	struct event *events; /* a ring; each owns its json */
	size_t first, n, max_events;
	size_t n_bytes, max_bytes;
};

struct recent *recent_new(size_t max_events, size_t max_bytes)
{
	struct recent *recent = calloc(1, sizeof(*recent));

	if (!recent)
		return NULL;
	recent->events = calloc(max_events, sizeof(*recent->events));
	recent->max_events = max_events;
	recent->max_bytes = max_bytes;
	return recent->events ? recent : recent_free(recent);
}

static void drop_first(struct recent *recent)
{
	struct event *ev = &recent->events[recent->first];

	recent->n_bytes -= ev->len;
	free((char *)ev->json);
	recent->first = (recent->first + 1) % recent->max_events;
	recent->n--;
}

struct recent *recent_free(struct recent *recent)
{
	if (!recent)
		return NULL;
	while (recent->n > 0)
		drop_first(recent);
	free(recent->events);
	free(recent);
	return NULL;
}

void recent_add(void *ctx, const struct event *ev)
{
	struct recent *recent = ctx;
	struct event copy = *ev;

	if (ev->len > recent->max_bytes)
		return;
	copy.json = strndup(ev->json, ev->len);
	if (!copy.json)
		return;
	while (recent->n == recent->max_events || recent->n_bytes + ev->len > recent->max_bytes)
		drop_first(recent);
	recent->events[(recent->first + recent->n) % recent->max_events] = copy;
	recent->n++;
	recent->n_bytes += ev->len;
}

const struct event *recent_at(const struct recent *recent, size_t i)
{
	return i < recent->n ? &recent->events[(recent->first + i) % recent->max_events] : NULL;
}

size_t recent_count(const struct recent *recent)
{
	return recent->n;
}
