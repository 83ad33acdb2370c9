/*
 * cancel_alone - ends jobs where no daemon runs that could be asked to.
 */
#ifndef PROCTOR_CLI_CANCEL_ALONE_H
#define PROCTOR_CLI_CANCEL_ALONE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Tells the runners of a job to end all of it, as far as the own database knows them: of the
 * attempt of that number, or with 0 of all that run; uid is whose, or U64_UNKNOWN: then one's own,
 * or those of the only user who has any. One that cannot be told does not keep the others alive.
 * *ret_n is how many were told. -ENOENT: there is no such job. -ESRCH: it does not run. -EINVAL: of
 * several users. -EOPNOTSUPP: it was attached, and has no runner. -EPERM: what is said to be its
 * runner is a process of somebody else's.
 */
int cancel_alone(const char *job_id, int attempt_num, uint64_t uid, size_t *ret_n, struct err *err);

#endif
