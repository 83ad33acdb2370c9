#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "store/sqlite.h"
#include "store/store.h"

/*
 * layout - the tables of the database, and the check that a file has them.
 *
 * There is one layout. A file with another number is refused as it is: it is neither changed nor
 * read.
 */

/* In PRAGMA user_version. It changes with any table, and with any packed format (codec.h). */
#define LAYOUT 20

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

/* Makes the tables where there are none, in one transaction; safe if several do so at once. */
int layout_create(struct store *store, struct err *err);

/*
 * lock_wait - waiting for another writer, no longer than the lock timeout.
 *
 * It is for a whole call: what one lock has used up is not there for the next.
 */

#define LOCK_TIMEOUT_DEFAULT_MS 5000

void lock_wait_renew(struct store *store); /* a call begins */

/* Sleeps for about a millisecond; false without doing so when the timeout is over. */
bool lock_wait(struct store *store);

/*
 * journal - how a transaction is kept until it is in the database: in a
 * write-ahead log, or in a rollback journal where a log cannot be shared.
 */

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
 * A log that the disk has refused is written once more, and waited for: the kernel tells of pages
 * that it could not write only once, and takes them for written then. By who has the lock to write.
 * Where that fails too it is tried again later.
 */
void journal_mend_log(struct store *store);

/*
 * settle - what was committed comes to the disk: before the call returns, or by another thread
 * (store_leave_disk()). The log is copied into the database here in either case.
 */

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

/*
 * The log is copied, so that it begins anew in the room that it has; if others need it, later.
 * shortens: it is also cut, and with it the file gets shorter. The copy is made while others can
 * write; only for what came meanwhile they wait.
 */
void settle_copy(struct store *store, bool shortens);

/* Waits for the disk here. 0, or what it has refused, as store_check_disk() has it. */
int store_settle(struct store *store);

/* The store is about to be closed. */
void settle_before_close(struct store *store);

/*
 * wal - whether a write-ahead log can be read to where it was written.
 *
 * SQLite takes the first frame that is not as it was written for the end of the
 * log. Transactions that come behind it are missing without a word. After a power cut they
 * are those that the disk had not taken yet, and that may be all since the last wait for it that
 * was over began; else the log is damaged. Nobody can tell one from the other, so how many they
 * are is said. Damaged for certain is only a log whose head makes no sense.
 */

#define WAL_HEAD_BYTES 32
#define WAL_FRAME_HEAD_BYTES 24
#define WAL_MAX_PAGE_BYTES 65536

/* What was seen of a log so far. */
struct wal_scan {
	uint32_t page_bytes;
	uint32_t salts[2];  /* in each frame of this log; others are left of an older one */
	uint32_t sums[2];   /* of the frame before: each is summed up from there */
	bool is_big_endian; /* how words are summed up */
	uint64_t n_frames;
	uint64_t bad_frame; /* the first that is not as it was written, from 1; 0: none */
	unsigned n_commits; /* behind that, in frames that hang together up to this one */
	unsigned n_behind;  /* the most of those */
	bool has_commit;    /* anywhere, readable or not */
};

/* -EBADMSG: this is not how a log begins. */
int wal_scan_begin(struct wal_scan *s, const uint8_t head[WAL_HEAD_BYTES]);

/* frame has WAL_FRAME_HEAD_BYTES and then page_bytes. */
void wal_scan_frame(struct wal_scan *s, const uint8_t *frame);

struct wal_found {
	bool has_commit;   /* a transaction, readable or not; what cannot be told counts as one */
	unsigned n_behind; /* transactions that are not read, and may have been complete */
};

/*
 * The log beside a database: 0, or -EBADMSG if its head is damaged. A log that is not there is
 * empty. Others may write to it meanwhile. *ret is set in any case.
 */
int wal_check(const char *db_path, struct wal_found *ret);

/*
 * mount - what /proc/self/mountinfo tells of the mount that a file is on.
 */

/*
 * Whether the file system itself is read-only, for all: not only this mount of it. In its text.
 * -ENOENT: there is no such mount.
 */
int mount_parse(const char *text, uint64_t mount_id, bool *ret_is_read_only);

/* -ENODATA: this kernel does not tell which mount it is. */
int mount_read(const char *path, bool *ret_is_read_only);

/*
 * lock_owner - which process has a database that another waits for.
 *
 * It is asked through the files that SQLite has open in this process, and none is opened for it:
 * when a process closes any descriptor of a file, all POSIX locks that it has there are gone.
 */

/*
 * The bytes that SQLite locks. Of the database: pending, reserved, and the range
 * that readers share; a database with a write-ahead log is locked for reading there
 * by all who have it open. Of its -shm: one byte for each kind of lock on the log.
 */
#define LOCK_PENDING 0x40000000
#define LOCK_SHARED (LOCK_PENDING + 2)
#define LOCK_LAST (LOCK_PENDING + 511)
#define LOCK_LOG_WRITER 120
#define LOCK_LOG_RECOVERY 122
#define LOCK_LOG_SETUP 128

#define LOCK_OWNER_BYTES 96

/* "process 4711 (sqlite3)", without the name if that cannot be read; "another process" for 0. */
void lock_owner_describe(pid_t pid, char ret[LOCK_OWNER_BYTES]);

/*
 * The process with a lock that keeps this one waiting, which has the database open. 0: none, or one
 * without a pid here (an OFD lock, another pid namespace).
 */
pid_t lock_owner_find(const char *db_path);

/* Another process that has the file open, locked or not; 0: none that can be seen. */
pid_t lock_owner_find_opener(const struct stat *file);
