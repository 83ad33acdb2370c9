/*
 * vfs_frames - what one commit adds to the log, in one write.
 *
 * SQLite writes each page of it in two, one behind the other. They are held until the last page of
 * a transaction comes, and written before that is said to be done: nobody else looks at those
 * before it. Whatever else is done with the file finds all of it there.
 */
#ifndef PROCTOR_STORE_VFS_FRAMES_H
#define PROCTOR_STORE_VFS_FRAMES_H

#include "store/sqlite.h"

/* How much room one needs behind the struct of the VFS below. */
int vfs_frames_bytes(void);

/* file is a log that is open, with the room at this distance. Without memory it stays as it is. */
void vfs_frames_hold(sqlite3_file *file, int distance);

#endif
