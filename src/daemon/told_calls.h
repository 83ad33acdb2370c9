/*
 * told_calls - the system calls of a job, of all of it and of each of its processes, on their way
 * from who counts them to its record.
 *
 * Where the daemon has counted and the runner writes the record they are one JSON object;
 * docs/rpc.md has it.
 */
#ifndef PROCTOR_DAEMON_TOLD_CALLS_H
#define PROCTOR_DAEMON_TOLD_CALLS_H

#include "base/buf.h"
#include "base/json.h"
#include "daemon/call_sums.h"
#include "daemon/process_calls.h"
#include "rpc/rpc.h"
#include "sources/sources.h"

/* All zero, but for processes.max_bytes, is a good beginning. */
struct told_calls {
	struct call_sums sums;
	struct process_calls processes;
	unsigned time_every;	   /* one call in so many was timed, by chance; 0, 1: all were */
	double time_variance_ns2;  /* of all times on a CPU together; 0: they are exact */
	struct syscalls_lost lost; /* of this job or another */
	uint64_t n_withheld;	   /* processes that are not in it: not its user's alone */
};

void told_calls_release(struct told_calls *calls);

/* Of one process, by who has counted it. */
void told_calls_add(struct told_calls *calls, const struct syscall_process *p);

/* The same of one that is not to be told. */
void told_calls_withhold(struct told_calls *calls, const struct syscall_process *p);

/* The members of an object that is open. Nothing can be added any more. */
void told_calls_write(struct json *j, struct told_calls *calls);

/* Adds what is told to what is there. -EBADMSG: that is no such object, and some of it is added. */
int told_calls_read(const struct rpc_value *v, struct told_calls *calls);

/* The same of the processes alone: a list, and what is told in it. */
void told_calls_write_processes(struct json *j, const struct process_calls *processes);
int told_calls_read_processes(const struct rpc_value *list, struct process_calls *ret);

/* Into the attempt, once: the sums of the job, and of each of its processes that is listed; and
 * what is wrong with them, as notes. trouble: why some were not counted, or NULL. */
void told_calls_keep(struct told_calls *calls, const char *trouble, struct attempt *a);

/*
 * Where only some calls were timed, that, and one standard error of the sum; to a sentence that may
 * have begun. After told_calls_keep() or told_calls_write().
 */
void told_calls_say_error(const struct told_calls *calls, struct buf *out);

/* Adds what is missing in them, if anything is, to a sentence that may have begun. */
void told_calls_say_missing(const struct told_calls *calls, struct buf *out);

#endif
