#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/store.h"

#define MAX_NAMED 3 /* of the tables that are damaged */

/*
 * Adds which tables are, such as "1 of its 28 tables is, chunks, and the others can still be read";
 * nothing where the tables cannot be listed, or an interrupt ends it.
 */
static void write_damaged_tables(sqlite3 *db, struct buf *out)
{
	static const char each[] =
		"SELECT name, (SELECT integrity_check FROM"
		" pragma_integrity_check(name) LIMIT 1) = 'ok' FROM sqlite_schema"
		" WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
	CLEANUP(statement_finalize) sqlite3_stmt *list = NULL;
	CLEANUP(buf_release) struct buf names = BUF_INIT;
	unsigned n = 0, n_damaged = 0;

	if (sqlite3_prepare_v2(db, each, -1, &list, NULL) != SQLITE_OK)
		return;
	for (; sqlite3_step(list) == SQLITE_ROW; n++) {
		if (sqlite3_column_int(list, 1))
			continue;
		if (++n_damaged <= MAX_NAMED)
			buf_printf(&names, "%s, ", (const char *)sqlite3_column_text(list, 0));
	}
	if (sqlite3_errcode(db) == SQLITE_DONE && n > 0)
		buf_printf(out, "%u of its %u tables %s, %s%sand the others can still be read",
			   n_damaged, n, n_damaged == 1 ? "is" : "are",
			   names.data ? names.data : "", n_damaged > MAX_NAMED ? "… " : "");
}

/* ---- a limit on the time ---- */

/*
 * A thread that interrupts the database when the time is up. SQLite's progress
 * handler would do without one, but before 3.41 it is not called while the pages
 * are looked through, which is what takes the time.
 */
struct limit {
	sqlite3 *db;
	int max_ms;
	int wake_fd; /* ends the thread; -1: there is none */
	pthread_t thread;
	atomic_bool is_over;
	bool has_found; /* what is told was certain before that */
};

static void *interrupt_later(void *ctx)
{
	struct limit *limit = ctx;
	struct pollfd wake = { .fd = limit->wake_fd, .events = POLLIN };

	if (poll(&wake, 1, limit->max_ms) <= 0) {
		limit->is_over = true;
		sqlite3_interrupt(limit->db);
	}
	return NULL;
}

static void limit_stop(struct limit *limit)
{
	if (limit->wake_fd < 0)
		return;
	eventfd_write(limit->wake_fd, 1);
	pthread_join(limit->thread, NULL);
	close_fd(&limit->wake_fd);
}

/* ---- what is looked at, one function each ---- */

/* Of "*** in database main ***\nTree 3 page 3: …" the line that says something is told. */
static int check_pages(struct store *store, struct limit *limit, struct err *err)
{
	CLEANUP(statement_finalize) sqlite3_stmt *stmt = NULL;
	CLEANUP(buf_release) struct buf parts = BUF_INIT;
	const char *text, *line;

	if (sqlite3_prepare_v2(store->db, "PRAGMA integrity_check(1)", -1, &stmt, NULL) !=
		    SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_ROW)
		return store_failure(store, err);
	text = (const char *)sqlite3_column_text(stmt, 0);
	if (strcmp(text, "ok") == 0)
		return 0;
	limit->has_found = !limit->is_over;
	line = strncmp(text, "***", 3) == 0 ? strchr(text, '\n') : NULL;
	line = line ? line + 1 : text;
	write_damaged_tables(store->db, &parts);
	return err_set(err, -EBADMSG, "the database %s is damaged (%.*s)%s%s: " ADVICE_DAMAGED,
		       store->path, (int)strcspn(line, "\n"), line, parts.len > 0 ? "; " : "",
		       parts.len > 0 ? parts.data : "");
}

/* Whether all tables and columns are there, and do for what is done with them. */
static int check_layout(struct store *store, struct limit *limit, struct err *err)
{
	int r = layout_check_tables(store, err);

	(void)limit;
	for (int id = 0; id < STATEMENT_COUNT && r == 0; id++) {
		CLEANUP(query_close) struct query q = QUERY_INIT;

		r = query_open(store, (enum statement)id, &q, err);
	}
	return r;
}

static int check_attempts(struct store *store, struct limit *limit, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	int r = store_list_attempts(store, &(struct attempt_filter){ 0 }, &list, err);

	for (size_t i = 0; i < list.n && r == 0 && !limit->is_over; i++) {
		CLEANUP(attempt_release) struct attempt a;

		attempt_init(&a);
		r = store_read_attempt(store, list.items[i].job_id, list.items[i].attempt_num, &a,
				       err);
		if (r == -ENOENT) /* deleted since it was listed */
			r = 0;
	}
	return r;
}

/* Every value was decoded on the way here. */
static int go_on(void *ctx, const struct snapshot *snap)
{
	const struct limit *limit = ctx;

	(void)snap;
	return limit->is_over ? -ETIMEDOUT : 0;
}

static int check_snapshots(struct store *store, struct limit *limit, struct err *err)
{
	return store_read_snapshots(store, &(struct snapshot_filter){ .with_minutes = true }, go_on,
				    limit, err);
}

/* What nobody comes across who reads: its key is not the one that it was written with. */
static int check_strays(struct store *store, struct limit *limit, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_ask(store, STATEMENT_STRAYS, &q, err, DAMAGED_SAMPLES, DAMAGED_MINUTES,
			  DAMAGED_CURVE);

	while (r == 0 && !limit->is_over && (r = query_step(&q, err)) > 0) {
		struct damage d = { .kind = (enum damage_kind)query_read_i64(&q), .n = 1 };
		bool may_be;
		size_t len;

		d.id = query_read_i64(&q);
		may_be = query_read_i64(&q);
		query_read_blob(&q, d.id, &len);
		r = may_be && len > 0 ? 0 : damage_leave_out(store, &d, err);
	}
	return r;
}

/* What the others had to leave out. */
static int check_left_out(struct store *store, struct limit *limit, struct err *err)
{
	CLEANUP(buf_release) struct buf what = BUF_INIT;
	bool may_be_newer = damages_may_be_newer(&store->damages);

	(void)limit;
	if (!store_tell_damage(store, &what))
		return 0;
	if (may_be_newer)
		return err_set(err, -ENODATA,
			       "the database %s is sound, but a newer proctor may have written to "
			       "it; left out of what is read: %s",
			       store->path, what.data);
	return err_set(err, -EUCLEAN,
		       "the database %s is sound and in use, but a part of what it holds makes no "
		       "sense, and is lost: %s; it is left out of what is read and goes with its "
		       "age, and nothing need be done",
		       store->path, what.data);
}

/* By now what SQLite sees is sound. It may not see all. */
static int check_log(struct store *store, struct limit *limit, struct err *err)
{
	struct wal_found log;
	int r = wal_check(store->path, &log);

	(void)limit;
	if (r == -EBADMSG)
		return err_set(
			err, -ENODATA,
			"the database %s is sound, but its -wal is damaged: what was recorded last "
			"is lost, and recording goes on",
			store->path);
	if (log.n_behind == 0)
		return 0;
	return err_set(err, -ENODATA,
		       "the database %s is sound, but its -wal breaks off, and up to %u "
		       "transactions behind that are lost: after a power cut those that the disk "
		       "had not taken yet, else it is damaged; recording goes on",
		       store->path, log.n_behind);
}

static int (*const checks[])(struct store *store, struct limit *limit, struct err *err) = {
	check_pages,  check_layout,   check_attempts, check_snapshots,
	check_strays, check_left_out, check_log,
};

int store_check(struct store *store, unsigned max_ms, struct err *err)
{
	CLEANUP(limit_stop)
	struct limit limit = {
		.db = store->db,
		.max_ms = max_ms < INT_MAX ? (int)max_ms : INT_MAX,
		.wake_fd = max_ms > 0 ? eventfd(0, EFD_CLOEXEC) : -1,
	};
	int r = 0, error = max_ms > 0 && limit.wake_fd < 0 ? errno : 0;

	if (limit.wake_fd >= 0)
		error = pthread_create(&limit.thread, NULL, interrupt_later, &limit);
	if (error) {
		close_fd(&limit.wake_fd);
		return err_set(err, -error, "the database %s cannot be checked: %s", store->path,
			       strerror(error));
	}
	for (size_t i = 0; i < ARRAY_SIZE(checks) && r == 0 && !limit.is_over; i++)
		r = checks[i](store, &limit, err);
	if (limit.has_found)
		return r;
	/* What an interrupted check has found need not be true, but what it has left out is. */
	if (limit.is_over && check_left_out(store, &limit, err) == -EUCLEAN)
		return -EUCLEAN;
	if (limit.is_over)
		return err_set(err, -ETIMEDOUT,
			       "the database %s was looked through for %g s, which was too short "
			       "to see all of it; nothing wrong was found",
			       store->path, max_ms / 1000.0);
	return r;
}

/*
 * How a database gets out of the way, so that a crash at any moment loses nothing
 * and never leaves the log of the old database beside a new one:
 *
 *	1. An empty file is made under the new name. It and the database are locked,
 *	   as SQLite locks, against everybody.
 *	2. -wal, -shm and -journal get a second name beside the new one.
 *	3. The database and the empty file exchange their names, in one step.
 *	4. The old names of the three are removed; who comes now waits for the lock.
 */

#define NAMES_TRIED 100 /* of the same second */

/* What belongs to a database, by what is added to its name. */
static const char *const companions[] = { "-wal", "-shm", "-journal" };

struct quarantine {
	char *from; /* the database itself, not a link to it */
	char *to;
	int from_fd, to_fd; /* closing them drops the locks */
};

static void quarantine_release(struct quarantine *a)
{
	free(a->from);
	free(a->to);
	close_fd(&a->from_fd);
	close_fd(&a->to_fd);
}

static int refuse_move(const struct quarantine *a, int error, struct err *err)
{
	return err_set(err, error,
		       "the database %s is damaged, and cannot be moved aside (%s): set "
		       "PROCTOR_HOME to another folder",
		       a->from, strerror(-error));
}

static int refuse_busy(const struct quarantine *a, pid_t pid, struct err *err)
{
	char owner[LOCK_OWNER_BYTES];

	lock_owner_describe(pid, owner);
	return err_set(
		err, -EBUSY,
		"the database %s is damaged, and cannot be moved aside while %s has it open: "
		"wait for it or end it",
		a->from, owner);
}

/* 0: it is damaged, and a case for this. What cannot be looked at store_open() tells better. */
static int find_damaged(const char *path, bool all, struct quarantine *ret, struct stat *ret_st,
			struct err *err)
{
	CLEANUP(store_closep) struct store *store = NULL;
	int r;

	*ret_st = (struct stat){ 0 };
	if (stat(path, ret_st) == 0 && !S_ISREG(ret_st->st_mode))
		return err_set(err, -EBADMSG, "%s is not a file: move it away", path);
	r = store_open(path, STORE_READ, &store, err);
	if (r == 0)
		r = store_check(store, 0, err);
	if (r == 0)
		return err_set(err, -EALREADY, "the database %s is sound", path);
	if (r == -ENODATA) /* the next to write begins a new log */
		return -EALREADY;
	if (r != -EBADMSG && !(r == -EUCLEAN && all))
		return r;
	ret->from = realpath(path, NULL);
	return ret->from ? 0 : err_set(err, -errno, "cannot find %s: %s", path, strerror(errno));
}

/* ---- locks ---- */

/* As SQLite locks a file that it is about to change: nobody may read or write it. */
static int lock_whole(int fd, struct flock *ret)
{
	*ret = (struct flock){ .l_type = F_WRLCK,
			       .l_whence = SEEK_SET,
			       .l_start = LOCK_PENDING,
			       .l_len = LOCK_LAST - LOCK_PENDING + 1 };
	return fcntl(fd, F_SETLK, ret) < 0 ? -errno : 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* With a rollback journal who has it open need not have a lock. */
static int take_alone(struct quarantine *a, const struct stat *examined, struct err *err)
{
	struct stat named, opened;
	struct flock lock;
	pid_t opener;
	int r;

	a->from_fd = open(a->from, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (a->from_fd < 0)
		return refuse_move(a, -errno, err);
	r = lock_whole(a->from_fd, &lock);
	if (r == -EAGAIN || r == -EACCES) {
		bool has_locker = fcntl(a->from_fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;

		return refuse_busy(a, has_locker ? lock.l_pid : 0, err);
	}
	if (r < 0)
		return refuse_move(a, r, err);
	/* Somebody else may have moved it before we had the lock. */
	if (stat(a->from, &named) < 0 || fstat(a->from_fd, &opened) < 0 ||
	    !is_same_file(&named, examined) || !is_same_file(&opened, examined))
		return err_set(err, -EBUSY,
			       "the database %s was replaced while it was looked at: try again",
			       a->from);
	opener = lock_owner_find_opener(examined);
	return opener ? refuse_busy(a, opener, err) : 0;
}

/* ---- names ---- */

static bool is_free(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 && errno == ENOENT;
}

/* Goes on after a failure, and returns the first. */
static int for_companions(const struct quarantine *a, int (*fn)(const char *from, const char *to))
{
	int first = 0;

	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		char from[PATH_MAX + 64], to[PATH_MAX + 64];
		int r;

		snprintf(from, sizeof(from), "%s%s", a->from, companions[i]);
		snprintf(to, sizeof(to), "%s%s", a->to, companions[i]);
		r = fn(from, to);
		first = first == 0 ? r : first;
	}
	return first;
}

static int check_free(const char *from, const char *to)
{
	(void)from;
	return is_free(to) ? 0 : -EEXIST;
}

/* The empty file, for whom the database was. */
static int make_empty(const char *path, int like_fd)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) < 0 || fstat(like_fd, &st) < 0 ||
	    (geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) < 0)) {
		int error = errno;

		unlink(path);
		close(fd);
		return -error;
	}
	return fd;
}

/* The moment, in UTC; the second of the same second gets a number. */
static int reserve_name(struct quarantine *a, struct err *err)
{
	time_t now = (time_t)(clock_wall_ns() / 1000000000u);
	char stamp[24], number[16] = "";
	struct flock lock;
	struct tm tm;
	int r = -EEXIST;

	if (!gmtime_r(&now, &tm) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) == 0)
		snprintf(stamp, sizeof(stamp), "unknown");
	for (int num = 1; r == -EEXIST && num <= NAMES_TRIED; num++) {
		free(a->to);
		if (num > 1)
			snprintf(number, sizeof(number), "-%d", num);
		if (asprintf(&a->to, "%s.damaged-%s%s", a->from, stamp, number) < 0) {
			a->to = NULL;
			return refuse_move(a, -ENOMEM, err);
		}
		r = is_free(a->to) && for_companions(a, check_free) == 0
			    ? make_empty(a->to, a->from_fd)
			    : -EEXIST;
	}
	if (r < 0)
		return refuse_move(a, r, err);
	a->to_fd = r;
	r = lock_whole(a->to_fd, &lock);
	if (r < 0)
		unlink(a->to); /* the empty file */
	return r < 0 ? refuse_move(a, r, err) : 0;
}

/* ---- moving ---- */

/* A second name; where files have only one (FAT), another. */
static int rename_beside(const char *from, const char *to)
{
	if (is_free(from) || link(from, to) == 0)
		return 0;
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	return rename(from, to) < 0 ? -errno : 0;
}

/* The file stays: it has its other name. */
static int drop_old_name(const char *from, const char *to)
{
	return is_free(from) || is_free(to) || unlink(from) == 0 ? 0 : -errno;
}

static int restore_name(const char *from, const char *to)
{
	if (is_free(to))
		return 0;
	return (is_free(from) ? rename(to, from) : unlink(to)) < 0 ? -errno : 0;
}

/*
 * Nothing has changed if this fails. What the disk does not have after it is lost with the power,
 * and no harm is done.
 */
static int move(const struct quarantine *a, struct err *err)
{
	int r = for_companions(a, rename_beside);

	io_sync_folder_of(a->from);
	if (r == 0 && renameat2(AT_FDCWD, a->from, AT_FDCWD, a->to, RENAME_EXCHANGE) < 0)
		r = -errno;
	else if (r == 0) /* with an old log that cannot be removed the empty one is not opened */
		for_companions(a, drop_old_name);
	if (r == -EINVAL || r == -ENOSYS || r == -EOPNOTSUPP) {
		CLEANUP(close_fd) int fd = -1;

		/*
		 * Where two names cannot be exchanged (NFS) the database takes the place of the
		 * empty file, and the old names go before it: its own is free afterwards.
		 */
		r = for_companions(a, drop_old_name);
		if (r == 0 && rename(a->from, a->to) < 0)
			r = -errno;
		if (r == 0)
			fd = make_empty(a->from, a->from_fd); /* or somebody was faster */
	}
	if (r < 0) {
		for_companions(a, restore_name);
		unlink(a->to); /* the empty file */
	}
	io_sync_folder_of(a->from);
	return r < 0 ? refuse_move(a, r, err) : 0;
}

int store_quarantine(const char *path, bool all, char **ret_path, struct err *err)
{
	CLEANUP(quarantine_release) struct quarantine a = { .from_fd = -1, .to_fd = -1 };
	struct stat examined;
	int r;

	r = find_damaged(path, all, &a, &examined, err);
	if (r == 0)
		r = take_alone(&a, &examined, err);
	if (r == 0)
		r = reserve_name(&a, err);
	if (r == 0)
		r = move(&a, err);
	if (r == 0)
		*ret_path = TAKE_PTR(a.to);
	return r;
}
