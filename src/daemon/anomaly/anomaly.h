/*
 * service_anomaly - anomalies of the host, attached trees and orphans: found, published, recorded,
 * with evidence.
 */
#pragma once

#include "daemon/service_internal.h"

/* A stage of a tick. */
int service_detect(struct service *s, struct err *err);

/* An OOM kill of an attached tree, which is told at once. */
void service_keep_kill(struct service *s, const struct proc_event *ev, int64_t attempt_id);

/* A process has ended: noted if something lasts of it. */
void service_note_exit(struct service *s, const struct proc_key *key, uint64_t wall_ns);

/* A job is over, and all that was told of its processes is known. */
void service_end_anomalies_of(struct service *s, const struct watched *job);

/* The daemon leaves: all that lasts is over, as far as anybody knows. */
void service_end_anomalies(struct service *s);

/* No closer look at a job until something begins again. */
void service_stop_closer(struct service *s);
