/*
 * spool_open - the spool's files by their names: opened, made, locked. For spool_file.c only.
 */
#ifndef PROCTOR_STORE_SPOOL_OPEN_H
#define PROCTOR_STORE_SPOOL_OPEN_H

#include <stdint.h>

#include "store/spool_file.h"

char *spool_name(const char *db_path); /* to be freed; NULL without memory */

/* flags are those of open(). -EPERM: it is somebody else's. -EBADMSG: not a file. */
int spool_open(const char *db_path, int flags, int *ret_fd);

/* The same for the one that has the name when the lock is there. -EBUSY: another has it still. */
int spool_open_locked(const char *db_path, int flags, uint64_t patience_ns, int *ret_fd);

/* To write. One that was just made is empty, and the database's owner's. */
int spool_open_or_make(const char *db_path, uint64_t patience_ns, int *ret_fd);

/* So that the name is on the disk as well; who may not read the folder cannot ask for it. */
int spool_sync_folder(const char *db_path);

#endif
