/*
 * attached_sum - what an attached job used, from what was recorded of it.
 *
 * Nobody waits for its processes who would tell us: their samples and events, which are in the
 * database so that a daemon that began after the job has them, and what the kernel told at their
 * ends (deaths.h), which only a daemon that was there knows.
 */
#ifndef PROCTOR_RECORDER_ATTACHED_SUM_H
#define PROCTOR_RECORDER_ATTACHED_SUM_H

#include "model/job.h"

/*
 * a was read from the database (processes with their ends, events, series). Sets the usage, and how
 * each process ended where an event has that. births_are_told: all of them since it was attached
 * are known. What was before that is not: its sums are lower bounds in any case.
 */
void attached_sum_up(struct attempt *a, bool births_are_told);

/* Whether it is known of each process since it was attached what it had used at its end. */
bool attached_has_all_ends(const struct attempt *a, bool births_are_told);

#endif
