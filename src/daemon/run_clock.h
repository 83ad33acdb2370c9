/*
 * run_clock - the time that a run records.
 *
 * The wall clock as it was when the run began, gone on with the boot clock: what
 * is recorded stays in order and keeps its distances when the clock is set.
 */
#ifndef PROCTOR_DAEMON_RUN_CLOCK_H
#define PROCTOR_DAEMON_RUN_CLOCK_H

#include <stdint.h>

struct run;

/* In nanoseconds since 1970. */
uint64_t run_now(const struct run *run);

/* A moment of the wall clock of now, on the run's; unknown stays unknown. */
uint64_t run_time_of(const struct run *run, uint64_t wall_ns);

#endif
