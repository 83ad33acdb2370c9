/*
 * service_anomaly - anomalies of the host, attached trees and orphans: found, published, recorded,
 * with evidence.
 */
#pragma once

#include "daemon/service_internal.h"

/* ---- service_anomalies.c ---- */

/* A stage of a tick. */
int service_detect(struct service *s, struct err *err);

/* An OOM kill of an attached tree, which is told at once. */
void service_keep_kill(struct service *s, const struct proc_event *ev, int64_t attempt_id);

/* A process has ended: noted if something lasts of it. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns);

/* A job is over, and all that was told of its processes is known. */
void service_end_anomalies_of(struct service *s, const struct watched *job);

/* Nobody will look any more: all that lasts is over, as far as anybody knows. */
void service_end_anomalies(struct service *s);

/* ---- service_closer.c ---- */

/*
 * For one that began: what is found out about its culprit; and its job, if there is one, is looked
 * at closer for a while. False: nothing, and nobody looks.
 */
bool service_find_evidence(struct service *s, const struct detect_change *change,
			   const struct watched *job, struct anomaly_evidence *ret);

/* At each tick, and when the daemon leaves: records a trace that has ended, or ends it. */
void service_note_trace(struct service *s, bool is_leaving);

void service_stop_closer(struct service *s); /* until something begins again */
void service_release_closer(struct service *s);
