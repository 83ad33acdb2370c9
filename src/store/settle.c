#include "store/settle.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/handle.h"
#include "store/journal.h"
#include "store/query.h"
#include "store/retain.h"

/* ---- by who writes ---- */

static void sync_here(struct store *store)
{
	journal_sync_log(store);
	store->is_unsettled = false;
}

static void leave_to_other(struct store *store, bool is_to_shorten)
{
	const struct store_log_work work = { store->wal_pages, is_to_shorten };

	store->is_unsettled |= store->syncs_log;
	store->unsettled(store->unsettled_ctx, &work);
}

static void copy_here(struct store *store)
{
	static const int modes[] = { SQLITE_CHECKPOINT_PASSIVE, SQLITE_CHECKPOINT_TRUNCATE };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		sqlite3_wal_checkpoint_v2(store->db, NULL, modes[i], NULL, NULL);
}

/*
 * After each commit, when its lock is gone: many may wait for the disk at once, and one wait is
 * enough for all of them. A log that cannot be copied yet is no failure, and one that may not be on
 * the disk is not copied: what is there of it after a power cut would stand before newer pages.
 * Whatever happens, the transaction is committed: SQLite must not be told otherwise.
 */
int settle_log(void *ctx, sqlite3 *db, const char *name, int n_pages)
{
	struct store *store = ctx;

	store->wal_pages = n_pages;
	if (n_pages > store->wal_peak_pages)
		store->wal_peak_pages = n_pages;
	if (store->unsettled) {
		if (store->syncs_log || n_pages >= WAL_MAX_PAGES)
			leave_to_other(store, false);
		return SQLITE_OK;
	}
	if (store->syncs_log)
		sync_here(store);
	if (n_pages >= WAL_MAX_PAGES && !store->log_error)
		sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

void settle_now(struct store *store)
{
	if (store->unsettled)
		leave_to_other(store, false);
	else
		sync_here(store);
}

void settle_shorten(struct store *store)
{
	if (store->unsettled)
		leave_to_other(store, true);
	else
		copy_here(store);
}

void settle_before_close(struct store *store)
{
	store->unsettled = NULL;
	if (store->is_unsettled && !store->log_error)
		sync_here(store);
}

void store_settle_elsewhere(struct store *store, store_unsettled_fn *fn, void *ctx)
{
	if (strcmp(store->journal, "wal") != 0) /* each commit has to wait for the disk there */
		return;
	store->unsettled = fn;
	store->unsettled_ctx = ctx;
}

void store_settle_here(struct store *store)
{
	store->unsettled = NULL;
}

void store_told_settled(struct store *store, int error, bool is_all)
{
	store->log_error = error;
	if (is_all && !error)
		store->is_unsettled = false;
}

/* ---- by the other ---- */

static void mend(struct store *store)
{
	CLEANUP(txn_abort) struct store *txn = NULL;

	txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, NULL);
}

/*
 * Who writes first after all was copied begins the log anew, and waits for the disk with the lock
 * in hand. That is to be us: who else would have to wait is about to look at processes.
 */
static void begin_log(struct store *store)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, NULL);

	if (r == 0)
		r = meta_write(store, META_LOG_BEGUN, (int64_t)clock_wall_ns(), NULL);
	if (r == 0)
		txn_commit(&txn, NULL);
}

static void copy_log(struct store *store)
{
	int n_pages = 0, n_copied = 0;

	if (sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &n_pages,
				      &n_copied) == SQLITE_OK &&
	    n_pages >= WAL_MAX_PAGES && n_copied == n_pages)
		begin_log(store);
}

int store_settle(struct store *store, const struct store_log_work *work, struct err *err)
{
	if (store->log_error)
		mend(store);
	else
		journal_sync_log(store);
	if (store->log_error)
		return store_check_disk(store, err);
	if (work->is_to_shorten)
		copy_here(store);
	else if (work->n_pages >= WAL_MAX_PAGES)
		copy_log(store);
	return store_check_disk(store, err);
}
