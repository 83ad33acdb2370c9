/*
 * record - a run's attempt in its log, from its beginning on.
 *
 * The log is made before the first command is started, and nothing here opens the database for
 * writing. What the disk refuses waits in memory (attempt_log.h); what is lost is logged once, and
 * the report has it too; the job goes on in any case.
 *
 * record.c appends what happens and notifies a daemon, record_anomalies.c what is wrong with the
 * job's processes, record_end.c the end.
 */
#ifndef PROCTOR_RECORDER_RECORD_H
#define PROCTOR_RECORDER_RECORD_H

#include "base/err.h"
#include "recorder/attempt_log.h"
#include "model/job.h"

struct run;
struct store;

/* What is known of the attempt before anything runs. */
void record_describe(struct run *run);

/* Makes the log. */
void record_open(struct run *run);

/* The sheets that have begun or ended since; a daemon is notified. */
void record_now(struct run *run);

/* A sheet began or ended: it is recorded soon. */
void record_sheet_soon(struct run *run);

/* The snapshot, its point, the events since the last tick and phases; and the log's line. */
void record_tick(struct run *run, const struct series_point *point);

/* The events since the last time, and the marks that the job's processes have left. */
void record_events(struct run *run);

/* The same in some tenths of a second, for a daemon that is there and publishes them. */
void record_events_soon(struct run *run);

/* One record. Without a log: nothing. */
void record_append(struct run *run, enum record_type type, const struct buf *bytes);

/* Something is lost: the first is logged and kept in run->recording.err, for the report. */
void record_say_loss(struct run *run, const char *what, const struct err *err);

/*
 * Another process stores what the logs have, and removes what is old: for a run that lasts, where
 * no daemon does so, and for who is about to read. Does not wait for it.
 */
void record_store_aside(struct run *run);

/* To read what is stored so far; NULL: there is none, or it cannot be read now. */
struct store *record_open_store(const struct run *run);

/* ---- a daemon (link.h) ---- */

/*
 * Before the first command: what it starts is followed from its beginning, where a daemon can.
 */
void record_begin(struct run *run);

/* Says that the job runs, once that is worth it. Called at each tick: it is said once. */
void record_greet(struct run *run);

/* There is something new in the log. */
void record_tell_changed(struct run *run);

/* A daemon of root, or the one that has started us, is to count the system calls, of the command
 * that waits for it as well. */
int record_ask_to_count(struct run *run, struct err *err);

/* Before the end is in the log: who may have to send it holds it. */
void record_prepare_end(struct run *run);

/* The end, which is in the log by now. Who should hear of it and has not: run->is_untold. */
void record_tell_end(struct run *run);

/* ---- record_anomalies.c ---- */

/* Those of the host are left to a daemon of our own user, where there is one. */

/* In run->snap and the events that were not looked at yet. */
void record_look_for_anomalies(struct run *run);

/* The job is over: what lasts ends, and a last kill for want of memory is found. */
void record_end_anomalies(struct run *run);

/* ---- record_end.c ---- */

/* Completes the attempt with everything that is known at its end, records it and tells a daemon. */
struct runner_result;
void record_end(struct run *run, const struct runner_result *result);

#endif
