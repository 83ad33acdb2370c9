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

/* Keys of the options that say so, and their rows for a table of options. */
enum ranks_job_key { RANKS_KEY_JOB = 1024, RANKS_KEY_ATTEMPT, RANKS_KEY_STORE };

#define RANKS_JOB_OPTIONS(job_text_)                                                        \
	{ "job", RANKS_KEY_JOB, "ID", 0, job_text_, 0 },                                    \
		{ "attempt",                                                                \
		  RANKS_KEY_ATTEMPT,                                                        \
		  "N",                                                                      \
		  0,                                                                        \
		  "The job's Nth attempt instead of its latest",                            \
		  0 },                                                                      \
	{                                                                                   \
		"store", RANKS_KEY_STORE, "URL", 0,                                         \
			"Read this database (sqlite:PATH, or PATH) instead of one's own", 0 \
	}

/* One of them. ARGP_ERR_UNKNOWN: it is none. A bad value is bad usage, and exits with 2. */
error_t ranks_parse_job_option(struct ranks_job *job, int key, char *arg,
			       const struct argp_state *state);

/*
 * Reads the attempt and its ranks, which borrow it. -ENOENT: no such job or
 * attempt. -ENODATA: it has no ranks, or their samples are gone; err says which.
 */
int ranks_read_job(const struct ranks_job *job, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err);

/* All of it into t, as ranks_load() does with files. Returns an exit status. */
int ranks_load_job(const struct ranks_job *job, struct ranks_input *input, struct telemetry *t);

#endif
