#include "rpc/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

/* An empty list where the kernel does not tell: then only the peer's own group counts. */
static int read_groups(int fd, struct rpc_peer *peer)
{
	socklen_t len = 0;
	gid_t *groups;

	/* Without room the kernel says how much it takes. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
		return 0;
	groups = malloc(len);
	if (!groups)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0) {
		free(groups);
		return 0;
	}
	peer->groups = groups;
	peer->n_groups = len / sizeof(*groups);
	return 0;
}

int rpc_peer_read(int fd, struct rpc_peer *ret, struct err *err)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_set(err, -errno, "cannot tell who is on the socket: %s",
			       strerror(errno));
	*ret = (struct rpc_peer){ .uid = cred.uid, .gid = cred.gid, .pid = cred.pid };
	if (read_groups(fd, ret) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

void rpc_peer_release(struct rpc_peer *peer)
{
	free(peer->groups);
	*peer = (struct rpc_peer){ 0 };
}

bool rpc_peer_is_in(const struct rpc_peer *peer, gid_t group)
{
	if (peer->gid == group)
		return true;
	for (size_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] == group)
			return true;
	return false;
}
