/*
 * merge - what several recorders saw, as one snapshot.
 *
 * Without a daemon each run records its own job alone: what the host's jobs were at a moment is the
 * last snapshot of each that was still looking then. Who comes in several of them (a daemon handed
 * its jobs over) is as the newest has it. A closer look that a daemon takes at one job stands
 * beside what it sees of all.
 */
#ifndef PROCTOR_TUI_MERGE_H
#define PROCTOR_TUI_MERGE_H

#include "base/map.h"
#include "model/attempts.h"
#include "model/job.h"
#include "model/snapshot.h"

struct merge_part;

struct merge {
	struct merge_part *parts; /* one of each recorder */
	size_t n, cap;
	struct map ends;     /* of recorders and attempts, by their id */
	struct map job_ends; /* of the last attempt of each job */
	struct attempts attempts;
	struct snapshot all;
};

void merge_init(struct merge *m);
void merge_release(struct merge *m);

/* An attempt: where it has ended, nothing is to be told of it any more from then on. -ENOMEM. */
int merge_add_attempt(struct merge *m, const struct attempt *a);

/* The next snapshot of its recorder. Takes a copy. -ENOMEM. */
int merge_add(struct merge *m, const struct snapshot *snap);

/* Forgets what was added, and not the ends. */
void merge_forget(struct merge *m);

/*
 * All of them as one, at until_wall_ns; who has ended since from_wall_ns is in it still. Borrowed
 * until the next call; NULL when memory runs out.
 */
const struct snapshot *merge_make(struct merge *m, uint64_t from_wall_ns, uint64_t until_wall_ns);

#endif
