/*
 * ranks - "proctor ranks": telemetry of a job of many ranks, from files or as it was recorded.
 */
#pragma once

#include "cli/cli.h"
#include "crossrank/crossrank.h"
#include "query/query.h"

/* Which job, for verbs that read what was recorded. */
struct ranks_job {
	const char *job_id;
	int attempt_num;   /* 0: the latest */
	const char *store; /* "sqlite:PATH" or PATH: a database; NULL: our own */
};

/* Rows of a table of options for the member job of struct_, and what they have to be. */
#define RANKS_JOB_OPTIONS(struct_, job_text_)                              \
	CLI_OPTION("job", struct_, job.job_id, "ID", job_text_),           \
		CLI_OPTION("attempt", struct_, job.attempt_num, "N",       \
			   "The job's Nth attempt instead of its latest"), \
		CLI_OPTION("store", struct_, job.store, "URL",             \
			   "Read this database (sqlite:PATH, or PATH) instead of one's own")
void ranks_check_job(char **argv, const struct ranks_job *job);

/*
 * Reads the attempt and its ranks, which borrow it. -ENOENT: no such job or
 * attempt. -ENODATA: it has no ranks, or their samples are gone; err says which.
 */
int ranks_read_job(const struct ranks_job *job, struct attempt *ret_attempt,
		   struct recorded_ranks *ret, struct err *err);

/* ---- ranks_page.c: an analysis as JSON, or as a page for people ---- */

/* The files of a command line, and what came of them. */
struct ranks_input {
	char **files;
	int n_files;
	bool skips_invalid;
	bool may_be_empty; /* for whoever writes down that there was nothing */
	struct intake in;  /* after reading: its counts alone */
};

enum ranks_format { RANKS_TEXT, RANKS_MARKDOWN, RANKS_HTML, RANKS_JSON };

/* Appends all of it. -ENOMEM. */
int ranks_write(struct buf *out, const struct rank_analysis *a, const struct ranks_input *input,
		enum ranks_format format);
