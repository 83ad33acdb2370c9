/*
 * cancel_alone - ends jobs where no daemon runs that could be asked to.
 */
#ifndef PROCTOR_CLI_CANCEL_ALONE_H
#define PROCTOR_CLI_CANCEL_ALONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct cancel_question {
	const char *job_id;
	int attempt_num;  /* 0: all that run */
	uint64_t uid;	  /* whose; U64_UNKNOWN: one's own, or of the only user who has any */
	bool only_queued; /* what waits, and nothing that runs */
};

/*
 * Tells the runners of a job to end all of it, as far as the own database knows them. One that
 * cannot be told does not keep the others alive. *ret_n is how many were told. -ENOENT: there is no
 * such job. -ESRCH: it does not run. -EINVAL: several users have one. -EOPNOTSUPP: it was attached,
 * and has no runner. -EPERM: what is said to be its runner is a process of somebody else's. -EBUSY:
 * some of it waits in the queue, where only a daemon can cancel it.
 */
int cancel_alone(const struct cancel_question *q, size_t *ret_n, struct err *err);

#endif
