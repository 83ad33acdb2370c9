/*
 * look - the host and its processes as they are now, seen by this process.
 *
 * Looks twice, a fifth of a second apart: one look tells no CPU percentages.
 */
#ifndef PROCTOR_CLI_LOOK_H
#define PROCTOR_CLI_LOOK_H

#include "base/err.h"
#include "base/settings.h"
#include "model/snapshot.h"

/*
 * Fills ret (initialised). The database says which jobs run; one that cannot be read is
 * warned about, and no process belongs to a job then. A daemon that answers is asked about
 * itself alone. What costs more than a look is read
 * of the processes in scope alone.
 */
int look_now(const struct settings *ctx, enum snapshot_scope scope, struct snapshot *ret,
	     struct err *err);

#endif
