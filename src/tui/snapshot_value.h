/*
 * snapshot_value - a snapshot that came as JSON, as it was before.
 */
#ifndef PROCTOR_TUI_SNAPSHOT_VALUE_H
#define PROCTOR_TUI_SNAPSHOT_VALUE_H

#include "model/snapshot.h"
#include "rpc/rpc.h"

/*
 * What is missing, or of another type, is unknown. Bytes were told in MB and come back
 * to the byte. -EINVAL: it is no snapshot. -ENOMEM.
 */
int snapshot_from_value(const struct rpc_value *value, struct snapshot *ret);

#endif
