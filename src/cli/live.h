/*
 * live - what the daemon knows about jobs that the database does not: which of
 * them wait, and why; and those that run and are recorded elsewhere.
 *
 * Without a daemon the folder of its queue tells which wait for one.
 */
#ifndef PROCTOR_CLI_LIVE_H
#define PROCTOR_CLI_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/path.h"
#include "model/job.h"

struct live_job {
	const char *job_id;
	uint64_t uid;		    /* whose; U64_UNKNOWN */
	bool is_queued;		    /* else it runs, and its next sheet waits */
	int attempt;		    /* of one that runs */
	uint64_t submitted_wall_ns; /* of one that is queued; U64_UNKNOWN */
	uint64_t submission;	    /* the same */
	const char *command;	    /* the same: its file; NULL */
	const char *why;	    /* it waits; NULL: not known */
};

struct live_jobs {
	struct live_job *items; /* queued ones in the order in which they were submitted */
	size_t n, cap;
	struct attempt *running; /* all that the daemon shows, oldest first */
	size_t n_running;
	struct arena arena;
};

/* All there is to be found, which may be nothing. -ENOMEM. */
int live_jobs_read(const struct paths *paths, struct live_jobs *ret);
void live_jobs_release(struct live_jobs *live);

struct rpc_value;

/* As a daemon lists it, and "proctor jobs --json"; its strings are in the arena. -EBADMSG, -ENOMEM.
 */
int live_read_attempt(const struct rpc_value *job, struct arena *arena, struct attempt *ret);

/*
 * A daemon keeps to the database that it began with until it is started again. If that is not the
 * one that the configuration has by now, and we may do with it what mode says (access(2)), it is
 * what paths->db says then, and that is warned of.
 */
void live_follow_daemon(struct paths *paths, int mode);

/* Why a running one waits; NULL: it does not. */
const char *live_why_held(const struct live_jobs *live, const char *job_id, int attempt);

#endif
