/*
 * cadence - when ticks are due, how late they came, and for how long they come closer together.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "detect/detect.h"

/*
 * ---- when ticks are due ----
 *
 * Ticks of all hosts fall on the same moments of the wall clock (whole multiples of the interval),
 * so that their samples can be laid side by side. How late one came, and how many were left out, is
 * measured by a clock that nobody sets. A machine that slept did leave ticks out.
 */

struct cadence {
	uint64_t step_ns;     /* between the tick that is due and the next */
	uint64_t due_boot_ns; /* 0: none was planned yet */
};

/* The next tick, given both clocks of now. Returns how long until then. */
uint64_t cadence_plan(struct cadence *c, double interval_seconds, uint64_t wall_ns,
		      uint64_t boot_ns);

/* How late a tick is that begins now; 0 if none was planned. */
uint64_t cadence_lag(const struct cadence *c, uint64_t boot_ns);

/*
 * How many moments lie between the one that was planned and the next one that is: left
 * out, because the tick came late or took long. None where the interval has changed.
 */
uint64_t cadence_missed(const struct cadence *before, const struct cadence *after);

/*
 * For ticks that follow each other at a distance: what is left of it to wait when the tick took
 * so long, as where another holds the database, but no less than least_ms, or than the distance.
 */
uint64_t cadence_rest_ms(uint64_t distance_ms, uint64_t took_ms, uint64_t least_ms);

/*
 * ---- a closer look at one job for a while, as often as an anomaly wants it ----
 *
 * One job at a time, and only so many looks in a minute: what flaps does not make the looking
 * expensive.
 */

#define CLOSER_PER_MINUTE 3

struct closer {
	int64_t attempt_id; /* whose processes are looked at, while it lasts */
	double interval_seconds;
	uint64_t until_boot_ns;	 /* 0: nobody was looked at yet */
	uint64_t minute_boot_ns; /* when the minute began that n_in_minute is of */
	unsigned n_in_minute;
};

/* True: this job is looked at closer from now on, as configured, or was so already. */
bool closer_begin(struct closer *c, const struct config_anomaly *config, int64_t attempt_id,
		  uint64_t now_boot_ns);

bool closer_is_on(const struct closer *c, uint64_t now_boot_ns);

/*
 * How long to wait for the next look, if the last one took cost_ns of CPU: never so short that
 * the looking takes more than a fiftieth of a core.
 */
uint64_t closer_wait_ms(const struct closer *c, uint64_t cost_ns);
