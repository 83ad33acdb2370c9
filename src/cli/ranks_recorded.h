/*
 * ranks_recorded - the ranks of a job as they were recorded, for verbs that otherwise read files.
 */
#ifndef PROCTOR_CLI_RANKS_RECORDED_H
#define PROCTOR_CLI_RANKS_RECORDED_H

#include "cli/ranks.h"
#include "daemon/daemon.h"

/* Which one. */
struct ranks_job {
	const char *job_id;
	int attempt_num;   /* 0: the latest */
	const char *store; /* "sqlite:PATH" or PATH: a database; NULL: our own */
};

#define RANKS_STORE_TEXT "Read this database (sqlite:PATH, or PATH) instead of one's own"

/* The argument of --store; what is none of these is bad usage, and exits with 2. */
const char *ranks_parse_store(const struct argp_state *state, const char *url);

/*
 * Reads the attempt and its ranks, which borrow it. -ENOENT: no such job or
 * attempt. -ENODATA: it has no ranks, or their samples are gone; err says which.
 */
int ranks_read_job(const struct ranks_job *job, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err);

/* All of it into t, as ranks_load() does with files. Returns an exit status. */
int ranks_load_job(const struct ranks_job *job, struct ranks_input *input, struct telemetry *t);

#endif
