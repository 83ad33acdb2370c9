#include "store/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/macros.h"
#include "store/handle.h"
#include "store/holder.h"
#include "store/sqlite.h"

/* A result code of SQLite: our errno unless the system's says more, what is wrong, what to do. */
struct failure {
	int code;
	int error;
	const char *what;
	const char *advice;
};

static const struct failure failures[] = {
	{ SQLITE_BUSY, EBUSY, "is locked by another process",
	  "try again, or look with fuser who holds it" },
	{ SQLITE_LOCKED, EBUSY, "is locked", "try again" },
	{ SQLITE_PROTOCOL, EBUSY, "is used by many at once", "try again" },
	{ SQLITE_FULL, ENOSPC, "cannot grow",
	  "free some room on its disk, or set PROCTOR_HOME to a folder on another" },
	{ SQLITE_READONLY, EACCES, "cannot be written",
	  "make the file and its folder writable, or set PROCTOR_HOME to another folder" },
	{ SQLITE_PERM, EACCES, "may not be used", "make the file and its folder writable" },
	{ SQLITE_AUTH, EACCES, "may not be used", "make the file and its folder writable" },
	{ SQLITE_CANTOPEN, EACCES, "cannot be opened",
	  "make its folder writable, or copy it elsewhere, with the -wal and -shm that one in use has beside it" },
	{ SQLITE_NOTADB, EBADMSG, "is not a database", ADVICE_DAMAGED },
	{ SQLITE_CORRUPT, EBADMSG, "is damaged", ADVICE_DAMAGED },
	{ SQLITE_TOOBIG, EBADMSG, "holds more in one place than is ever written", ADVICE_DAMAGED },
	{ SQLITE_ERROR, EBADMSG, "does not have the tables that it should", ADVICE_DAMAGED },
	{ SQLITE_INTERRUPT, EINTR, "was not read to the end", "try again" },
	{ SQLITE_IOERR, EIO, "cannot be read or written", "look at its disk" },
	{ SQLITE_NOMEM, ENOMEM, "cannot be used", "free some memory" },
	{ SQLITE_CONSTRAINT, EINVAL, "does not take this",
	  "its attempt is not there (any more), or the program has a fault" },
};
/* Who holds it stands between the two. */
static const struct failure failure_held = { SQLITE_BUSY, EBUSY, "is locked by",
					     "wait for it or end it" };
/* The system's word for it SQLite does not pass on. */
static const struct failure failure_limit = { SQLITE_IOERR, EFBIG,
					      "cannot grow above this process's limit on files",
					      "raise it (ulimit -f)" };
/* Where the index of the log cannot be made; "cannot grow" is the database itself. */
static const struct failure failure_full = {
	SQLITE_IOERR, ENOSPC, "cannot be used, as its disk is full",
	"free some room there, or set PROCTOR_HOME to a folder on another"
};
static const struct failure failure_other = { 0, EIO, "cannot be used",
					      "the program or the database has a fault" };

/* Writing fails where a file would be larger than the limit; the errno may be gone by now, and
 * another's in its place, but not that of a disk that fails. */
static bool is_over_limit(struct store *store, int extended_code)
{
	int error = sqlite3_system_errno(store->db);
	struct rlimit limit;

	if ((extended_code & 0xff) != SQLITE_IOERR || error == EIO)
		return false;
	if (error == EFBIG)
		return true;
	return (extended_code == SQLITE_IOERR_WRITE || extended_code == SQLITE_IOERR_TRUNCATE) &&
	       getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

static bool is_full_disk(struct store *store, int code)
{
	int error = sqlite3_system_errno(store->db);

	return code == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT);
}

static const struct failure *find_failure(struct store *store)
{
	int extended_code = sqlite3_extended_errcode(store->db);
	int code = extended_code & 0xff;

	if (is_full_disk(store, code))
		return &failure_full;
	if (is_over_limit(store, extended_code))
		return &failure_limit;
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].code == code)
			return &failures[i];
	return &failure_other;
}

int store_write_obstacle(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[4096] = ".";

	if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0 && errno != ENOENT)
		return errno;
	if (slash && (size_t)(slash - path) < sizeof(folder) - 1) {
		memcpy(folder, path, (size_t)(slash - path) + 1);
		folder[slash - path + 1] = '\0';
	}
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0 ? errno : 0;
}

/* The errno that SQLite or the file system gives for this failure; 0: none. */
static int system_error(struct store *store, const struct failure *f)
{
	int error = sqlite3_system_errno(store->db);
	int obstacle;

	if (f == &failure_limit)
		return f->error;
	if (f->code == SQLITE_IOERR)
		return error;
	if (f->code != SQLITE_READONLY && f->code != SQLITE_CANTOPEN)
		return 0;
	obstacle = store_write_obstacle(store->path);
	return obstacle || f->code == SQLITE_READONLY ? obstacle : error;
}

/*
 * Names who holds the lock; false if nobody can be named. Not asked while there is
 * patience left: who tries again by itself (journal.c) comes here every millisecond.
 */
static bool tell_holder(const struct store *store, struct err *err)
{
	char holder[HOLDER_BYTES];
	pid_t pid;

	if (!err || store->waited_ns < store->patience_ns)
		return false;
	pid = holder_find(store->path);
	if (pid == 0)
		return false;
	holder_describe(pid, holder);
	err_set(err, -failure_held.error, "the database %s %s %s", store->path, failure_held.what,
		holder);
	err_advise(err, failure_held.advice);
	return true;
}

int store_failure(struct store *store, struct err *err)
{
	const struct failure *f = find_failure(store);
	int error = system_error(store, f);
	char detail[256];

	if (f->code == failure_held.code && tell_holder(store, err))
		return -failure_held.error;
	snprintf(detail, sizeof(detail), "%s",
		 error > 0 ? strerror(error) : sqlite3_errmsg(store->db));
	if (error <= 0)
		error = f->error;
	err_set(err, -error, "the database %s %s (%s)", store->path, f->what, detail);
	err_advise(err, f->advice);
	return -error;
}

int store_damaged(const struct store *store, const char *what, struct err *err)
{
	return err_set(err, -EBADMSG,
		       "the database %s holds a %s that makes no sense; " ADVICE_DAMAGED,
		       store->path, what);
}

int store_no_memory(const struct store *store, struct err *err)
{
	return err_set(err, -ENOMEM, "no memory left to use the database %s", store->path);
}
