/*
 * record_anomalies - looks for anomalies in a run, and stores them with their evidence.
 *
 * For as long as no daemon does. When one takes over, what lasts is left open in the record, and
 * the daemon goes on with it.
 */
#ifndef PROCTOR_DAEMON_RECORD_ANOMALIES_H
#define PROCTOR_DAEMON_RECORD_ANOMALIES_H

struct run;

/* In run->snap and the events that are not stored yet. */
void record_look_for_anomalies(struct run *run);

/* From now on a daemon looks; called at each tick for as long as it does. */
void record_hand_over_anomalies(struct run *run);

/* The job is over: what lasts ends, and a last kill for want of memory is found. */
void record_end_anomalies(struct run *run);

#endif
