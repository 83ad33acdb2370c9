/*
 * peer - who is on the other side of a socket, by the kernel's word.
 */
#ifndef PROCTOR_RPC_PEER_H
#define PROCTOR_RPC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * As it was when the peer connected (or, for the listening side, when it began to
 * listen): a process that changes its user later stays who it was.
 */
struct rpc_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;     /* 0: in a pid namespace that cannot be seen from here */
	gid_t *groups; /* the supplementary ones; none before Linux 4.13 */
	size_t n_groups;
};

int rpc_peer_read(int fd, struct rpc_peer *ret, struct err *err);
void rpc_peer_release(struct rpc_peer *peer);

/* Whether it has this group, as its own or as a supplementary one. */
bool rpc_peer_is_in(const struct rpc_peer *peer, gid_t group);

#endif
