/*
 * elsewhere - what a daemon has recorded of jobs and our own database has not: those that were
 * attached, or submitted by who has no database, or are of others that we may read.
 *
 * Rows are the objects that the verbs print with --json.
 */
#ifndef PROCTOR_CLI_ELSEWHERE_H
#define PROCTOR_CLI_ELSEWHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "rpc/rpc.h"

enum elsewhere_rows {
	ELSEWHERE_ATTEMPTS,
	ELSEWHERE_EVENTS,
	ELSEWHERE_SAMPLES,
	ELSEWHERE_ANOMALIES,
};

struct elsewhere_question {
	const char *job_id; /* NULL: any, of attempts and anomalies */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	pid_t pid;		/* 0: any */
	size_t limit;		/* of attempts; 0: none */
	bool latest_only;	/* of attempts */
	bool only_of_others;	/* a daemon of our own user has what we have, and is not asked */
};

/* Non-zero ends it, and is returned. */
typedef int elsewhere_fn(void *ctx, const struct rpc_value *row);

/* Calls fn for each, oldest first. -ENOENT: no daemon is there, or it shows us no such job. */
int elsewhere_read(enum elsewhere_rows rows, const struct elsewhere_question *question,
		   elsewhere_fn *fn, void *ctx, struct err *err);

/* A time in seconds, as it is in a row; U64_UNKNOWN. */
uint64_t elsewhere_time(const struct rpc_value *row, const char *key);

/* A whole number, as it is in a row. */
int elsewhere_int(const struct rpc_value *row, const char *key, int otherwise);

#endif
