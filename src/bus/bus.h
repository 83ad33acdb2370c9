/*
 * bus - hands each event to every subscriber, in the order they subscribed.
 *
 * Handlers run inside bus_publish(), on the loop thread. They copy what they
 * want to keep and they do not publish. They may subscribe (for the next event
 * on) and unsubscribe anybody (who then gets nothing more, not even this event).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "model/job.h"

/*
 * ---- topics: the subject of an event ----
 *
 * A pattern is a topic's name ("sheet.failed"), a whole family ("sheet.*") or
 * everything ("*"). A set of topics is a bit mask: topic_bit() of each.
 */

enum topic {
	TOPIC_SNAPSHOT,
	TOPIC_ANOMALY,
	TOPIC_SHEET_STARTED,
	TOPIC_SHEET_COMPLETED,
	TOPIC_SHEET_FAILED,
	TOPIC_JOB_QUEUED,
	TOPIC_JOB_HELD,
	TOPIC_JOB_STARTED,
	TOPIC_JOB_COMPLETED,
	TOPIC_JOB_FAILED,
	TOPIC_JOB_CANCELLED,
	TOPIC_PROCESS_SPAWN,
	TOPIC_PROCESS_EXIT,
	TOPIC_PROCESS_SIGNAL,
	TOPIC_PROCESS_KILL,
	TOPIC_PROCESS_OOM,
	TOPIC_PROCESS_ORPHAN,
	TOPIC_PHASE_ENTER,
	TOPIC_PHASE_EXIT,
	TOPIC_PATTERN,
	N_TOPICS,
};

static inline unsigned topic_bit(enum topic topic)
{
	return 1u << topic;
}

/* "sheet.failed" */
const char *topic_name(enum topic topic);

/*
 * Adds the topics that the pattern chooses to *topics. -EINVAL: it chooses none;
 * err names it, and the nearest one that does or all there are.
 */
int topics_add(const char *pattern, unsigned *topics, struct err *err);

/* ---- the bus ---- */

#define BUS_MAX_SUBSCRIBERS 4096

#define EVENT_NO_OWNER ((uid_t)-1)

/* Something that happened. All of it is borrowed during the call. */
struct event {
	enum topic topic;
	uint64_t wall_ns; /* when */
	uid_t owner;	  /* of the job; EVENT_NO_OWNER: it is about the host */
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

/* Whether anybody would get it: a publisher can skip rendering an event. */
bool bus_is_wanted(const struct bus *bus, enum topic topic);

/* -EDEADLK: called by a handler; nothing was published. */
int bus_publish(struct bus *bus, const struct event *ev);

/* True if uid may see ev: root, sees_all, the owner; events without an owner are public. */
bool event_is_visible(const struct event *ev, uid_t uid, bool sees_all);

/*
 * ---- changes: the beginnings and ends of jobs and sheets ----
 *
 * The same fields on the bus and in the record.
 */

enum change {
	CHANGE_JOB_STARTED,
	CHANGE_SHEET_STARTED,
	CHANGE_SHEET_ENDED,
	CHANGE_JOB_ENDED, /* the attempt then has its end; its runner may be lost without one */
};

/* sheet is NULL for changes of the job. */
enum topic change_topic(enum change change, const struct attempt *a,
			const struct sheet_record *sheet);

/* U64_UNKNOWN: not recorded. */
uint64_t change_time(enum change change, const struct attempt *a, const struct sheet_record *sheet);

/* An object, without its braces. */
void change_write_fields(struct json *j, enum change change, const struct attempt *a,
			 const struct sheet_record *sheet);

/*
 * ---- recent: the last events of a bus, for queries ----
 *
 * Bounded in number and in bytes. When there are more, the oldest events go of the owner who has
 * the most: the jobs of one user do not push out the events of others.
 */

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
