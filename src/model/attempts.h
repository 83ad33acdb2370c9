/*
 * attempts - of which attempt the progress in a recorded snapshot is.
 *
 * The record keeps progress by the name of the job alone. A runner tells of its own attempt; a
 * daemon tells of all that run, in the order in which they began, and their processes, of which
 * it is known, say which those are.
 */
#pragma once

#include <stdbool.h>

#include "model/job.h"
#include "model/snapshot.h"

struct known_attempt;

/* All zeros is empty. */
struct attempts {
	struct known_attempt *items; /* by id */
	size_t n, cap;
	bool is_sorted;
	uint64_t n_named; /* snapshots */
};

void attempts_release(struct attempts *all);

/* -ENOMEM. */
int attempts_add(struct attempts *all, const struct attempt *a);

/* Sets attempt_id, attempt_num and uid of its progress, where it has none and they can be told. */
void attempts_name(struct attempts *all, struct snapshot *s);

/*
 * Into ret a view of s whose progress is that of this job alone (NULL: of all), named as far as it
 * can be. Returns what the caller frees when done with it, or NULL: no memory.
 */
struct job_progress *attempts_tell(struct attempts *all, const struct snapshot *s,
				   const char *job_id, struct snapshot *ret);
