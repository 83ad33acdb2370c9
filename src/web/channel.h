/*
 * channel - one user's connection to the daemon's methods and events, from inside the daemon.
 *
 * Requests of all pages of a user share it. The events that come are kept, the newest FEED_EVENTS
 * of them, so that a page whose connection broke reads on where it was: each has a number, and a
 * number without its event means that the page has to ask for everything again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "rpc/rpc.h"

#define FEED_EVENTS 1024
#define FEED_BYTES ((size_t)4 << 20)

/* An event as it is sent to pages. Those that are sending it share it. */
struct feed_event {
	unsigned refs;
	uint64_t num;
	size_t len;
	char text[];
};

struct feed_event *feed_event_unref(struct feed_event *event); /* returns NULL */

/* The answer: its JSON, which fn may take, and its status as HTTP has it. */
typedef void answer_fn(void *ctx, unsigned status, struct buf *json);

/* There are new events, or (is_closed) the channel ends. */
typedef void news_fn(void *ctx, bool is_closed);

struct channel;

int channel_new(struct loop *loop, struct rpc_server *server, const struct rpc_peer *peer,
		news_fn *news, void *ctx, struct channel **ret, struct err *err);

/* Answers what waits with 503. NULL is fine. Returns NULL. */
struct channel *channel_free(struct channel *c);

uid_t channel_uid(const struct channel *c);

/* It broke: nothing comes of it any more. */
bool channel_is_broken(const struct channel *c);

/* Calls the method; params is a JSON object. fn is called later, once, unless it is abandoned. */
void channel_call(struct channel *c, const char *method, const char *params, answer_fn *fn,
		  void *ctx);
void channel_abandon(struct channel *c, const void *ctx);

/* Of this feed; another one has other events under its numbers. */
const char *channel_feed_id(const struct channel *c);

/* The number that the next event will have. */
uint64_t channel_next_num(const struct channel *c);

/* The first event from *num on, as a reference, and *num behind it; NULL: there is none yet.
 * Events that are gone were missed: then the event is one that says so. */
struct feed_event *channel_read(struct channel *c, uint64_t *num);
