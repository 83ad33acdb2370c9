/*
 * pressure - how near the host is to its limits, and what that means for work
 * that has not begun.
 *
 * The level is the worst of three: memory in use, processes, and the time that
 * the kernel says tasks stalled for want of memory (PSI). Where memory cannot be
 * read, or processes that have a limit not be counted, the level is critical: who
 * does not know waits. A kernel without PSI has nothing to say.
 */
#ifndef PROCTOR_LEARN_PRESSURE_H
#define PROCTOR_LEARN_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/snapshot.h"

enum pressure_level {
	PRESSURE_NONE,
	PRESSURE_LOW,
	PRESSURE_MEDIUM,
	PRESSURE_HIGH,
	PRESSURE_CRITICAL,
};

/* "none", "low", … */
const char *pressure_name(enum pressure_level level);

/* How long a sheet waits before it starts. */
unsigned pressure_delay_seconds(enum pressure_level level);

/* Whether new jobs are turned away. */
bool pressure_refuses_jobs(enum pressure_level level);

/* Whether a sheet waits for as long as this lasts, and not only for a while. */
bool pressure_holds_sheets(enum pressure_level level);

struct pressure_limits {
	uint64_t memory_bytes; /* U64_UNKNOWN: what the host has */
	uint64_t processes;    /* U64_UNKNOWN: no limit */
};

struct pressure {
	enum pressure_level level;
	char reason[128]; /* the evidence in a few words: "memory 91 % of 16.0 GB" */
};

void pressure_judge(const struct system_sample *host, const struct pressure_limits *limits,
		    struct pressure *ret);

/* Of a host that could not be looked at. */
void pressure_cannot_tell(struct pressure *ret);

#endif
