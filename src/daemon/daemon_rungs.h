/*
 * daemon_rungs - what a job was measured by beside its runner: the rungs of a daemon that has
 * looked at it as well.
 */
#ifndef PROCTOR_DAEMON_DAEMON_RUNGS_H
#define PROCTOR_DAEMON_DAEMON_RUNGS_H

#include <stdbool.h>

#include "model/job.h"
#include "rpc/rpc.h"

/*
 * Names them behind those of the runner, where they are others: of what is told of births, deaths
 * and OOM kills, and of samples if has_sampled. rungs: as daemon.status has them; NULL: unknown.
 */
void daemon_rungs_add(struct attempt *a, const struct rpc_value *rungs, bool has_sampled);

#endif
