/*
 * attached_sum - what an attached job used, from what was recorded of it.
 *
 * Nobody waits for its processes who would tell us, so there is no exact account of
 * them: their samples and events are all there is. Those are in the database, so
 * that a daemon that began after the job knows as much as one that was there.
 */
#ifndef PROCTOR_DAEMON_ATTACHED_SUM_H
#define PROCTOR_DAEMON_ATTACHED_SUM_H

#include "model/job.h"

/*
 * a was read from the database (processes, events, series); events are those that
 * are not there yet. Sets the usage, and how each process ended where that was
 * told. births_are_exact: all of them since it was attached were told.
 */
void attached_sum_up(struct attempt *a, const struct proc_event *events, size_t n,
		     bool births_are_exact);

#endif
