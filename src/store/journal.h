/*
 * journal - how a transaction is kept until it is in the database: in a
 * write-ahead log, or in a rollback journal where a log cannot be shared.
 */
#ifndef PROCTOR_STORE_JOURNAL_H
#define PROCTOR_STORE_JOURNAL_H

#include "base/err.h"
#include "store/sqlite.h"
#include "store/store.h"

/*
 * Brings a database that is open for writing to the right one for its file
 * system. The file remembers it, so this mostly finds it done. Not inside a
 * transaction. -EBUSY: others use the file, and would not notice the change.
 */
int journal_set_up(struct store *store, struct err *err);

/*
 * Waits until all that is in the log, whoever wrote it, is on the disk. SQLite's result code. Not
 * inside a transaction: nobody else is kept waiting meanwhile.
 */
int journal_sync_log(sqlite3 *db);

#endif
