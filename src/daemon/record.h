/*
 * record - a run's attempt in the database, from its beginning on.
 *
 * The first command never waits for a database: it is opened when that runs. Inside the loop nobody
 * waits for another writer: what is locked is tried again later. What can never be
 * written is said once, and the report says it too; the job goes on in any case.
 *
 * Its parts: record_tick.h what each look at the processes finds, record_anomalies.h what is wrong
 * with them, record_keep.h what is known in the end, record_end.h the end; record_greet.h tells a
 * daemon.
 */
#ifndef PROCTOR_DAEMON_RECORD_H
#define PROCTOR_DAEMON_RECORD_H

#include "base/err.h"

struct run;

/* What is known of the attempt before anything runs. */
void record_describe(struct run *run);

/*
 * Opens the store and notes the attempt there, unless that was done, and the
 * sheets that are new; a daemon is told.
 */
void record_now(struct run *run);

/* A sheet began or ended: it is recorded soon. */
void record_sheet_soon(struct run *run);

/*
 * run->store is open after this, with the attempt in it, unless err says why not. Before the end
 * begins what may pass is tried again at the next call; else, and for what stays,
 * run->store_is_off.
 */
void record_try_to_open(struct run *run, unsigned patience_ms, struct err *err);

/*
 * At each tick and at the end: where somebody has moved or removed the database under us nobody
 * would find what we write. It is left, and the next try opens what is at its place, and begins the
 * attempt anew there.
 */
void record_leave_replaced(struct run *run);

/* What is left of the time for the end of the run. */
unsigned record_end_patience_ms(const struct run *run);

/* Something is lost: the first is logged and kept in run->store_err, for the report. */
void record_say_loss(struct run *run, const char *what, const struct err *err);

#endif
