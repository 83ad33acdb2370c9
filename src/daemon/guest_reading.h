/*
 * guest_reading - what the parts of guest_read() share: guest_read.c reads the job, guest_lives.c
 * its processes.
 */
#ifndef PROCTOR_DAEMON_GUEST_READING_H
#define PROCTOR_DAEMON_GUEST_READING_H

#include "base/arena.h"
#include "base/err.h"
#include "daemon/guest_members.h"
#include "model/job.h"
#include "rpc/rpc.h"

/* Where a member is read into. */
struct guest_reading {
	struct arena *arena;
	uint64_t now_wall_ns;
	struct err *err;
};

/* What is absent or null stays as it is. -EINVAL: one cannot be that. */
int guest_read_members(const struct guest_reading *r, const struct member_table *table,
		       const struct rpc_value *object, void *to);

/* What is told with the end: processes, events, rungs, and what is not known. */
int guest_read_lives(const struct guest_reading *r, const struct rpc_value *v, struct attempt *a);

#endif
