/*
 * admission - how near the host is to its limits, and whether a job may start now.
 *
 * The level is the worst of three: memory in use, processes, and the time that
 * the kernel says tasks stalled for want of memory (PSI). Where memory cannot be
 * read, or processes that have a limit not be counted, the level is critical: who
 * does not know waits. A kernel without PSI has nothing to say.
 *
 * What the running jobs may still come to need, what the new one is expected to
 * need, and the pressure the host is under already must leave room. Jobs without
 * a history count with what they use: nobody knows more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/run_record.h"
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

#define ADMIT_REASON_BYTES 192

enum admit_decision { ADMIT, ADMIT_DELAY, ADMIT_REJECT };
const char *admit_name(enum admit_decision decision); /* "admit", "delay", "reject" */

struct admit_running {
	double rss_mb;				    /* now; NaN: unknown, taken for 0 */
	double estimated_peak_mb;		    /* NaN: no data */
	double estimated_wall_seconds, age_seconds; /* NaN: unknown */
};

struct admit_question {
	const struct estimate *job;
	const struct admit_running *running;
	size_t n_running;
	const struct pressure *pressure;
	double limit_mb, used_mb; /* of the host's memory; NaN: unknown */
};

struct admit_answer {
	enum admit_decision decision;
	unsigned delay_seconds; /* ask again then; or, admitted, wait so long before a sheet */
	double headroom_mb;	/* that is left with the job; NaN: cannot be told */
	bool is_for_good;	/* rejected, and will be for as long as the limit stays */
	char reason[ADMIT_REASON_BYTES];
};

void admit_decide(const struct admit_question *question, struct admit_answer *ret);
