/*
 * look - the host and its processes as they are now, seen by this process.
 *
 * Looks twice, a fifth of a second apart: one look tells no CPU percentages.
 */
#ifndef PROCTOR_CLI_LOOK_H
#define PROCTOR_CLI_LOOK_H

#include "base/err.h"
#include "base/config.h"
#include "model/snapshot.h"

/*
 * Fills ret (initialised). The database says which jobs run; one that cannot be read is
 * warned about, and no process belongs to a job then. A daemon that answers is asked about
 * itself alone. What costs more than a look is read
 * of the processes in scope alone.
 */
int look_now(const struct settings *ctx, enum snapshot_scope scope, struct snapshot *ret,
	     struct err *err);

struct rpc_value;

/*
 * Fills in the GPUs as a daemon has read them, and what processes use of them: drivers take a
 * second to begin, may hang, and tell some things (the last XID) only to who has listened. Of a
 * process that the daemon does not show, as it may have begun since, that stays unknown.
 */
void look_take_gpus(const struct rpc_value *told, struct snapshot *snap);

#endif
