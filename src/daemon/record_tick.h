/*
 * record_tick - what one look at the job's processes has found, into the database and the log.
 *
 * A daemon of our own user that has the job writes the samples itself; what happened to the
 * processes is ours to write. Ticks that cannot be written wait in run->backlog, oldest first.
 */
#ifndef PROCTOR_DAEMON_RECORD_TICK_H
#define PROCTOR_DAEMON_RECORD_TICK_H

#include "model/job.h"

struct run;

/* The snapshot, its point and the events since the last tick; and the log's line. */
void record_tick(struct run *run, const struct series_point *point);

/* Some of the ticks that wait; more of them at the drain timer. */
void record_waiting(struct run *run);

/* All of them, and anomalies too, at the end. What is lost by now is noted in the attempt. */
void record_last_ticks(struct run *run);

/* The marks that the job's processes have left; what fails is there at the next call. */
void record_phases(struct run *run);

#endif
