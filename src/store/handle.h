/*
 * handle - what is behind a struct store; for the files of this folder only.
 */
#ifndef PROCTOR_STORE_HANDLE_H
#define PROCTOR_STORE_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "store/codec.h"
#include "store/damage.h"
#include "store/fold_calls.h"
#include "store/sqlite.h"
#include "store/statements.h"
#include "store/store.h"
#include "store/tick_owners.h"

struct seen_row {
	uint64_t key;	      /* process_cache_key() (seen.c) */
	uint64_t fingerprint; /* of what the row says about it, and of whose it is */
	int64_t id;
};

/*
 * The processes that this handle has given a row, so that a tick touches the
 * processes table only for those that are new or have changed.
 */
struct seen_processes {
	struct seen_row *rows;
	size_t n, cap;
	size_t next;	     /* behind the one that was found last */
	struct map index_of; /* key -> index in rows */
};

/* A process of a tick that is being written. */
struct listed_process {
	int64_t id;   /* its row */
	size_t index; /* in the snapshot */
};

/* The ticks that one recorder writes through this handle. */
struct tick_writing {
	int64_t recorder;     /* 0: none yet */
	struct tick now;      /* the one that is written */
	struct tick before;   /* the one that was written before it… */
	int64_t before_id;    /* …under this id; 0: none that the next may differ from */
	unsigned n_segment;   /* since the last whole one, with it */
	size_t segment_bytes; /* of those */
	int64_t n_pending;    /* not folded; -1: not known */
	int64_t n_fold;	      /* fold when there are so many… */
	uint64_t slice_ns;    /* …for so long in one tick, at least */
	struct listed_process *listed;
	size_t cap;
	struct call_names call_names;
	struct tick_owners owners; /* of the one that is written */
	struct buf bytes;
};

struct store {
	sqlite3 *db;
	bool is_borrowed;			   /* store_borrow() */
	struct store *teller;			   /* of a borrowed one: who is told of damage */
	char *path;				   /* as it was given: for messages */
	sqlite3_stmt *statements[STATEMENT_COUNT]; /* made when first needed */
	char journal[16];			   /* its name, as SQLite says; "": not asked yet */
	uint64_t patience_ns, waited_ns;	   /* patience.h */
	bool is_patience_shared;		   /* by all calls */
	int wal_pages, wal_peak_pages; /* of the log: after the last commit, and at most */
	int wal_tried_pages;	       /* when it was copied last, or could not be */
	bool leaves_no_log;	       /* closing copies it, however short it is */
	bool syncs_log;		       /* after each commit (query.h) */
	store_unsettled_fn *unsettled; /* who is told, and waits instead; NULL: nobody */
	void *unsettled_ctx;
	bool is_unsettled;     /* something may not be on the disk yet */
	bool leaves_unsettled; /* store_leave_unsettled() */
	uint64_t disk_wait_ns; /* store_take_disk_wait_ns() */
	int log_error;	       /* with which the disk has refused it; 0: it has not */
	uint64_t mend_boot_ns; /* not before then (journal.h) */
	store_alive_fn *alive;
	void *alive_ctx;
	uint32_t n_attempt_writes; /* through this handle, see store_read_version() */
	struct seen_processes seen;
	struct tick_writing writing;
	struct left_fold *left;	 /* what is being folded for another (fold.h); NULL: nothing */
	struct left_fold *own;	 /* what is being folded of writing.recorder; the same */
	struct damages damages;	 /* that were met */
	uint64_t aside_wall_ns;	 /* when the spool was set aside; 0: it was not, or that is told */
	struct map phase_counts; /* of attempts and their ranks (phases.c), as far as known */
};

/*
 * A store on a connection that is somebody else's, for who is called from inside
 * its statements: reads, and begins no transactions, as it is in one already.
 * Nothing of the connection is changed. To be closed, or rid of its statements,
 * before the connection is.
 */
int store_borrow(sqlite3 *db, struct store **ret, struct err *err);
void store_forget_statements(struct store *store);

#endif
