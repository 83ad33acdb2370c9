/*
 * remote - what a daemon has recorded of jobs and our own database has not: those that were
 * attached, or submitted by a user who has no database, or are of others that we may read.
 *
 * A verb reads its own record where that has the job, else the daemon's. "proctor jobs" lists both.
 * Rows are the objects that the verbs print with --json.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "rpc/rpc.h"
#include "store/store.h"

enum remote_rows { REMOTE_ATTEMPTS, REMOTE_EVENTS, REMOTE_SAMPLES, REMOTE_ANOMALIES };

struct remote_question {
	const char *job_id; /* NULL: any, of attempts and anomalies */
	uint64_t since_wall_ns;
	uint64_t until_wall_ns; /* 0: no end */
	pid_t pid;		/* 0: any */
	size_t limit;		/* of attempts; 0: none */
	bool latest_only;	/* of attempts */
	bool only_of_others;	/* a daemon of our own user has what we have, and is not asked */
};

/* Non-zero ends it, and is returned. */
typedef int remote_fn(void *ctx, const struct rpc_value *row);

/* Calls fn (NULL: nothing) for each, oldest first. -ENOENT: no daemon is there, or it shows us no
 * such job. */
int remote_read(enum remote_rows rows, const struct remote_question *question, remote_fn *fn,
		void *ctx, struct err *err);

struct lister;

/*
 * Prints them as the verb prints its own: as JSON as they come, or what add_row adds of each.
 * Returns the exit status, with what went wrong on stderr. -ENOENT: no daemon shows us such a job,
 * and nothing is written.
 */
int remote_print(enum remote_rows rows, const struct remote_question *question, struct lister *l,
		 int (*add_row)(struct lister *l, const struct rpc_value *row), const char *none);

/* Members of a row. A time is in seconds; U64_UNKNOWN, otherwise and NULL: it is not there. */
uint64_t remote_time(const struct rpc_value *row, const char *key);
int remote_int(const struct rpc_value *row, const char *key, int otherwise);
const char *remote_text(const struct rpc_value *row, const char *key);

/* An attempt as a daemon lists it; its strings are in the arena. -EBADMSG, -ENOMEM. */
int remote_attempt(const struct rpc_value *row, struct arena *arena, struct attempt *ret);

/*
 * Adds one to a list unless it is among the first n_own: a runner sends its attempt to a daemon
 * that has another database, too. latest_only: the later one of a job of a user stays. 1: the list
 * has changed. -ENOMEM.
 */
int remote_add(struct attempt_list *list, size_t n_own, bool latest_only, const struct attempt *a);

/* Adds all that a daemon has recorded, if one is there. 1: the list has changed. */
int remote_add_all(const struct remote_question *question, struct attempt_list *list,
		   struct err *err);

/*
 * A database counts its own attempts, so ours and the daemon's may have two numbers for one. The
 * number that theirs has for the one that we call num, or that it alone has; 0: none.
 */
int remote_match_number(const struct attempt_list *own, const struct attempt_list *theirs, int num);

/* The number that our own database has for one of the daemon's; its own, if it has none. */
int remote_number_here(const struct attempt_list *own, const struct attempt *a);
