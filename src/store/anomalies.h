/*
 * anomalies - an episode as its row has it.
 */
#ifndef PROCTOR_STORE_ANOMALIES_H
#define PROCTOR_STORE_ANOMALIES_H

#include <stdint.h>

#include "base/err.h"
#include "model/job.h"
#include "store/columns.h"
#include "store/store.h"

/* Names instead of numbers, -1 for none; strings are borrowed. */
struct anomaly_cells {
	int64_t id, attempt; /* of the row; 0: of no attempt */
	const char *episode, *type, *severity, *comm, *description, *unit, *why_cleared;
	const char *host, *evidence; /* JSON */
	const char *pattern;
	uint64_t pid, start_ticks; /* U64_UNKNOWN: of no process */
	int sheet_num, gpu;
	double metric_value, threshold;
	uint64_t began_wall_ns, peak_wall_ns, ended_wall_ns, seen_wall_ns;
	double before_value, first_value, peak_value, after_value, seconds_to_limit;
	uint64_t count;
	uint64_t full_from_wall_ns, full_until_wall_ns;
};

extern const struct columns anomaly_columns;
extern const struct columns anomaly_place_columns; /* id and attempt, to be read alone */

/*
 * The episode that the cells have, which borrows their strings. 1: it is in e. 0: it makes no
 * sense, and is left out.
 */
int anomaly_read_cells(struct store *store, const struct anomaly_cells *c, const char *job_id,
		       struct episode *e, struct err *err);

/* Those of the attempt, into its arena. Inside a transaction. */
int anomalies_read(struct store *store, struct attempt *a, struct err *err);

#endif
