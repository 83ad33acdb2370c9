#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macros.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/layout.h"
#include "store/query.h"
#include "store/sqlite.h"
#include "store/wal.h"

/* ---- how much of a damaged database is ---- */

#define MAX_NAMED 3 /* of those that are damaged */

#define LIST_TABLES \
	"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"

/* What is in those whose names do not say it. */
static const struct {
	const char *table, *what;
} contents[] = {
	{ "chunks", "samples" },	   { "folds", "ticks of the host" },
	{ "ticks", "the newest samples" }, { "points", "curves of reports" },
	{ "rollups", "1-minute values" },  { "runs", "what estimates are made of" },
};

static void finalize(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

/* With its indexes. */
static bool is_table_whole(sqlite3 *db, const char *table)
{
	CLEANUP(finalize) sqlite3_stmt *stmt = NULL;
	char *sql = sqlite3_mprintf("PRAGMA integrity_check(%Q)", table);
	bool is_ok = sql && sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
		     sqlite3_step(stmt) == SQLITE_ROW &&
		     strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;

	sqlite3_free(sql);
	return is_ok;
}

static void add_table_name(struct buf *out, const char *table)
{
	buf_printf(out, "%s%s", out->len > 0 ? ", " : "", table);
	for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
		if (strcmp(contents[i].table, table) == 0)
			buf_printf(out, " (%s)", contents[i].what);
}

/*
 * Adds a sentence about a damaged database: which of its tables are, such as "1 of its 28 tables
 * is, chunks (samples), and the others can still be read"; nothing where the tables cannot be
 * listed, or an interrupt ends it.
 */
static void write_damaged_tables(sqlite3 *db, struct buf *out)
{
	CLEANUP(finalize) sqlite3_stmt *list = NULL;
	CLEANUP(buf_release) struct buf names = BUF_INIT;
	unsigned n = 0, n_damaged = 0;
	int rc = sqlite3_prepare_v2(db, LIST_TABLES, -1, &list, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		const char *table;

		rc = sqlite3_step(list);
		if (rc != SQLITE_ROW)
			break;
		table = (const char *)sqlite3_column_text(list, 0);
		n++;
		if (is_table_whole(db, table))
			continue;
		if (sqlite3_errcode(db) == SQLITE_INTERRUPT)
			return;
		if (++n_damaged <= MAX_NAMED)
			add_table_name(&names, table);
	}
	if (rc != SQLITE_DONE || n == 0)
		return;
	if (n_damaged == 0)
		buf_printf(out, "none of its %u tables is, and all can still be read", n);
	else if (n_damaged == n)
		buf_printf(out, "so are all of its %u tables", n);
	else
		buf_printf(out, "%u of its %u tables %s, %s%s, and the others can still be read",
			   n_damaged, n, n_damaged == 1 ? "is" : "are",
			   names.data ? names.data : "",
			   n_damaged > MAX_NAMED ? " among them" : "");
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

static int limit_start(struct limit *limit, sqlite3 *db, unsigned max_ms)
{
	int error;

	if (max_ms == 0)
		return 0;
	limit->db = db;
	limit->max_ms = max_ms < INT_MAX ? (int)max_ms : INT_MAX;
	limit->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (limit->wake_fd < 0)
		return -errno;
	error = pthread_create(&limit->thread, NULL, interrupt_later, limit);
	if (error)
		close_fd(&limit->wake_fd);
	return -error;
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

/* Of "*** in database main ***\nTree 3 page 3: …" the line that says something. */
static int tell_damage(struct store *store, const char *text, struct err *err)
{
	const char *line = strncmp(text, "***", 3) == 0 ? strchr(text, '\n') : NULL;
	CLEANUP(buf_release) struct buf parts = BUF_INIT;

	line = line ? line + 1 : text;
	write_damaged_tables(store->db, &parts);
	return err_set(err, -EBADMSG, "the database %s is damaged (%.*s)%s%s: " ADVICE_DAMAGED,
		       store->path, (int)strcspn(line, "\n"), line, parts.len > 0 ? "; " : "",
		       parts.len > 0 ? parts.data : "");
}

static int check_pages(struct store *store, struct limit *limit, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	const char *text = NULL;
	int r = 0;

	if (sqlite3_prepare_v2(store->db, "PRAGMA integrity_check(1)", -1, &stmt, NULL) ==
		    SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		text = (const char *)sqlite3_column_text(stmt, 0);
	if (!text) /* told before finalizing, while the failure is still the handle's last */
		r = store_failure(store, err);
	else if (strcmp(text, "ok") != 0) {
		limit->has_found = !limit->is_over;
		r = tell_damage(store, text, err);
	}
	sqlite3_finalize(stmt);
	return r;
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
	int r = query_open(store, STATEMENT_STRAYS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, DAMAGED_SAMPLES);
	query_bind_i64(&q, DAMAGED_MINUTES);
	query_bind_i64(&q, DAMAGED_CURVE);
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
	CLEANUP(limit_stop) struct limit limit = { .wake_fd = -1 };
	int r = limit_start(&limit, store->db, max_ms);

	if (r < 0)
		return err_set(err, r, "the database %s cannot be checked: %s", store->path,
			       strerror(-r));
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
