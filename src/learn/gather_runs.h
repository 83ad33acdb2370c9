/*
 * gather_runs - an attempt that is over, as runs to learn from.
 *
 * Peaks, times, counts and system calls are those of its accounting, which has taken in all
 *samples. Early values are read off its curve. The snapshots have the state of the host meanwhile.
 *
 *	struct gather g = { .attempt = &attempt };
 *	gather_add_snapshot(&g, &snapshot);	for each one of the time it ran
 *	gather_finish(&g, anomalies, &list);
 */
#pragma once

#include <stdint.h>

#include "model/job.h"
#include "model/run_record.h"
#include "model/snapshot.h"

/* How long some tasks of the host stalled: a counter, from the first sight to the last. */
struct gather_stall {
	uint64_t first_us, last_us;
};

/* Borrows the attempt, which has ended, with its sheets, processes and series. */
struct gather {
	const struct attempt *attempt; /* the rest is 0 at first */
	uint64_t first_ns, last_ns;    /* of the snapshots */
	struct gather_stall memory, io, cpu;
};

/* In the order of time. */
void gather_add_snapshot(struct gather *g, const struct snapshot *snap);

/*
 * Appends the run to list (and, where there are several sheets, one for each): strings
 * go into its arena. anomalies: see run_record; NULL: nobody looked. -ENOMEM.
 */
int gather_finish(const struct gather *g, const char *anomalies, struct run_list *list);
