/*
 * journal - how a transaction is kept until it is in the database: in a
 * write-ahead log, or in a rollback journal where a log cannot be shared.
 */
#ifndef PROCTOR_STORE_JOURNAL_H
#define PROCTOR_STORE_JOURNAL_H

#include <stdbool.h>

#include "base/err.h"
#include "store/store.h"

/* Whether several hosts may have what is at this path: a log is not for them then. */
bool journal_is_shared(const char *path);

/*
 * Whether all of a database is in its file, with nothing beside it that would have to be read
 * first, on a file system that nobody can write: not through another mount, nor from another host.
 * In doubt it is not so.
 */
bool journal_cannot_change(const char *path);

/*
 * Brings a database that is open for writing to the right one for its file
 * system. The file remembers it, so this mostly finds it done. Not inside a
 * transaction. -EBUSY: others use the file, and would not notice the change.
 */
int journal_set_up(struct store *store, struct err *err);

/*
 * Waits until all that is in the log, whoever wrote it, is on the disk. Not inside a transaction:
 * nobody else is kept waiting meanwhile. What is in the log is committed, so a failure is no
 * failure of who wrote it: it is noted, for store_check_disk() and journal_mend_log().
 */
void journal_sync_log(struct store *store);

/*
 * A log that the disk has refused is written once more, and waited for: the kernel tells of pages
 * that it could not write only once, and takes them for written then. By who has the lock to write.
 * Where that fails too it is tried again later.
 */
void journal_mend_log(struct store *store);

#endif
