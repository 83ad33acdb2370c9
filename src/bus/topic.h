/*
 * topic - what an event is about, and the patterns that choose topics.
 *
 * A pattern is a topic's name ("sheet.failed"), a whole family ("sheet.*") or
 * everything ("*"). A set of topics is a bit mask: topic_bit() of each.
 */
#ifndef PROCTOR_BUS_TOPIC_H
#define PROCTOR_BUS_TOPIC_H

#include "base/err.h"

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

#endif
