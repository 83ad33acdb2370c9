/*
 * service_anomaly - anomalies of the host and of jobs: found, told, kept, with evidence.
 */
#ifndef PROCTOR_DAEMON_ANOMALY_ANOMALY_H
#define PROCTOR_DAEMON_ANOMALY_ANOMALY_H

#include "daemon/service_internal.h"

/* ---- service_anomalies.c ---- */

/* A stage of a tick. */
int service_detect(struct service *s, struct err *err);

/* Its runner judges the job: neither published nor recorded here. Who outlives a job is ours. */
bool service_is_judged_by_runner(const struct service *s, const struct episode *e);

/* Into a log and on the bus. */
void service_record_changes(struct service *s, const struct detect_changes *changes);

/* Nobody will look any more: all that lasts is over, as far as anybody knows. */
void service_end_anomalies(struct service *s);

/* A process has ended, as somebody tells: noted if something lasts of it. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns);

/* A job is over, and all that was told of its processes is known. */
void service_end_anomalies_of(struct service *s, const struct watched *job);

/* There are OOM kills among the news: they are told now, and make room for others. */
void service_tell_kills(struct service *s);

/* The same when the loop has its next turn. */
void service_tell_kills_soon(struct service *s);

/* ---- service_closer.c ---- */

/*
 * For one that began: what is found out about its culprit; and its job, if there is one, is looked
 * at closer for a while. False: nothing, and nobody looks.
 */
bool service_find_evidence(struct service *s, const struct detect_change *change,
			   const struct watched *job, struct anomaly_evidence *ret);

/* Writes down a trace that has ended. At each tick; and, with its end, when we leave. */
void service_note_trace(struct service *s);
void service_end_trace(struct service *s);

void service_stop_closer(struct service *s); /* until something begins again */
void service_release_closer(struct service *s);

#endif
