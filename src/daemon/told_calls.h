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

/* All zero, but for processes.max_bytes, is a good beginning. */
struct told_calls {
	struct call_sums sums;
	struct process_calls processes;
	uint64_t n_lost; /* calls that found no room to be counted in, of this job or another */
};

void told_calls_release(struct told_calls *calls);

/* The members of an object that is open. */
void told_calls_write(struct json *j, const struct told_calls *calls);

/* Adds what is told to what is there. -EBADMSG: that is no such object, and some of it is added. */
int told_calls_read(const struct rpc_value *v, struct told_calls *calls);

/* Into the attempt: the sums of the job, and of each of its processes that is listed. Once. */
void told_calls_keep(struct told_calls *calls, struct attempt *a);

/* Adds what is missing in them, if anything is, to a sentence that may have begun. */
void told_calls_say_missing(const struct told_calls *calls, struct buf *out);

#endif
