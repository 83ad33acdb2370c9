/*
 * service_guest - runners that hold the line: their list, what they tell, and (in
 * service_hello.c) how they are received.
 */
#ifndef PROCTOR_DAEMON_SERVICE_GUEST_H
#define PROCTOR_DAEMON_SERVICE_GUEST_H

#include "daemon/service_internal.h"

struct guest;

/* The one that holds the line of this call; NULL: it is no runner's. */
struct guest *guest_find_by_line(const struct service *s, const struct rpc_peer *peer);

/* From now on the call's connection is the line of this job's runner, and we write its ticks. */
int guest_hold_line(struct service *s, struct rpc_call *call, struct watched *job, bool is_foreign,
		    struct err *err);

/* Whose the attempt is and where it runs: by the kernel's word and our own, whatever it says. */
void guest_identify(const struct service *s, const struct rpc_peer *peer,
		    const struct proc_key *key, struct attempt *a);

/* ---- service_late.c ---- */

/*
 * The attempt of a->job_id of this user and runner that is in the database: a's id and number are
 * set. -ENOENT: we have never heard of it.
 */
int guest_find_attempt(struct service *s, uint64_t uid, const struct proc_key *runner,
		       struct attempt *a, bool *ret_is_over, struct err *err);

/* ---- service_share.c ---- */

/* Whether this user may have one more. -EBUSY: not now. -ENOMEM. */
int guest_check_share(struct service *s, const struct rpc_peer *peer, struct err *err);

/*
 * Of the sheets that were told those stay that are known already (of the job as it is watched;
 * NULL: it is new), and new ones as far as the user may have more.
 */
void guest_bound_sheets(struct service *s, uid_t uid, const struct attempt *known,
			struct attempt *told);

/* The same of the processes that are told with the end, and of what happened to them. */
void guest_bound_lives(struct service *s, uid_t uid, struct attempt *told);

#endif
