/*
 * so_far - what the recorded ticks of an attempt tell about it.
 */
#ifndef PROCTOR_STORE_SO_FAR_H
#define PROCTOR_STORE_SO_FAR_H

#include <stdint.h>

#include "base/err.h"
#include "model/job.h"
#include "store/codec.h"
#include "store/store.h"

/* How many processes of an attempt there are, and of how many of them no end has told. */
struct process_count {
	size_t n, n_unaccounted;
};
int so_far_count_processes(struct store *store, int64_t attempt_id, struct process_count *ret,
			   struct err *err);

/*
 * a->processes, n at most: those that an end has told of as it did, the others by their samples,
 * as long as the attempt runs and when no more than its bare end was stored.
 */
int so_far_read_processes(struct store *store, struct attempt *a, size_t n, struct err *err);

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

#endif
