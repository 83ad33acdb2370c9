#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/handle.h"

/* Of different lengths, so that several who wait do not come back all at once. */
#define PAUSE_MIN_NS UINT64_C(500000)
#define PAUSE_SPREAD_NS UINT64_C(1000000)

void lock_wait_renew(struct store *store)
{
	if (!store->is_lock_timeout_shared)
		store->waited_ns = 0;
}

bool lock_wait(struct store *store)
{
	uint64_t now_ns = clock_boot_ns();
	uint64_t pause_ns = PAUSE_MIN_NS + now_ns % PAUSE_SPREAD_NS;
	struct timespec pause = { 0 };

	if (store->waited_ns >= store->lock_timeout_ns)
		return false;
	if (pause_ns > store->lock_timeout_ns - store->waited_ns)
		pause_ns = store->lock_timeout_ns - store->waited_ns;
	pause.tv_nsec = (long)pause_ns;
	nanosleep(&pause, NULL);
	store->waited_ns += clock_boot_ns() - now_ns;
	return true;
}

void store_set_lock_timeout(struct store *store, unsigned ms)
{
	store->lock_timeout_ns = ms * UINT64_C(1000000);
	store->is_lock_timeout_shared = false;
}

void store_share_lock_timeout(struct store *store, unsigned ms)
{
	store_set_lock_timeout(store, ms);
	store->is_lock_timeout_shared = true;
	store->waited_ns = 0;
}

#define MAGIC 0x377f0682u /* the last bit says how words are summed up */
#define VERSION 3007000u

/* Where the fields of the head and of a frame are. */
enum {
	HEAD_VERSION = 4,
	HEAD_PAGE_BYTES = 8,
	HEAD_SALTS = 16,
	HEAD_SUMS = 24,
	FRAME_COMMIT = 4, /* 0 if it is not the last of a transaction */
	FRAME_SALTS = 8,
	FRAME_SUMS = 16,
};

static uint32_t read_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static bool has_pair(const uint8_t *p, const uint32_t pair[2])
{
	return read_u32(p) == pair[0] && read_u32(p + 4) == pair[1];
}

static void read_pair(const uint8_t *p, uint32_t ret[2])
{
	ret[0] = read_u32(p);
	ret[1] = read_u32(p + 4);
}

/* n is a multiple of 8. */
static void sum_up(bool is_big_endian, const uint8_t *p, size_t n, uint32_t sums[2])
{
	for (size_t i = 0; i < n; i += 8) {
		uint32_t words[2];

		read_pair(p + i, words);
		if (!is_big_endian) {
			words[0] = __builtin_bswap32(words[0]);
			words[1] = __builtin_bswap32(words[1]);
		}
		sums[0] += words[0] + sums[1];
		sums[1] += words[1] + sums[0];
	}
}

int wal_scan_begin(struct wal_scan *s, const uint8_t head[WAL_HEAD_BYTES])
{
	uint32_t magic = read_u32(head);
	uint32_t page_bytes = read_u32(head + HEAD_PAGE_BYTES);

	*s = (struct wal_scan){ .page_bytes = page_bytes, .is_big_endian = magic & 1 };
	if ((magic & ~1u) != MAGIC || read_u32(head + HEAD_VERSION) != VERSION)
		return -EBADMSG;
	if (page_bytes < 512 || page_bytes > WAL_MAX_PAGE_BYTES || (page_bytes & (page_bytes - 1)))
		return -EBADMSG;
	sum_up(s->is_big_endian, head, HEAD_SUMS, s->sums);
	if (!has_pair(head + HEAD_SUMS, s->sums))
		return -EBADMSG;
	read_pair(head + HEAD_SALTS, s->salts);
	return 0;
}

/* A frame that follows on the one before as it was written. */
static bool is_next(const struct wal_scan *s, const uint8_t *frame)
{
	uint32_t sums[2] = { s->sums[0], s->sums[1] };

	if (!has_pair(frame + FRAME_SALTS, s->salts))
		return false;
	sum_up(s->is_big_endian, frame, FRAME_SALTS, sums);
	sum_up(s->is_big_endian, frame + WAL_FRAME_HEAD_BYTES, s->page_bytes, sums);
	return has_pair(frame + FRAME_SUMS, sums);
}

/*
 * Commits behind the bad frame count as long as the frames hang together: what an
 * earlier crash left there was not written after what stands before it now.
 */
void wal_scan_frame(struct wal_scan *s, const uint8_t *frame)
{
	bool is_ours = has_pair(frame + FRAME_SALTS, s->salts);
	bool is_commit = is_ours && read_u32(frame + FRAME_COMMIT) != 0;
	bool is_good = is_next(s, frame);

	s->n_frames++;
	s->has_commit = s->has_commit || is_commit;
	if (!is_good && s->bad_frame == 0)
		s->bad_frame = s->n_frames;
	if (!is_good)
		s->n_commits = 0;
	if (is_commit && s->bad_frame != 0)
		s->n_commits++;
	if (s->n_commits > s->n_behind)
		s->n_behind = s->n_commits;
	read_pair(frame + FRAME_SUMS, s->sums);
}

/* ---- the file ---- */

/* False at the end of the file, and where it cannot be read. */
static bool read_whole(int fd, uint8_t *bytes, size_t n, off_t offset)
{
	return pread(fd, bytes, n, offset) == (ssize_t)n;
}

/* -EBADMSG: its head is damaged, and nothing more can be told. */
static int scan_file(const char *path, struct wal_scan *ret)
{
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	CLEANUP(free_ptr) uint8_t *frame = NULL;
	uint8_t head[WAL_HEAD_BYTES];
	off_t offset = WAL_HEAD_BYTES;
	size_t n;

	*ret = (struct wal_scan){ 0 };
	if (fd < 0 || !read_whole(fd, head, sizeof(head), 0))
		return 0;
	if (wal_scan_begin(ret, head) < 0)
		return -EBADMSG;
	n = WAL_FRAME_HEAD_BYTES + ret->page_bytes;
	frame = malloc(n);
	if (!frame)
		return -ENOMEM;
	for (; read_whole(fd, frame, n, offset); offset += (off_t)n)
		wal_scan_frame(ret, frame);
	return 0;
}

/* A single one is the end of a transaction that was not complete, as whoever is killed leaves it.
 */
static unsigned count_behind(const struct wal_scan *s)
{
	return s->n_behind > 1 ? s->n_behind : 0;
}

int wal_check(const char *db_path, struct wal_found *ret)
{
	/* The log lies beside the file, not beside a link to it. */
	CLEANUP(free_ptr) char *real = realpath(db_path, NULL);
	CLEANUP(free_ptr) char *path = NULL;
	struct wal_scan first, again;
	int r;

	*ret = (struct wal_found){ 0 };
	if (!real)
		return errno == ENOENT ? 0 : -errno;
	if (asprintf(&path, "%s-wal", real) < 0)
		return -ENOMEM;
	r = scan_file(path, &first);
	if (r < 0 || count_behind(&first) > 0)
		r = scan_file(path, &again);
	else
		again = first;
	ret->has_commit = r < 0 || again.has_commit;
	/* What is just being written looks bad only once. */
	if (r < 0 || first.bad_frame != again.bad_frame ||
	    memcmp(first.salts, again.salts, sizeof(first.salts)) != 0)
		return r;
	ret->n_behind = count_behind(&again);
	return 0;
}

/*
 * File systems that several hosts may have mounted at once, or whose server is
 * another host: f_type of statfs(2). Who uses a write-ahead log finds its way
 * by memory that all users share (-shm). Two hosts share none, and each would
 * overwrite what the other wrote. A rollback journal needs no more than locks.
 * FUSE may be local or not: nobody can tell, so it counts as not.
 */
static const unsigned long shared_file_systems[] = {
	0x6969,	    /* NFS */
	0xff534d42, /* CIFS */
	0xfe534d42, /* SMB 2 and later */
	0x517b,	    /* SMB 1 */
	0x01021997, /* 9p */
	0x65735546, /* FUSE: sshfs, GlusterFS, virtiofs, … */
	0x0bd00bd0, /* Lustre */
	0x00c36400, /* Ceph */
	0x47504653, /* GPFS */
	0x19830326, /* BeeGFS */
	0x20030528, /* OrangeFS */
	0x5346414f, /* AFS */
	0x6b414653, /* AFS, the kernel's own */
	0x73757245, /* Coda */
	0x01161970, /* GFS2 */
	0x7461636f, /* OCFS2 */
	0xaad7aaea, /* PanFS */
	0x564c,	    /* NCP */
	0x786f4256, /* VirtualBox's shared folders */
	0xbacbacbc, /* VMware's */
};

/* Whether several hosts may have what is at this path: a log is not for them then. */
static bool journal_is_shared(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return true; /* the safe side: it only costs time */
	for (size_t i = 0; i < ARRAY_SIZE(shared_file_systems); i++)
		if ((unsigned long)fs.f_type == shared_file_systems[i])
			return true;
	return false;
}

static bool has_beside(const char *path, const char *suffix)
{
	CLEANUP(free_ptr) char *name = NULL;
	struct stat st;

	if (asprintf(&name, "%s%s", path, suffix) < 0) {
		name = NULL;
		return true;
	}
	return stat(name, &st) == 0 ? st.st_size > 0 : errno != ENOENT;
}

/* Both lie beside the file, not beside a link to it. */
bool journal_cannot_change(const char *path)
{
	CLEANUP(free_ptr) char *real = realpath(path, NULL);
	bool is_read_only = false;

	return real && !has_beside(real, "-wal") && !has_beside(real, "-journal") &&
	       !journal_is_shared(real) && mount_read(real, &is_read_only) == 0 && is_read_only;
}

/* Runs SQL that answers with the name of the journal that is in use from now on. */
static int ask(struct store *store, const char *sql, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);
	int r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		snprintf(store->journal, sizeof(store->journal), "%s",
			 (const char *)sqlite3_column_text(stmt, 0));
	else /* told before finalizing, while the failure is still the handle's last */
		r = store_failure(store, err);
	sqlite3_finalize(stmt);
	return r;
}

int journal_set_up(struct store *store, struct err *err)
{
	const char *wanted = journal_is_shared(store->path) ? "delete" : "wal";
	char sql[64];
	int r = ask(store, "PRAGMA journal_mode", err);

	if (r < 0 || strcmp(store->journal, wanted) == 0)
		return r;
	snprintf(sql, sizeof(sql), "PRAGMA journal_mode = %s", wanted);
	do /* this needs the file alone, and SQLite gives up at once instead of waiting for it */
		r = ask(store, sql, err);
	while (r == -EBUSY && lock_wait(store));
	if (r < 0)
		return r;
	/* "delete" for "wal": the system has no shared memory for it. That is safe too. */
	if (strcmp(store->journal, "wal") == 0 && strcmp(wanted, "wal") != 0)
		return err_set(err, -EBUSY,
			       "the database %s has a write-ahead log, which its file system "
			       "cannot share between hosts: end all that use it and try again",
			       store->path);
	return 0;
}

/* ---- the log and the disk ---- */

/* NULL: there is none. */
static sqlite3_file *find_log(struct store *store)
{
	sqlite3_file *log = NULL;

	if (sqlite3_file_control(store->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) !=
	    SQLITE_OK)
		return NULL;
	return log && log->pMethods ? log : NULL;
}

/* 0, or the errno, as far as SQLite leaves it. */
static int sync_file(sqlite3_file *file)
{
	errno = 0;
	if (file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) == SQLITE_OK)
		return 0;
	return errno > 0 ? errno : EIO;
}

#define COPY_BYTES 65536

/* After a try that failed: about a second for each MiB, so that a disk that is dying is not busy
 * with nothing else. */
#define MEND_AGAIN_NS_PER_BYTE 1000

void journal_mend_log(struct store *store)
{
	sqlite3_file *log = find_log(store);
	CLEANUP(free_ptr) char *part = malloc(COPY_BYTES);
	sqlite3_int64 bytes = 0;
	int n, error = part ? 0 : ENOMEM;

	if (clock_boot_ns() < store->mend_boot_ns)
		return;
	if (!log || log->pMethods->xFileSize(log, &bytes) != SQLITE_OK)
		return;
	for (sqlite3_int64 at = 0; error == 0 && at < bytes; at += n) {
		n = bytes - at < COPY_BYTES ? (int)(bytes - at) : COPY_BYTES;
		if (log->pMethods->xRead(log, part, n, at) != SQLITE_OK ||
		    log->pMethods->xWrite(log, part, n, at) != SQLITE_OK)
			error = EIO;
	}
	error = error ? error : sync_file(log);
	store->log_error = error;
	store->is_unsettled = error != 0;
	store->mend_boot_ns =
		error ? clock_boot_ns() + (uint64_t)bytes * MEND_AGAIN_NS_PER_BYTE : 0;
}

int store_check_disk(struct store *store, struct err *err)
{
	if (!store->log_error)
		return 0;
	return err_set(err, -store->log_error,
		       "the database %s has all that was recorded, but its disk does not take it "
		       "(%s), and a power cut would lose the last of it: look at the disk",
		       store->path, strerror(store->log_error));
}

/* ---- waiting here ---- */

static void note_wait(struct store *store, uint64_t began_boot_ns)
{
	uint64_t ns = clock_boot_ns() - began_boot_ns;

	if (ns > store->disk_wait_ns)
		store->disk_wait_ns = ns;
}

/*
 * Waits until all that is in the log, whoever wrote it, is on the disk. Not inside a transaction:
 * nobody else is kept waiting meanwhile. What is in the log is committed, so a failure is no
 * failure of who wrote it: it is noted, for store_check_disk() and journal_mend_log().
 */
static void sync_here(struct store *store)
{
	uint64_t began_boot_ns = clock_boot_ns();
	sqlite3_file *log = find_log(store);
	int error = log ? sync_file(log) : 0;

	if (error > 0) /* a later success says nothing of what failed now */
		store->log_error = error;
	store->is_unsettled = false;
	note_wait(store, began_boot_ns);
}

/*
 * A log that may not be on the disk is not copied: what is there of it after a power cut would
 * stand before newer pages. SQLite waits for it as well, but keeps to itself what that says.
 */
void settle_copy(struct store *store, bool shortens)
{
	uint64_t began_boot_ns = clock_boot_ns();

	if (store->is_unsettled)
		sync_here(store);
	if (!store->log_error)
		sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	if (!store->log_error && shortens)
		sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	note_wait(store, began_boot_ns);
}

/*
 * When the lock is gone: many may wait for the disk at once, and one wait is enough for all of
 * them. A log that cannot be copied yet is no failure. Whatever happens, the transaction is
 * committed: SQLite must not be told otherwise.
 */
int settle_log(void *ctx, sqlite3 *db, const char *name, int n_pages)
{
	struct store *store = ctx;
	bool is_full;

	(void)db;
	(void)name;
	store->wal_pages = n_pages;
	if (n_pages > store->wal_peak_pages)
		store->wal_peak_pages = n_pages;
	if (n_pages < store->wal_tried_pages)
		store->wal_tried_pages = 0; /* it has begun anew */
	store->is_unsettled = true;
	/* Others who read may keep it from beginning anew: it is not tried again with each commit.
	 */
	is_full = n_pages >= store->wal_tried_pages + WAL_MAX_PAGES;
	if (store->leaves_disk) {
		store->wants_sweep |= is_full || store->syncs_log;
	} else if (is_full) {
		settle_copy(store, false);
		store->wal_tried_pages = store->log_error ? 0 : n_pages;
	} else if (store->syncs_log) {
		settle_now(store);
	}
	return SQLITE_OK;
}

void settle_now(struct store *store)
{
	if (store->leaves_disk)
		store->wants_sweep = true;
	else if (store->is_unsettled)
		sync_here(store);
}

void settle_before_close(struct store *store)
{
	store->leaves_disk = false;
	if (store->is_unsettled && !store->log_error)
		sync_here(store);
}

/* ---- waiting elsewhere ---- */

void store_leave_disk(struct store *store)
{
	store->leaves_disk = true;
}

bool store_wants_sweep(struct store *store)
{
	return store->wants_sweep && !store->log_error;
}

void store_begin_sweep(struct store *store)
{
	store->wants_sweep = false;
	store->wal_tried_pages = store->wal_pages;
}

void store_end_sweep(struct store *store, const struct store_swept *swept)
{
	if (swept->disk_error)
		store->log_error = swept->disk_error;
	store->wants_sweep |= swept->result < 0;
}

int store_settle(struct store *store)
{
	if (store->is_unsettled)
		sync_here(store);
	return -store->log_error;
}
