/*
 * handle - what is behind a struct store; for the files of this folder only.
 */
#ifndef PROCTOR_STORE_HANDLE_H
#define PROCTOR_STORE_HANDLE_H

#include <sqlite3.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "store/statements.h"
#include "store/store.h"

/*
 * The processes of one attempt that this handle has given a row, so that a tick
 * touches the processes table only for those that are new or have changed. Both
 * maps are keyed by process_cache_key() (tick.c).
 */
struct seen_processes {
	int64_t attempt_id;
	struct map row_ids;
	struct map fingerprints; /* of what the row says about it */
	int64_t n_ticks;	 /* of it that are not folded; -1: not known */
	int64_t n_tick_bytes;
};

/* A process of a tick that is being written. */
struct listed_process {
	int64_t id;   /* its row */
	size_t index; /* in the snapshot */
};

/* Memory for writing a tick, kept for the next. */
struct tick_room {
	struct listed_process *listed;
	size_t cap;
	struct buf bytes;
};

struct store {
	sqlite3 *db;
	char *path;				   /* as it was given: for messages */
	sqlite3_stmt *statements[STATEMENT_COUNT]; /* made when first needed */
	char journal[16];			   /* its name, as SQLite says; "": not asked yet */
	uint64_t patience_ns, waited_ns;	   /* patience.h */
	int wal_pages, wal_peak_pages; /* of the log: after the last commit, and at most */
	store_alive_fn *alive;
	void *alive_ctx;
	struct seen_processes seen;
	struct tick_room room;
};

#endif
