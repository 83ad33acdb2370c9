/*
 * gather_runs - an attempt that is over, as runs to learn from.
 *
 * Peaks, times, counts and system calls are those of its accounting; where that is unknown or a
 * lower bound, samples may improve it (learn/profile.h). Early values are read off its curve. The
 * snapshots have the state of the host meanwhile.
 *
 *	g = gather_new(&attempt);
 *	gather_add_snapshot(g, &snapshot);	for each one of the time it ran
 *	gather_finish(g, anomalies, &list);
 */
#ifndef PROCTOR_LEARN_GATHER_RUNS_H
#define PROCTOR_LEARN_GATHER_RUNS_H

#include "model/job.h"
#include "model/run_record.h"
#include "model/snapshot.h"

struct gather;

/* Borrows the attempt, which has ended, with its sheets, processes and series. NULL: no memory. */
struct gather *gather_new(const struct attempt *a);
struct gather *gather_free(struct gather *g);

/* In the order of time. -ENOMEM: some of it is not counted. */
int gather_add_snapshot(struct gather *g, const struct snapshot *snap);

/*
 * Appends the run to list (and, where there are several sheets, one for each): strings
 * go into its arena. anomalies: see run_record; NULL: nobody looked. -ENOMEM.
 */
int gather_finish(struct gather *g, const char *anomalies, struct run_list *list);

#endif
