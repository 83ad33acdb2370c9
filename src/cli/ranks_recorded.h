/*
 * ranks_recorded - the ranks of a job as they were recorded, for verbs that otherwise read files.
 */
#ifndef PROCTOR_CLI_RANKS_RECORDED_H
#define PROCTOR_CLI_RANKS_RECORDED_H

#include "cli/ranks.h"
#include "daemon/daemon.h"

/*
 * Reads the attempt (num 0: the latest) and its ranks, which borrow it. -ENOENT: no such job or
 * attempt. -ENODATA: it has no ranks, or their samples are gone; err says which.
 */
int ranks_read_job(const char *job_id, int num, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err);

/* All of it into t, as ranks_load() does with files. Returns an exit status. */
int ranks_load_job(const char *job_id, int num, struct ranks_input *input, struct telemetry *t);

#endif
