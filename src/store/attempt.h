#pragma once

#include <stdint.h>

#include "base/err.h"
#include "log/log.h"
#include "model/job.h"
#include "store/codec/codec.h"
#include "store/store.h"

/*
 * read - what reading attempts knows and others need.
 */

/* When an attempt was last heard of: its last tick, its last sheet, or its start. */
int attempt_read_last_sign(struct store *store, const struct attempt *a, uint64_t *ret,
			   struct err *err);

/* Of an attempt's row: it has no end, and its runner is not known to be dead. */
int attempt_may_run(struct store *store, int64_t attempt_id, bool *ret, struct err *err);

/*
 * An episode of an attempt that nobody has ended is over with it: with its end, or with the last
 * sign of one that was lost. ended_wall_ns: the attempt's, U64_UNKNOWN where it has none; id 0: it
 * is of no attempt, and over where nobody looks at the host any more.
 */
int attempt_end_episode(struct store *store, int64_t id, uint64_t ended_wall_ns, struct episode *e,
			struct err *err);

/*
 * write - parts of writing an attempt that ingest.c needs one by one. All inside a transaction.
 */

/*
 * Adds its row, sheets and clock, and sets a->id and a->attempt_num. With a log it keeps the number
 * that it has, unless another attempt of the job has that one.
 */
int attempt_begin(struct store *store, struct attempt *a, const struct log_id *log,
		  struct err *err);

/* As a daemon's own log begins (NULL: it has none). */
int daemon_begin(struct store *store, const struct daemon_record *d, const struct log_id *log,
		 int64_t *ret_id, struct err *err);

/* What is known at its end: processes, rungs, notes and system calls. */
int attempt_write_details(struct store *store, const struct attempt *a,
			  const char *why_not_all_calls, struct err *err);

/* How it ended, what it used, and its sheets: what must not be lost. */
int attempt_write_end(struct store *store, const struct attempt *a, struct err *err);

/*
 * running_totals - what the recorded ticks of an attempt tell about it.
 */

/*
 * a->processes, n at most: those that an end has told of as it did, the others by their samples,
 * as long as the attempt runs and when no more than its bare end was stored.
 */
int running_totals_read(struct store *store, struct attempt *a, size_t n, struct err *err);

/* a->series, by time. */
int series_read(struct store *store, struct attempt *a, struct err *err);

/* ---- the samples of a process: its peaks, and how far its counters got ---- */

/* Columns of a chunk that have to be read for it. */
#define TOTALS_WORDS (SAMPLE_gpu_memory_bytes + 1)

/* The largest of each word. Counters only grow, so that is the latest. */
struct totals {
	uint64_t words[TOTALS_WORDS];
	uint64_t max_rss_bytes; /* the high-water mark, or where that is unknown the RSS */
	uint64_t n;		/* samples */
};

void totals_init(struct totals *totals);
void totals_add(struct totals *totals, const struct table *chunk);

/* Adds them to what the record says of other samples. */
void totals_tell(const struct totals *totals, struct proc_record *record);

/* The anomalies of the attempt, into its arena. Inside a transaction. */
int anomalies_read(struct store *store, struct attempt *a, struct err *err);
