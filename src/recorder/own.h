/*
 * own - where this process is, as attempts are described: a pid says something only there.
 */
#ifndef PROCTOR_RECORDER_OWN_H
#define PROCTOR_RECORDER_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* The name of the host. NULL: it cannot be told, or no memory. */
const char *own_host(struct arena *arena);
bool own_host_is(const char *host); /* NULL: it is not */

/* The inode of the pid namespace. U64_UNKNOWN: it cannot be told. */
uint64_t own_pid_ns(void);

#endif
