/*
 * handle - what is behind a struct store; for the files of this folder only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "log/log.h"
#include "model/tick_record.h"
#include "model/tick_snapshot.h"
#include "store/codec/codec.h"
#include "store/damage.h"
#include "store/query.h"
#include "store/sqlite.h"
#include "store/store.h"

/* The ticks that one recorder writes through this handle. */
struct tick_writing {
	int64_t recorder;     /* 0: none yet */
	struct tick now;      /* the one that is written */
	struct tick before;   /* the one that was written before it… */
	int64_t before_id;    /* …under this id; 0: none that the next may differ from */
	unsigned n_segment;   /* since the last whole one, with it */
	size_t segment_bytes; /* of those */
	int64_t n_pending;    /* not folded; -1: not known */
	struct listed_process *listed;
	size_t cap;
	struct call_names call_names;
	struct buf bytes;
};

/* What is needed to decode a log from this offset on. */
struct log_decoder {
	struct log_id id;
	uint64_t offset;
	struct tick_decoder *ticks; /* NULL: there is none */
};
#define LOG_DECODERS 128

struct store {
	sqlite3 *db;
	bool is_borrowed;     /* store_borrow() */
	bool is_batch;	      /* many calls within one transaction (ingest.c) */
	bool is_copy;	      /* of a database, which is left as it is */
	struct store *teller; /* of a borrowed one: who is told of damage */
	char *path;	      /* as it was given: for messages */
	sqlite3_stmt *statements[STATEMENT_COUNT]; /* made when first needed */
	char journal[16];			   /* its name, as SQLite says; "": not asked yet */
	uint64_t lock_timeout_ns, waited_ns;	   /* db/db.h */
	bool is_lock_timeout_shared;		   /* by all calls */
	int wal_pages, wal_peak_pages; /* of the log: after the last commit, and at most */
	int wal_tried_pages;	       /* when it was copied last, or could not be */
	bool leaves_no_log;	       /* closing copies it, however short it is */
	bool syncs_log;		       /* after each commit (query.h) */
	bool is_unsettled;	       /* something may not be on the disk yet */
	bool leaves_disk, wants_sweep; /* store_leave_disk() */
	uint64_t followed_wall_ns;     /* what logs had by then a daemon has read */
	uint64_t disk_wait_ns;	       /* the longest for the disk */
	int log_error;		       /* with which the disk has refused it; 0: it has not */
	uint64_t mend_boot_ns;	       /* not before then (db/db.h) */
	store_alive_fn *alive;
	void *alive_ctx;
	struct process_index process_rows; /* a tick touches only those that are new or have
					      changed */
	struct tick_writing writing;
	struct damages damages;			   /* that were met */
	struct log_decoder decoders[LOG_DECODERS]; /* of logs that this handle has ingested last */
	size_t next_decoder;			   /* which gives way to the next */
	int ingest_error;	 /* of store_open(): why not all logs are ingested; 0: they are */
	struct map phase_counts; /* of attempts and their ranks (phases.c), as far as known */
};

/*
 * A store on a connection that is somebody else's, for who is called from inside
 * its statements: reads, and begins no transactions, as it is in one already.
 * Nothing of the connection is changed. To be closed, or rid of its statements,
 * before the connection is.
 */
int store_borrow(sqlite3 *db, struct store **ret, struct err *err);

/* A copy of what the handle reads, which is gone when it is closed. No log is ingested. */
int store_open_copy(struct store *of, struct store **ret, struct err *err);

void store_forget_statements(struct store *store);
