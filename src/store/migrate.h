/*
 * migrate - the layout of the database, as the ordered steps that led to it.
 */
#ifndef PROCTOR_STORE_MIGRATE_H
#define PROCTOR_STORE_MIGRATE_H

#include "base/err.h"
#include "store/sqlite.h"
#include "store/store.h"

extern const int layout_latest; /* the version that this program reads and writes */

/*
 * The version of an open database, 0 for an empty file. -EPROTO: from a newer
 * proctor. -EMEDIUMTYPE: another program's.
 */
int layout_read_version(struct store *store, int *ret, struct err *err);

/*
 * -EPROTO if a newer proctor has changed the layout since it was opened, else
 * (also when that cannot be told) 0. For who met an error that this explains.
 */
int layout_check_newer(struct store *store, struct err *err);

/* -EBADMSG if a table, view, column, index or trigger is missing: it takes some milliseconds. */
int layout_check_tables(struct store *store, struct err *err);

/* All tables, in a database that has none. SQLite's result code. */
int layout_make(sqlite3 *db);

/* A whole database, in a file or memory that has nothing yet. The same. */
int layout_make_new(sqlite3 *db);

/*
 * Writes to one that was just made what it says already, so that its log begins: that takes waiting
 * for the disk, which who writes first would have to do. -EPROTO: a newer proctor has it by now.
 */
int layout_begin_log(struct store *store, struct err *err);

/* Brings it to layout_latest in one transaction; safe if several do so at once. */
int layout_migrate(struct store *store, struct err *err);

#endif
