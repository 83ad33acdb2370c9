/*
 * anomalies - episodes, what was told of them, and the patterns that they are counted as.
 */
#pragma once

#include "base/err.h"
#include "model/job.h"
#include "store/query.h"
#include "store/store.h"

extern const struct columns anomaly_shared_columns; /* struct episode, what others add to it */

/* Those of the attempt, into its arena. Inside a transaction. */
int anomalies_read(struct store *store, struct attempt *a, struct err *err);
