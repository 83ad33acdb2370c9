/*
 * listen - a socket at a path, made with care.
 *
 * One listener per path: a file beside it (path.lock) is locked while it
 * listens, so that of two that start at once one wins. A socket that nobody
 * listens on any more is replaced, one that somebody does is left alone. The
 * folder must belong to us or to root, and others may not write into it (unless
 * its sticky bit keeps them from ours); a symbolic link at the path is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/err.h"

/* A path as the address of a Unix socket. */
struct address {
	struct sockaddr_un un;
	socklen_t len;
};

/* -ENAMETOOLONG: the kernel has room for 107 bytes. */
int address_of_path(const char *path, struct address *ret, struct err *err);

/* A new stream socket that does not block, connected to it. -errno of connect(): -ECONNREFUSED
 * without a listener, -EAGAIN when too many are waiting to be accepted. */
int address_connect(const struct address *address);

struct listener {
	int fd;	     /* does not block; -1: none */
	int lock_fd; /* -1: the socket was handed to us */
	char *path;
	dev_t dev;
	ino_t ino;
};

#define LISTENER_INIT              \
	{                          \
		-1, -1, NULL, 0, 0 \
	}

/*
 * mode is the socket's, whatever the umask. -EADDRINUSE: another one listens
 * there; err names its pid. -ELOOP: a symbolic link. -EEXIST: something else than
 * a socket. -EPERM: the folder or what is in it is not safe. -ENAMETOOLONG.
 */
int listener_open(const char *path, mode_t mode, struct listener *ret, struct err *err);

/* Takes over a socket that listens already. -EINVAL: it is none, and stays the caller's. */
int listener_adopt(int fd, struct listener *ret, struct err *err);

/* Whether clients still find it: nobody has removed it, its folder or its lock. */
bool listener_is_there(const struct listener *l);

/* Removes the socket if it is still the one that was made. */
void listener_close(struct listener *l);

/*
 * ---- who is on the other side of a socket, by the kernel's word ----
 */

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
int rpc_peer_copy(const struct rpc_peer *peer, struct rpc_peer *ret); /* -ENOMEM */
void rpc_peer_release(struct rpc_peer *peer);

/* Whether it has this group, as its own or as a supplementary one. */
bool rpc_peer_is_in(const struct rpc_peer *peer, gid_t group);
