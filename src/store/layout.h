/*
 * layout - the tables of the database, and the check that a file has them.
 *
 * There is one layout. A file with another number is refused as it is: it is neither changed nor
 * read.
 */
#ifndef PROCTOR_STORE_LAYOUT_H
#define PROCTOR_STORE_LAYOUT_H

#include <stdbool.h>

#include "base/err.h"
#include "store/sqlite.h"
#include "store/store.h"

/* In PRAGMA user_version. It changes with any table, and with any packed format (codec.h). */
#define LAYOUT 11

/*
 * Whether an open database has no tables yet, which is no failure. -EPROTO: it has another layout.
 * -EMEDIUMTYPE: it is another program's.
 */
int layout_check(struct store *store, bool *ret_is_empty, struct err *err);

/*
 * -EBADMSG if a table, view, column, index or trigger is missing; more is no harm. It takes some
 * milliseconds.
 */
int layout_check_tables(struct store *store, struct err *err);

/* A whole database, in memory that has nothing yet. SQLite's result code. */
int layout_make(sqlite3 *db);

/* The same in a file that has no tables, in one transaction; safe if several do so at once. */
int layout_create(struct store *store, struct err *err);

/*
 * Writes to a file that was just made the number it has already, so that its log begins: that
 * takes waiting for the disk, which the first writer would have to do.
 */
int layout_begin_log(struct store *store, struct err *err);

#endif
