/*
 * vfs - SQLite's own way to the file system, less one wait.
 *
 * SQLite syncs the folder at the first commit of every connection, because the
 * log might just have been made. Where there is something in it, whoever wrote
 * that has seen to it; an empty one may be a reader's, who syncs nothing.
 * "proctor run -- true" is a sixth shorter without it.
 */
#ifndef PROCTOR_STORE_VFS_H
#define PROCTOR_STORE_VFS_H

/* For sqlite3_open_v2(). NULL, which is SQLite's own, if it cannot be had. */
const char *vfs_name(void);

#endif
