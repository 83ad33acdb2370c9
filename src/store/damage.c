#include "store/damage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "store/db/db.h"
#include "store/handle.h"
#include "store/query.h"

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

static const struct failure *find_failure(struct store *store)
{
	int extended_code = sqlite3_extended_errcode(store->db), code = extended_code & 0xff;
	int error = sqlite3_system_errno(store->db);
	struct rlimit limit;

	if (code == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT))
		return &failure_full;
	/* Writing fails where a file would be larger than the limit; the errno may be gone by now,
	 * and another's in its place, but not that of a disk that fails. */
	if (code == SQLITE_IOERR && error != EIO &&
	    (error == EFBIG ||
	     ((extended_code == SQLITE_IOERR_WRITE || extended_code == SQLITE_IOERR_TRUNCATE) &&
	      getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)))
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

int store_failure(struct store *store, struct err *err)
{
	const struct failure *f = find_failure(store);
	int error = 0; /* that SQLite or the file system gives for it; 0: none */
	char detail[256];
	pid_t owner = 0;

	/* Not before the timeout is over: a caller that tries again comes here every ms. */
	if (err && f->code == SQLITE_BUSY && store->waited_ns >= store->lock_timeout_ns)
		owner = lock_owner_find(store->path);
	if (owner) {
		char name[LOCK_OWNER_BYTES];

		lock_owner_describe(owner, name);
		err_set(err, -EBUSY, "the database %s is locked by %s", store->path, name);
		err_advise(err, "wait for it or end it");
		return -EBUSY;
	}
	if (f->code == SQLITE_IOERR)
		error = f == &failure_limit ? f->error : sqlite3_system_errno(store->db);
	else if (f->code == SQLITE_READONLY || f->code == SQLITE_CANTOPEN)
		error = store_write_obstacle(store->path);
	if (error == 0 && f->code == SQLITE_CANTOPEN)
		error = sqlite3_system_errno(store->db);
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

#define MAX_DAMAGES 256 /* that are told apart */
#define MAX_SENTENCES 8 /* parts of one */

static const struct {
	const char *one, *many;
} kind_names[N_DAMAGE_KINDS] = {
	[DAMAGED_TICKS] = { "tick", "ticks" },
	[DAMAGED_SAMPLES] = { "stretch of samples", "stretches of samples" },
	[DAMAGED_THINGS] = { "state of the host", "states of the host" },
	[DAMAGED_CURVE] = { "stretch of a curve", "stretches of curves" },
	[DAMAGED_MINUTES] = { "hour of minutes", "hours of minutes" },
	[DAMAGED_EVENTS] = { "event that this version cannot read",
			     "events that this version cannot read" },
	[DAMAGED_ANOMALIES] = { "anomaly that this version cannot read",
				"anomalies that this version cannot read" },
	[DAMAGED_ATTEMPTS] = { "attempt", "attempts" },
};

void damages_release(struct damages *d)
{
	free(d->items);
	*d = (struct damages){ 0 };
}

/* ---- meeting it ---- */

static void add(struct damages *d, const struct damage *one)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->items[i].kind == one->kind && d->items[i].id == one->id)
			return;
	if (d->n == MAX_DAMAGES || ARRAY_RESERVE(d->items, d->cap, d->n + 1) < 0)
		d->n_more++;
	else
		d->items[d->n++] = *one;
}

void damages_add(struct damages *d, const struct damages *more)
{
	for (size_t i = 0; i < more->n; i++)
		add(d, &more->items[i]);
	d->n_more += more->n_more;
}

bool damages_may_be_newer(const struct damages *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->items[i].kind != DAMAGED_EVENTS && d->items[i].kind != DAMAGED_ANOMALIES)
			return false;
	return true;
}

int damage_leave_out(struct store *store, const struct damage *d, struct err *err)
{
	struct store *teller = store->is_borrowed ? store->teller : store;

	if (!teller)
		return err_set(err, -EBADMSG,
			       "the database %s holds a %s that makes no sense, and is lost: "
			       "\"proctor sql\" leaves it out, and so does who limits the time; "
			       "\"proctor doctor\" says of when it is",
			       store->path, kind_names[d->kind].one);
	add(&teller->damages, d);
	return 0;
}

/* ---- telling it ---- */

/* Of which attempt and of when; nothing if it is not there any more. */
static void write_origin(struct store *store, const struct damage *d, struct buf *out)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	char first[32], last[32];

	if (d->recorder != 0 &&
	    query_first(store, STATEMENT_NAME_RECORDER, &q, NULL, d->recorder) > 0) {
		const char *name = query_read_text(&q);

		buf_printf(out, " of job %s, attempt %lld", name, (long long)query_read_i64(&q));
	}
	if (d->last_ns == 0) /* nobody knows */
		return;
	clock_format_local((uint64_t)d->first_ns, first, sizeof(first));
	clock_format_local((uint64_t)d->last_ns, last, sizeof(last));
	if (strcmp(first, last) == 0)
		buf_printf(out, " (at %s)", first);
	else
		buf_printf(out, " (from %s to %s)", first, last);
}

/* All of one kind and recorder, as one. */
void damages_write(struct store *store, const struct damages *d, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n && n < MAX_SENTENCES; i++) {
		struct damage sum = d->items[i];
		bool is_first = true;

		for (size_t k = 0; k < d->n; k++) {
			const struct damage *more = &d->items[k];

			if (k == i || more->kind != sum.kind || more->recorder != sum.recorder)
				continue;
			is_first = is_first && k > i;
			sum.n += more->n;
			sum.first_ns =
				more->first_ns < sum.first_ns ? more->first_ns : sum.first_ns;
			sum.last_ns = more->last_ns > sum.last_ns ? more->last_ns : sum.last_ns;
		}
		if (!is_first)
			continue;
		buf_printf(out, "%s%llu %s", n++ ? ", " : "", (unsigned long long)sum.n,
			   sum.n == 1 ? kind_names[sum.kind].one : kind_names[sum.kind].many);
		write_origin(store, &sum, out);
	}
	if (d->n_more > 0 || n == MAX_SENTENCES)
		buf_add_str(out, ", and more");
}

bool store_tell_damage(struct store *store, struct buf *out)
{
	CLEANUP(txn_abort) struct store *txn = NULL;
	CLEANUP(damages_release) struct damages met = store->damages;

	store->damages = (struct damages){ 0 };
	if (met.n + met.n_more == 0)
		return false;
	txn_begin(store, STATEMENT_BEGIN_READ, &txn, NULL);
	damages_write(store, &met, out);
	return true;
}
