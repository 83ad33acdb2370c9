/*
 * caller - which process is on the other side of a socket, and whose it is.
 *
 * The kernel tells the pid that it had when it connected. By now that may be
 * another's: so it is believed only as far as the process is still all the caller's.
 */
#ifndef PROCTOR_DAEMON_CALLER_H
#define PROCTOR_DAEMON_CALLER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/snapshot.h"
#include "rpc/rpc.h"

/* Whether the process is all this user's: real, effective and saved. */
bool caller_is_process_of(pid_t pid, uid_t uid);

/* -EOPNOTSUPP: it cannot be seen from here, or is not (or no longer) the caller's. */
int caller_find_process(const struct rpc_peer *peer, struct proc_key *ret, struct err *err);

#endif
