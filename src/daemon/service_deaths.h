/* service_deaths - what is kept of the ends of one job, for who keeps it and who tells it. */
#ifndef PROCTOR_DAEMON_SERVICE_DEATHS_H
#define PROCTOR_DAEMON_SERVICE_DEATHS_H

#include "daemon/deaths.h"
#include "daemon/service_internal.h"

struct job_deaths {
	struct service *service;
	int64_t attempt_id;  /* 0: not known yet */
	int64_t begun_id;    /* what its processes were marked with before that; 0: with nothing */
	uint64_t outer_mark; /* what its runner was marked with before: it runs inside of that */
	struct rpc_subscriber *line; /* that it has begun on, until the attempt is known */
	struct proc_key runner;
	uint64_t uid;
	char *job_id; /* as it said when it began; NULL: it did not */
	struct deaths deaths;
	uint64_t n_withheld;	/* of others than uid, or nobody knows whose */
	bool was_told;		/* its runner has asked, and writes down what it was told */
	uint64_t n_short;	/* of whom it was not told all that they had used */
	uint64_t n_lost_before; /* of the kernel's news, of whomever */
	struct job_deaths *next;
};

/*
 * The kernel has the last word on who has ended when all CPUs have been somewhere else since: for
 * who ended longer ago it is lost.
 */
#define DEATHS_LAST_WORD_NS UINT64_C(300000000)

/* Where it is in the list, by either of its numbers; *it is NULL: nowhere. */
struct job_deaths **job_deaths_find(struct service *s, int64_t id);

#endif
