#include "store/journal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/mount.h"
#include "store/patience.h"
#include "store/sqlite.h"

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

bool journal_is_shared(const char *path)
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
	struct mount_found mount;

	return real && !has_beside(real, "-wal") && !has_beside(real, "-journal") &&
	       !journal_is_shared(real) && mount_read(real, &mount) == 0 && mount.is_read_only;
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

/* This needs the file alone, and SQLite gives up at once instead of waiting for it. */
static int change(struct store *store, const char *sql, struct err *err)
{
	int r;

	do
		r = ask(store, sql, err);
	while (r == -EBUSY && patience_wait(store));
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
	r = change(store, sql, err);
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

const char *store_journal(struct store *store)
{
	if (!store->journal[0] && ask(store, "PRAGMA journal_mode", NULL) < 0)
		return NULL;
	return store->journal;
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

void journal_sync_log(struct store *store)
{
	sqlite3_file *log = find_log(store);
	int error = log ? sync_file(log) : 0;

	if (error > 0) /* a later success says nothing of what failed now */
		store->log_error = error;
}

#define COPY_BYTES 65536

static int rewrite(sqlite3_file *log, int64_t bytes)
{
	CLEANUP(free_ptr) char *part = malloc(COPY_BYTES);
	int n;

	if (!part)
		return ENOMEM;
	for (int64_t at = 0; at < bytes; at += n) {
		n = bytes - at < COPY_BYTES ? (int)(bytes - at) : COPY_BYTES;
		if (log->pMethods->xRead(log, part, n, at) != SQLITE_OK ||
		    log->pMethods->xWrite(log, part, n, at) != SQLITE_OK)
			return EIO;
	}
	return sync_file(log);
}

/* After a try that failed: about a second for each MiB, so that a disk that is dying is not busy
 * with nothing else. */
#define MEND_AGAIN_NS_PER_BYTE 1000

void journal_mend_log(struct store *store)
{
	sqlite3_file *log = find_log(store);
	sqlite3_int64 bytes = 0;
	int error;

	if (clock_boot_ns() < store->mend_boot_ns)
		return;
	if (!log || log->pMethods->xFileSize(log, &bytes) != SQLITE_OK)
		return;
	error = rewrite(log, bytes);
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
