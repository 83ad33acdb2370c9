/*
 * look_gpus - GPUs as a daemon has read them.
 *
 * Drivers take a second to begin, may hang, and tell some things (the last XID) only to who has
 * listened. Where a daemon reads GPUs, its last reading is taken, and no driver is asked.
 */
#ifndef PROCTOR_CLI_LOOK_GPUS_H
#define PROCTOR_CLI_LOOK_GPUS_H

#include "model/snapshot.h"
#include "rpc/rpc.h"

/*
 * The daemon's last snapshot, to be freed. NULL: no daemon answers at once, it reads no GPU, or
 * its snapshot is too old.
 */
struct rpc_value *look_ask_gpus(void);

/*
 * Fills in the GPUs, and what processes use of them. Of one that the daemon does not show, as it
 * may have begun since, that stays unknown.
 */
void look_take_gpus(const struct rpc_value *told, struct snapshot *snap);

#endif
