/*
 * context - what the host was doing when something began.
 */
#ifndef PROCTOR_DETECT_CONTEXT_H
#define PROCTOR_DETECT_CONTEXT_H

#include "model/anomaly.h"
#include "model/snapshot.h"

/* Takes as long as there are processes. Of a snapshot of one job only the values of the host count.
 * Where the memory of some is unknown top_rss has the others, and knows_rss is false. */
void context_describe(const struct snapshot *s, struct anomaly_host *ret);

#endif
