/*
 * cadence - when ticks are due, and how late they came.
 *
 * Ticks of all hosts fall on the same moments of the wall clock (whole multiples of
 * the interval), so that their samples can be laid side by side. How late one came,
 * and how many were left out, is measured by a clock that nobody sets: a wall
 * clock that is stepped makes no tick late, and moves only the next one. A machine
 * that slept did leave ticks out.
 */
#ifndef PROCTOR_DAEMON_CADENCE_H
#define PROCTOR_DAEMON_CADENCE_H

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

/* How many moments passed between the one that was due and now. */
uint64_t cadence_skipped(const struct cadence *c, uint64_t boot_ns);

#endif
