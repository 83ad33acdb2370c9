/*
 * mount - what /proc/self/mountinfo tells of the mount that a file is on.
 */
#ifndef PROCTOR_STORE_MOUNT_H
#define PROCTOR_STORE_MOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mount_found {
	dev_t device;
	bool is_read_only; /* the file system itself, for all: not only this mount of it */
};

/* In its text. -ENOENT: there is no such mount. -EINVAL, -ERANGE: its line makes no sense. */
int mount_parse(const char *text, uint64_t mount_id, struct mount_found *ret);

/* -ENODATA: this kernel does not tell which mount it is. */
int mount_read(const char *path, struct mount_found *ret);

#endif
