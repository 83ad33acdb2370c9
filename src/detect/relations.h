/*
 * relations - what a process alone does not show: who its zombies are, whether it has
 * children to wait for, and whether others like it go on.
 *
 * That takes another walk through the processes, which is only done when a zombie or a process
 * without progress is old enough to matter.
 */
#ifndef PROCTOR_DETECT_RELATIONS_H
#define PROCTOR_DETECT_RELATIONS_H

#include <stddef.h>

#include "base/map.h"
#include "detect/checks.h"
#include "detect/track.h"

/* Processes with the same parent and the same name. */
struct kin {
	uint64_t n, n_moving;
};

/* All zeros is empty. */
struct relations {
	struct map by_kin; /* hash -> index */
	struct kin *kin;
	size_t n_kin, cap_kin;
};

void relations_release(struct relations *r);

/* Fills in what the tracks say of this tick. track_of: of each process of the tick. -ENOMEM. */
int relations_find(struct relations *r, struct tracks *ts, const struct tick *t,
		   const size_t *track_of);

/* ---- culprits: the process most to blame for what is of a job or a cgroup as a whole ----
 *
 * Found once, when that begins: one walk through the processes.
 */

/* The process of the job with the most children there, at least two; NULL: there is none. */
const struct track *culprit_of_processes(struct tracks *ts, const struct job_track *job);

/*
 * The process with the most memory in the cgroup, or below it; NULL: none is followed. track_of: of
 * each process of the snapshot.
 */
const struct track *culprit_of_cgroup(const struct tracks *ts, const struct snapshot *snap,
				      const size_t *track_of, const char *path);

#endif
