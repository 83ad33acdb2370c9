/*
 * cadence - when ticks are due, and how late they came.
 *
 * Ticks of all hosts fall on the same moments of the wall clock (whole multiples of
 * the interval), so that their samples can be laid side by side. How late one came,
 * and how many were left out, is measured by a clock that nobody sets: a wall
 * clock that is stepped makes no tick late, and moves only the next one. A machine
 * that slept did leave ticks out.
 */
#ifndef PROCTOR_RECORDER_CADENCE_H
#define PROCTOR_RECORDER_CADENCE_H

#include <stdint.h>

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

#endif
