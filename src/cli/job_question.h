/*
 * job_question - "wait" and "cancel": a verb, a job, an answer of the daemon, or of our own
 * database where none runs.
 */
#ifndef PROCTOR_CLI_JOB_QUESTION_H
#define PROCTOR_CLI_JOB_QUESTION_H

#include "cli/cli.h"
#include "rpc/rpc.h"

struct job_question {
	const char *job_id;
	int attempt;	  /* 0: the last, or to cancel: all that run */
	const char *user; /* as it is given */
	uint64_t uid;	  /* whose; U64_UNKNOWN: one's own, or the only one */
	bool only_queued;
	bool must_be_sure; /* of the number: the attempt is ended */
	bool json;
};

#define JOB_QUESTION_INIT          \
	{                          \
		.uid = U64_UNKNOWN \
	}

/* Parses the command line of both verbs. */
void job_question_parse(const struct argp *argp, int argc, char **argv, struct job_question *args);

/* What our own database has of the job, which may be nothing. */
int job_question_read_own(const char *job_id, struct attempt_list *ret, struct err *err);

/* Asks a daemon, and waits for the answer however long it takes. -ENODEV: none runs. */
int job_question_ask(const char *method, const struct job_question *args, struct rpc_value **ret,
		     struct err *err);

/*
 * How many submissions of a job have not begun, of those that wait for a daemon with this database.
 * uid: whose; U64_UNKNOWN: of anybody. recorded: those that were started and are not among these
 * count too, unless it is NULL.
 */
size_t job_question_count_queued(const struct paths *paths, const char *job_id, uint64_t uid,
				 const struct attempt_list *recorded);

#endif
