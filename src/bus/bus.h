/*
 * bus - what is published: events by topic, changes of jobs, and the last events. The daemon hands
 * them to its subscribers.
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

/* Something that happened. All of it is borrowed during a call. */
struct event {
	enum topic topic;
	uint64_t wall_ns; /* when */
	uid_t owner;	  /* of the job; of an event of the host: who runs the daemon */
	const char *json; /* one JSON object, on one line */
	size_t len;
};

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
 * ---- recent: the last events, for queries ----
 *
 * Bounded in number and in bytes. When there are more, the oldest events go of the owner who has
 * the most: the jobs of one user do not push out the events of others.
 */

struct recent;

/* Empty. NULL: no memory. */
struct recent *recent_new(size_t max_events, size_t max_bytes);
struct recent *recent_free(struct recent *recent); /* NULL is fine. Returns NULL. */

/* Keeps a copy, if there is memory for one. */
void recent_add(struct recent *recent, const struct event *ev);

/* NULL: there are none. Valid until the next is added. */
const struct event *recent_newest(const struct recent *recent);

/* Of one that these have returned, the one before it and the one after it; NULL at the end. */
const struct event *recent_older(const struct event *ev);
const struct event *recent_newer(const struct event *ev);
