/*
 * settle - what was committed comes to the disk: before the call returns, or by another thread
 * (store_settle_elsewhere()). The log is copied into the database here in either case.
 */
#ifndef PROCTOR_STORE_SETTLE_H
#define PROCTOR_STORE_SETTLE_H

#include "store/sqlite.h"
#include "store/store.h"

/*
 * The log is copied into the database when it has this many pages (1 MiB), and
 * at the end of a run that leaves this many. Who opens the database first has to
 * read what is left: 128 pages take about 100 µs. A new database takes 66.
 */
#define WAL_MAX_PAGES 256
#define WAL_LEFT_PAGES 128

/* For sqlite3_wal_hook(); ctx is the store. */
int settle_log(void *ctx, sqlite3 *db, const char *name, int n_pages);

/* What was committed while syncs_log was off; not inside a transaction. */
void settle_now(struct store *store);

/* The log is copied, so that it begins anew in the room that it has; if others need it, later. */
void settle_reuse(struct store *store);

/*
 * The log is copied and cut, and with it the file gets shorter. That is done while others can
 * write; only for what came meanwhile they wait. If others need the log, it is done later.
 */
void settle_shorten(struct store *store);

/* The store is about to be closed. */
void settle_before_close(struct store *store);

#endif
