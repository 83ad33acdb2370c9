/*
 * record_keep - what a run knows in the end, put into its attempt, which owns it from then on.
 *
 * What is not known is named there, with why (attempt.unknowns): no number stands for it.
 */
#ifndef PROCTOR_DAEMON_RECORD_KEEP_H
#define PROCTOR_DAEMON_RECORD_KEEP_H

#include <stdint.h>

#include "model/job.h"

struct run;

/* The processes, first of all: what else is asked depends on how they ended. */
void record_keep_processes(struct run *run);

/* System calls. Asks a daemon that has counted: of all that it is asked this is what the user may
 * have asked for. */
void record_keep_calls(struct run *run);

/* Sheets, what has measured, and what is unknown. */
void record_keep_known(struct run *run);

/* Events, anomalies and the curve, for whoever shows the attempt: they are in the database. */
void record_keep_told(struct run *run);

/* One more thing that is unknown, and why after a number; nothing if that is 0. */
void record_note_count(struct attempt *a, uint64_t n, const char *what, const char *why);

#endif
