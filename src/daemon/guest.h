/*
 * guest - what a runner tells a daemon that does not share its database: what the job
 * is, how far it is and, once, how it ended.
 *
 * One JSON object on the line that docs/rpc.md describes. For the daemon all of it
 * is hostile: who the runner is the kernel says, and what the runner says about its
 * job is cut, bounded, and believed as far as it concerns that job.
 */
#ifndef PROCTOR_DAEMON_GUEST_H
#define PROCTOR_DAEMON_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "model/job.h"
#include "rpc/rpc.h"

/* In one message; of more the last. */
#define GUEST_MAX_SHEETS 1024

/* With the end; of more the first. A message is no more than 131,072 values. */
#define GUEST_MAX_PROCESSES 1500
#define GUEST_MAX_EVENTS 4000
#define GUEST_MAX_RUNGS 32
#define GUEST_MAX_NOTES 64

/*
 * The attempt, with these sheets of it; and unless it is running with its end, its processes, what
 * happened to them, and how they were measured. Signals are left out: who watches has seen them.
 */
void guest_write(struct json *j, const struct attempt *a, const struct sheet_record *sheets,
		 size_t n);

/*
 * The other way. Of ret what was told is set: not id, attempt_num, nor who and where
 * the runner is. No time is later than now. -EINVAL: it is no such object, or some
 * number in it cannot be; ret is released then.
 */
int guest_read(const struct rpc_value *v, uint64_t now_wall_ns, struct attempt *ret,
	       struct err *err);

/* ---- the other way: what a daemon tells a runner of processes that have ended ---- */

#define GUEST_MAX_DEATHS 10000

/* A list. */
void guest_write_deaths(struct json *j, const struct proc_record *deaths, size_t n);

/* Into the arena. -EBADMSG: it is no such list. */
int guest_read_deaths(const struct rpc_value *list, struct arena *arena, struct proc_record **ret,
		      size_t *ret_n);

#endif
