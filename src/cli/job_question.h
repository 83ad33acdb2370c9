/*
 * job_question - "wait" and "cancel": a verb, a job, an answer.
 */
#ifndef PROCTOR_CLI_JOB_QUESTION_H
#define PROCTOR_CLI_JOB_QUESTION_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "rpc/rpc.h"
#include "store/store.h"

enum job_question_key {
	JOB_QUESTION_JSON = 256,
	JOB_QUESTION_ATTEMPT,
	JOB_QUESTION_QUEUED,
	JOB_QUESTION_USER
};

struct job_question {
	const char *job_id;
	int attempt;  /* 0: the last, or to cancel: all that run */
	uint64_t uid; /* whose; U64_UNKNOWN: one's own, or the only one */
	bool only_queued;
	bool must_be_sure; /* of the number: the attempt is ended */
	bool json;
};

#define JOB_QUESTION_INIT          \
	{                          \
		.uid = U64_UNKNOWN \
	}

/* The option parser of both verbs: its input is a struct job_question. */
error_t job_question_parse(int key, char *arg, struct argp_state *state);

/* What our own database has of the job, which may be nothing. */
int job_question_read_own(const char *job_id, struct attempt_list *ret, struct err *err);

/* Asks a daemon, and waits for the answer however long it takes. */
int job_question_ask(struct rpc_client *client, const char *method, const struct job_question *args,
		     struct rpc_value **ret, struct err *err);

#endif
