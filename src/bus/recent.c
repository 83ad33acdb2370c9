#include "bus/recent.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "bus/bus.h"

struct kept {
	struct event event;	    /* owns its json */
	struct kept *older, *newer; /* of all */
	struct kept *next_of_same;  /* the next newer one of its owner */
};

struct owner {
	uid_t uid;
	size_t n, n_bytes;
	struct kept *oldest, *newest;
};

struct recent {
	struct kept *oldest, *newest;
	size_t n, max_events;
	size_t n_bytes, max_bytes;
	struct owner *owners; /* each has an event */
	size_t n_owners, cap_owners;
};

struct recent *recent_new(size_t max_events, size_t max_bytes)
{
	struct recent *recent = calloc(1, sizeof(*recent));

	if (!recent)
		return NULL;
	recent->max_events = max_events;
	recent->max_bytes = max_bytes;
	return recent;
}

static void kept_free(struct kept *kept)
{
	if (kept)
		free((char *)kept->event.json);
	free(kept);
}

struct recent *recent_free(struct recent *recent)
{
	struct kept *newer;

	if (!recent)
		return NULL;
	for (struct kept *kept = recent->oldest; kept; kept = newer) {
		newer = kept->newer;
		kept_free(kept);
	}
	free(recent->owners);
	free(recent);
	return NULL;
}

/* ---- whose they are ---- */

/* NULL: no memory. */
static struct owner *find_owner(struct recent *recent, uid_t uid)
{
	for (size_t i = 0; i < recent->n_owners; i++)
		if (recent->owners[i].uid == uid)
			return &recent->owners[i];
	if (recent->n_owners == recent->cap_owners) {
		size_t cap = recent->cap_owners ? recent->cap_owners * 2 : 8;
		struct owner *owners = reallocarray(recent->owners, cap, sizeof(*owners));

		if (!owners)
			return NULL;
		recent->owners = owners;
		recent->cap_owners = cap;
	}
	recent->owners[recent->n_owners] = (struct owner){ .uid = uid };
	return &recent->owners[recent->n_owners++];
}

/* Shares of both bounds, as one number can pass either. */
static double share_of(const struct recent *recent, const struct owner *owner)
{
	double events = (double)owner->n / (double)recent->max_events;
	double bytes = (double)owner->n_bytes / (double)recent->max_bytes;

	return events > bytes ? events : bytes;
}

static struct owner *find_largest(struct recent *recent)
{
	struct owner *largest = &recent->owners[0];

	for (size_t i = 1; i < recent->n_owners; i++)
		if (share_of(recent, &recent->owners[i]) > share_of(recent, largest))
			largest = &recent->owners[i];
	return largest;
}

/* ---- keeping and dropping ---- */

static void unlink_kept(struct recent *recent, struct kept *kept)
{
	if (kept->older)
		kept->older->newer = kept->newer;
	else
		recent->oldest = kept->newer;
	if (kept->newer)
		kept->newer->older = kept->older;
	else
		recent->newest = kept->older;
	recent->n--;
	recent->n_bytes -= kept->event.len;
}

static void drop_oldest_of(struct recent *recent, struct owner *owner)
{
	struct kept *kept = owner->oldest;

	unlink_kept(recent, kept);
	owner->oldest = kept->next_of_same;
	owner->n--;
	owner->n_bytes -= kept->event.len;
	if (owner->n == 0)
		*owner = recent->owners[--recent->n_owners];
	kept_free(kept);
}

static void append(struct recent *recent, struct owner *owner, struct kept *kept)
{
	kept->older = recent->newest;
	if (recent->newest)
		recent->newest->newer = kept;
	else
		recent->oldest = kept;
	recent->newest = kept;
	if (owner->n > 0)
		owner->newest->next_of_same = kept;
	else
		owner->oldest = kept;
	owner->newest = kept;
	owner->n++;
	owner->n_bytes += kept->event.len;
	recent->n++;
	recent->n_bytes += kept->event.len;
}

/* With a NUL behind them, for whoever takes them for a string. */
static char *copy_bytes(const char *bytes, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

static struct kept *kept_new(const struct event *ev)
{
	struct kept *kept = calloc(1, sizeof(*kept));

	if (!kept)
		return NULL;
	kept->event = *ev;
	kept->event.json = copy_bytes(ev->json, ev->len);
	if (kept->event.json)
		return kept;
	free(kept);
	return NULL;
}

void recent_add(void *ctx, const struct event *ev)
{
	struct recent *recent = ctx;
	struct owner *owner;
	struct kept *kept;

	if (ev->len > recent->max_bytes)
		return;
	kept = kept_new(ev);
	if (!kept)
		return;
	while (recent->n == recent->max_events || recent->n_bytes + ev->len > recent->max_bytes)
		drop_oldest_of(recent, find_largest(recent));
	owner = find_owner(recent, ev->owner);
	if (owner)
		append(recent, owner, kept);
	else
		kept_free(kept);
}

/* ---- reading ---- */

static const struct event *event_of(const struct kept *kept)
{
	return kept ? &kept->event : NULL;
}

/* The event is the first member. */
static const struct kept *kept_of(const struct event *ev)
{
	return (const struct kept *)ev;
}

const struct event *recent_newest(const struct recent *recent)
{
	return event_of(recent->newest);
}

const struct event *recent_oldest(const struct recent *recent)
{
	return event_of(recent->oldest);
}

const struct event *recent_older(const struct event *ev)
{
	return event_of(kept_of(ev)->older);
}

const struct event *recent_newer(const struct event *ev)
{
	return event_of(kept_of(ev)->newer);
}
