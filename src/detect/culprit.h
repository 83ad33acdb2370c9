/*
 * culprit - who is most to blame for what is of a job or a cgroup as a whole.
 *
 * It is found out once, when that begins: one walk through the processes.
 */
#ifndef PROCTOR_DETECT_CULPRIT_H
#define PROCTOR_DETECT_CULPRIT_H

#include "detect/track.h"

/* The process of the job with the most children there, at least two; NULL: there is none. */
const struct track *culprit_of_processes(struct tracks *ts, const struct job_track *job);

/*
 * The process with the most memory in the cgroup, or below it; NULL: none is followed. track_of: of
 * each process of the snapshot.
 */
const struct track *culprit_of_cgroup(const struct tracks *ts, const struct snapshot *snap,
				      const size_t *track_of, const char *path);

#endif
