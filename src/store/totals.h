/*
 * totals - what a process's samples tell about it: its peaks, and how far its
 * counters got.
 */
#ifndef PROCTOR_STORE_TOTALS_H
#define PROCTOR_STORE_TOTALS_H

#include <stdint.h>

#include "model/job.h"
#include "store/codec.h"

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
