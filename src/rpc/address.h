/*
 * address - a path as the address of a Unix socket.
 */
#ifndef PROCTOR_RPC_ADDRESS_H
#define PROCTOR_RPC_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

struct address {
	struct sockaddr_un un;
	socklen_t len;
};

/* -ENAMETOOLONG: the kernel has room for 107 bytes. */
int address_of_path(const char *path, struct address *ret, struct err *err);

/* A new stream socket that does not block, connected to it. -errno of connect(): -ECONNREFUSED
 * when nobody listens, -EAGAIN when too many are waiting to be accepted. */
int address_connect(const struct address *address);

#endif
