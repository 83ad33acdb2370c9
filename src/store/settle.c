#include "store/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/handle.h"
#include "store/journal.h"

/* ---- waiting here ---- */

static void note_wait(struct store *store, uint64_t began_boot_ns)
{
	uint64_t ns = clock_boot_ns() - began_boot_ns;

	if (ns > store->disk_wait_ns)
		store->disk_wait_ns = ns;
}

/* What it refuses is noted elsewhere (journal.h). */
static void sync_here(struct store *store)
{
	uint64_t began_boot_ns = clock_boot_ns();

	journal_sync_log(store);
	store->is_unsettled = false;
	note_wait(store, began_boot_ns);
}

/*
 * A log that may not be on the disk is not copied: what is there of it after a power cut would
 * stand before newer pages. SQLite waits for it as well, but keeps to itself what that says.
 */
static void copy_log(struct store *store, const int *modes, size_t n_modes)
{
	uint64_t began_boot_ns = clock_boot_ns();

	if (store->is_unsettled)
		sync_here(store);
	for (size_t i = 0; i < n_modes && !store->log_error; i++)
		sqlite3_wal_checkpoint_v2(store->db, NULL, modes[i], NULL, NULL);
	note_wait(store, began_boot_ns);
}

void settle_reuse(struct store *store)
{
	static const int modes[] = { SQLITE_CHECKPOINT_PASSIVE };

	copy_log(store, modes, ARRAY_SIZE(modes));
}

void settle_shorten(struct store *store)
{
	static const int modes[] = { SQLITE_CHECKPOINT_PASSIVE, SQLITE_CHECKPOINT_TRUNCATE };

	copy_log(store, modes, ARRAY_SIZE(modes));
}

/* ---- after each commit ---- */

/* Others who read may keep it from beginning anew: it is not tried again with each commit. */
static bool is_to_copy(struct store *store)
{
	if (store->wal_pages < store->wal_tried_pages)
		store->wal_tried_pages = 0; /* it has begun anew */
	return store->wal_pages >= store->wal_tried_pages + WAL_MAX_PAGES;
}

static void note_pages(struct store *store, int n_pages)
{
	store->wal_pages = n_pages;
	if (n_pages > store->wal_peak_pages)
		store->wal_peak_pages = n_pages;
}

/*
 * When the lock is gone: many may wait for the disk at once, and one wait is enough for all of
 * them. A log that cannot be copied yet is no failure. Whatever happens, the transaction is
 * committed: SQLite must not be told otherwise.
 */
int settle_log(void *ctx, sqlite3 *db, const char *name, int n_pages)
{
	struct store *store = ctx;

	(void)db;
	(void)name;
	note_pages(store, n_pages);
	store->is_unsettled = true;
	if (is_to_copy(store)) {
		settle_reuse(store);
		store->wal_tried_pages = store->log_error ? 0 : n_pages;
	} else if (store->syncs_log) {
		settle_now(store);
	} else if (store->unsettled) {
		store->unsettled(store->unsettled_ctx, false);
	}
	return SQLITE_OK;
}

void settle_now(struct store *store)
{
	if (store->unsettled)
		store->unsettled(store->unsettled_ctx, true);
	else if (store->is_unsettled)
		sync_here(store);
}

void settle_before_close(struct store *store)
{
	store->unsettled = NULL;
	if (store->is_unsettled && !store->log_error && !store->leaves_unsettled)
		sync_here(store);
}

/* ---- waiting elsewhere ---- */

int store_open_log(struct store *store)
{
	const char *journal = store_journal(store);
	const char *path;
	int fd;

	if (!journal || strcmp(journal, "wal") != 0)
		return -ENOENT;
	path = sqlite3_filename_wal(sqlite3_db_filename(store->db, "main"));
	fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY) : -1;
	return fd < 0 ? -errno : fd;
}

void store_settle_elsewhere(struct store *store, store_unsettled_fn *fn, void *ctx)
{
	store->unsettled = fn;
	store->unsettled_ctx = ctx;
}

void store_settle_here(struct store *store)
{
	store->unsettled = NULL;
}

int store_settle(struct store *store)
{
	if (store->is_unsettled)
		sync_here(store);
	return -store->log_error;
}

void store_told_settled(struct store *store, int error, bool is_all)
{
	if (error)
		store->log_error = error;
	else if (is_all)
		store->is_unsettled = false;
}

void store_leave_unsettled(struct store *store)
{
	store->leaves_unsettled = true;
}

uint64_t store_take_disk_wait_ns(struct store *store)
{
	uint64_t ns = store->disk_wait_ns;

	store->disk_wait_ns = 0;
	return ns;
}
