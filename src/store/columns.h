/*
 * columns - how a field of a struct (model/columns.h) is kept in a column of SQLite, exactly.
 *
 * Unknown is NULL. SQLite's integers are signed, so values from 2^63 up are kept as the negative
 * number with the same bits: nothing is lost, and FD_LIMIT_UNLIMITED is -2. Outcomes, evidence and
 * types of events are kept by name.
 */
#ifndef PROCTOR_STORE_COLUMNS_H
#define PROCTOR_STORE_COLUMNS_H

#include "base/arena.h"
#include "model/columns.h"
#include "store/sqlite.h"

/* Returns SQLite's result code. What the field points at lives until the statement has run. */
int column_bind(const struct column *c, sqlite3_stmt *stmt, int index, const void *from);

/*
 * -EBADMSG: no such value can have been written. -ENOMEM. Strings are copied into the arena;
 * without one they are SQLite's and live until the next step.
 */
int column_read(const struct column *c, sqlite3_stmt *stmt, int index, void *to,
		struct arena *arena);

#endif
