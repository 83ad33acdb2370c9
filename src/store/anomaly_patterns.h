/*
 * anomaly_patterns - what comes again and again: a RESOURCE_ANOMALY for each type and program, with
 * the jobs it was seen in. It outlives the episodes that it was counted from.
 */
#ifndef PROCTOR_STORE_ANOMALY_PATTERNS_H
#define PROCTOR_STORE_ANOMALY_PATTERNS_H

#include <stdint.h>

#include "base/err.h"
#include "model/anomaly.h"
#include "store/store.h"

#define PATTERN_NAME_BYTES (64 + COMM_BYTES)
#define PATTERN_MAX_JOBS 50 /* whose names are kept: the last; all are counted */

/* "memory_leak:python3": what it is, and of which program. */
void anomaly_pattern_name(const struct episode *e, char ret[PATTERN_NAME_BYTES]);

/* One more, of this attempt (0: of none), whose row is written. Inside of a transaction. */
int anomaly_count_pattern(struct store *store, int64_t attempt_id, const struct episode *e,
			  const char *pattern, struct err *err);

/* The last of them got worse: the tags and words of the pattern are those of now. The same. */
int anomaly_renew_pattern(struct store *store, const struct episode *e, const char *pattern,
			  struct err *err);

#endif
