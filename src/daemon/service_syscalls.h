/* service_syscalls - what was counted of one job, for who counts it and who writes it down. */
#ifndef PROCTOR_DAEMON_SERVICE_SYSCALLS_H
#define PROCTOR_DAEMON_SERVICE_SYSCALLS_H

#include "daemon/service_internal.h"
#include "daemon/told_calls.h"

/* What the processes of a job that have ended have called. */
struct job_calls {
	int64_t attempt_id;
	uint64_t uid; /* whose it is */
	struct told_calls calls;
	struct syscalls_lost lost_before; /* of all jobs, when this one began: of which job those
					   * are that come later nobody knows
					   */
	bool is_over;			  /* to be written down */
	struct job_calls *next, **at;	  /* where it is in the list */
};

/* Out of the list, and away. */
void job_calls_drop(struct service *s, struct job_calls **at);

#endif
