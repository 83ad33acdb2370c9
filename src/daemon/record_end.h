/*
 * record_end - the end of a run, which must not be lost.
 *
 * Everything that is stored then may wait for other writers, for seconds in all. Where there is
 * no database by then, how it ended is kept beside it, and whoever opens that next takes it in.
 */
#ifndef PROCTOR_DAEMON_RECORD_END_H
#define PROCTOR_DAEMON_RECORD_END_H

#include "jobs/jobs.h"

struct run;

/* Completes the attempt with everything that is known at its end, stores it and tells a daemon. */
void record_end(struct run *run, const struct runner_result *result);

#endif
