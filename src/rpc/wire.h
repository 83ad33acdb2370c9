/*
 * wire - a socket written to and read from with a deadline, line by line: the
 * blocking side of the protocol.
 */
#ifndef PROCTOR_RPC_WIRE_H
#define PROCTOR_RPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rpc/lines.h"
#include "rpc/peer.h"

#define WIRE_CHUNK_BYTES (64 * 1024)

struct wire {
	int fd;
	struct lines lines;
	const char *bytes; /* of chunk: read and not yet handed out */
	size_t n_bytes;
	char chunk[WIRE_CHUNK_BYTES];
};

/* On the boot clock; UINT64_MAX ms is no deadline. */
uint64_t wire_deadline(uint64_t timeout_ms);

/*
 * Connects, and makes sure that whoever listens is root or this user. Waits until
 * the deadline if too many others are waiting. -EPERM, -ETIMEDOUT, errno of connect().
 */
int wire_connect(const char *path, uint64_t deadline_ns, int *ret_fd, pid_t *ret_pid,
		 struct err *err);

/* All of it. -ETIMEDOUT: a part may have been written. */
int wire_write(struct wire *w, const char *bytes, size_t n, uint64_t deadline_ns);

/* The next line, valid until the next call. -ETIMEDOUT, -ECONNRESET: it has ended, -EMSGSIZE. */
int wire_read(struct wire *w, uint64_t deadline_ns, const char **ret_line, size_t *ret_len);

/* Would wire_read() have a line at once, from what has come already? */
bool wire_has_line(const struct wire *w);

#endif
