/*
 * process_handle - whose a process is, which one is on the other side of a socket, and signals that
 * never reach another that has its pid by now.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/snapshot.h"
#include "rpc/rpc.h"

/* Whether the process is all this user's: real, effective and saved. */
bool caller_is_process_of(pid_t pid, uid_t uid);

/*
 * The kernel has the pid that the peer had when it connected. By now that may be another's: so it
 * is believed only as far as the process is still all the caller's. -EOPNOTSUPP: it cannot be seen
 * from here, or is not (or no longer) the caller's.
 */
int caller_find_process(const struct rpc_peer *peer, struct proc_key *ret, struct err *err);

/* A pidfd, which the caller closes. -ESRCH: it is gone, and its pid may be another's. -EMFILE… */
int open_process(const struct proc_key *key);

/* With a value, as sigqueue() has it. -ESRCH: it is gone. -EPERM… */
int signal_process(const struct proc_key *key, int signal, int value);
