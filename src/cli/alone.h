/*
 * alone - what can be known of a job where no daemon runs that could be asked.
 */
#ifndef PROCTOR_CLI_ALONE_H
#define PROCTOR_CLI_ALONE_H

#include "base/err.h"
#include "base/path.h"
#include "store/store.h"

/*
 * How many submissions of a job have not begun. uid: of whose; U64_UNKNOWN: of anybody. Only what
 * waits for a daemon with this database is seen. recorded: what was started and is not among these
 * counts too, unless this is NULL.
 */
size_t alone_count_waiting(const struct paths *paths, const char *job_id, uint64_t uid,
			   const struct attempt_list *recorded);

/*
 * How a job ended: attempt num of it, or if that is 0 the last one (one's own, where other users
 * have some of that name). recorded has all of the job. -EINPROGRESS: it runs. Else nobody can
 * tell: -ENOENT: none is recorded, -EOPNOTSUPP: it was attached, so only a daemon hears of its end.
 */
int alone_find_end(const struct attempt_list *recorded, const char *job_id, int num,
		   struct attempt *ret, struct err *err);

#endif
