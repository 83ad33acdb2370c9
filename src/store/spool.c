#include "store/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "store/damage.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rows.h"
#include "store/spool_file.h"
#include "store/spool_record.h"
#include "store/tables.h"
#include "store/write.h"

/* ---- of a newer version ---- */

bool store_has_kept_for_newer(const char *path)
{
	return spool_file_has_records(path, SPOOL_NEWER);
}

static bool has_own(const struct buf *bytes)
{
	const char *at = bytes->data, *end = bytes->data + bytes->len;
	const void *record;
	size_t len;
	int next;

	while ((next = spool_next(&at, end, &record, &len)) != 0)
		if (next < 0 || !spool_record_is_newer(record, len))
			return true;
	return false;
}

/* This program may be the newer one by now. What was looked at is not looked at again. */
bool spool_has_news(struct store *store)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	uint64_t used = spool_file_used(store->path, SPOOL_NEWER);

	if (used == 0 || used == store->newer_bytes)
		return false;
	store->newer_bytes = used;
	return spool_file_peek(store->path, SPOOL_NEWER, &bytes) < 0 || has_own(&bytes);
}

/* Those of newer programs, or the others; what is damaged is neither. False: some is. */
static bool pick(const struct buf *bytes, bool is_newer, struct buf *ret)
{
	const char *at = bytes->data, *end = bytes->data + bytes->len;
	const void *record;
	bool is_whole = true;
	size_t len;
	int next;

	while ((next = spool_next(&at, end, &record, &len)) != 0) {
		is_whole &= next > 0;
		if (next > 0 && spool_record_is_newer(record, len) == is_newer)
			spool_add_record(ret, record, len);
	}
	return is_whole;
}

static int put_to_newer(const char *path, const struct buf *bytes)
{
	CLEANUP(buf_release) struct buf newer = BUF_INIT;

	pick(bytes, true, &newer);
	return spool_file_append_all(path, SPOOL_NEWER, &newer);
}

/* Nobody could take in what is there, and most of it is not for this program: it goes elsewhere. */
static int move_newer(const char *path)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT, newer = BUF_INIT, own = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	uint64_t now = clock_wall_ns();
	bool is_whole;
	int moved, r = spool_file_open(path, SPOOL_ENDS, &fd);

	if (r == 0)
		r = spool_file_read(fd, SPOOL_ENDS, &bytes);
	if (r < 0)
		return r;
	is_whole = pick(&bytes, true, &newer);
	pick(&bytes, false, &own);
	if (newer.len == 0)
		return -EFBIG;
	moved = spool_file_append_all(path, SPOOL_NEWER, &newer);
	if (moved < 0 && moved != -EFBIG)
		return moved;
	r = spool_file_set_aside(path, SPOOL_ENDS, now);
	if (r == 0)
		r = spool_file_append_all(path, SPOOL_ENDS, &own);
	if (r == 0 && moved == 0 && is_whole) /* else doctor names it */
		spool_file_drop_aside(path, now);
	return r;
}

/* ---- keeping ---- */

static int keep(const char *path, const struct attempt *a, bool is_bare)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	int r = spool_record_write(a, is_bare, &bytes);

	if (r == 0)
		r = spool_file_append(path, bytes.data, bytes.len);
	if (r == -EFBIG && move_newer(path) == 0)
		r = spool_file_append(path, bytes.data, bytes.len);
	return r;
}

int store_keep_end(const char *path, const struct attempt *a, struct err *err)
{
	int r = keep(path, a, false);

	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		r = keep(path, a, true);
	return r < 0 ? err_set(err, r, "it cannot be kept in %s-spool either (%s)", path,
			       strerror(-r))
		     : 0;
}

bool store_has_kept(const char *path)
{
	return spool_file_has_records(path, SPOOL_ENDS);
}

/* ---- taking in ---- */

/* The row of what was run; a->id stays 0 if it was never begun. */
static int find_run(struct store *store, const struct attempt_names *names, struct attempt *a,
		    bool *ret_has_end, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_FIND_RUN, &q, err);

	*ret_has_end = false;
	if (r < 0)
		return r;
	attempt_bind_names(&q, names);
	query_bind_columns(&q, &attempt_identity_columns, a);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	a->id = query_read_i64(&q);
	*ret_has_end = query_read_i64(&q);
	return 0;
}

/*
 * One that has its end may have been taken in before; or a nearly full disk took the end and
 * nothing of this (store_finish_attempt()). What is there already is not added.
 */
static int merge_rest(struct store *store, const struct attempt *a, struct err *err)
{
	int r = rows_write(store, STATEMENT_MERGE_LEFT, a->id, &event_columns, a->events,
			   a->n_events, sizeof(*a->events), err);

	if (r == 0)
		r = rows_write(store, STATEMENT_MERGE_RUNG, a->id, &rung_columns, a->rungs,
			       a->n_rungs, sizeof(*a->rungs), err);
	return r < 0 ? r
		     : rows_write(store, STATEMENT_MERGE_UNKNOWN, a->id, &unknown_columns,
				  a->unknowns, a->n_unknowns, sizeof(*a->unknowns), err);
}

/* Its ticks are folded by retention: whoever takes it in may have a tick of its own to write. */
static int write_run(struct store *store, const struct attempt_names *names, struct attempt *a,
		     struct err *err)
{
	int r = a->id ? 0 : attempt_add(store, a, names, &a->id, &a->attempt_num, err);

	return r < 0 ? r : attempt_write_end(store, a, err);
}

/* What the database has is right: an end that is there is not replaced. */
static int take_attempt(struct store *store, struct attempt *a, struct err *err)
{
	struct attempt_names names;
	bool has_end = false;
	int r = attempt_intern(store, a, &names, err);

	if (r == 0)
		r = find_run(store, &names, a, &has_end, err);
	if (r == 0 && !has_end)
		r = write_run(store, &names, a, err);
	return r < 0 ? r : merge_rest(store, a, err);
}

static int run_sql(struct store *store, const char *sql, struct err *err)
{
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : store_failure(store, err);
}

/* What became of the records. */
struct intake {
	int n_taken;
	bool has_bad, has_newer;
};

/*
 * 1: it was. 0: it makes no sense, not here, or not to the database (-EINVAL), which is its own
 * fault and nobody else's. -EPROTO: it is of a newer version. After any other failure the
 * transaction is given up.
 */
static int take_record(struct store *store, const void *bytes, size_t len, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int taken, r;

	attempt_init(&a);
	if (spool_record_is_newer(bytes, len))
		return -EPROTO;
	r = spool_record_read(bytes, len, &a);
	if (r < 0)
		return r == -EBADMSG ? 0 : store_no_memory(store, err);
	r = run_sql(store, "SAVEPOINT record", err);
	if (r < 0)
		return r;
	taken = take_attempt(store, &a, err);
	if (taken == -EINVAL)
		r = run_sql(store, "ROLLBACK TO record", err);
	else if (taken < 0)
		return taken;
	if (r == 0)
		r = run_sql(store, "RELEASE record", err);
	return r < 0 ? r : taken == 0;
}

/* Inside the transaction. */
static int take_records(struct store *store, const struct buf *bytes, struct intake *intake,
			struct err *err)
{
	const char *at = bytes->data, *end = bytes->data + bytes->len;
	const void *record;
	size_t len;
	int next, r = 0;

	while (r >= 0 && (next = spool_next(&at, end, &record, &len)) != 0) {
		r = next < 0 ? 0 : take_record(store, record, len, err);
		intake->n_taken += r > 0;
		intake->has_bad |= r == 0;
		intake->has_newer |= r == -EPROTO;
		r = r == -EPROTO ? 0 : r;
	}
	return r < 0 ? r : 0;
}

/* What nobody here can read is not thrown away. By who has its lock. */
static void set_aside(struct store *store, enum spool_part part, uint64_t wall_ns)
{
	int64_t now = (int64_t)wall_ns;
	const struct damage d = { DAMAGED_ENDS, now, 0, 1, now, now };

	damage_leave_out(store, &d, NULL);
	if (spool_file_set_aside(store->path, part, wall_ns) == 0)
		store->aside_wall_ns = wall_ns;
}

bool store_tell_set_aside(struct store *store, struct buf *out)
{
	CLEANUP(free_ptr) char *name = spool_file_aside_name(store->path, store->aside_wall_ns);
	bool is_told = store->aside_wall_ns > 0 && name;

	if (is_told)
		buf_add_str(out, name);
	store->aside_wall_ns = 0;
	return is_told;
}

size_t store_find_set_aside(const char *path, struct buf *out)
{
	return spool_file_find_aside(path, out);
}

/* Those that wait for a newer one are moved. Without room on the disk all stay as they are. */
static void clean_up_ends(struct store *store, int fd, const struct buf *bytes,
			  const struct intake *intake)
{
	int r = intake->has_newer ? put_to_newer(store->path, bytes) : 0;

	if (intake->has_bad || r == -EFBIG || r == -EBADMSG)
		set_aside(store, SPOOL_ENDS, clock_wall_ns());
	else if (r == 0)
		spool_file_clear(fd);
}

/* Those that still wait stay, alone. While they are in no new file the old one is there. */
static void clean_up_newer(struct store *store, int fd, const struct buf *bytes,
			   const struct intake *intake)
{
	uint64_t now = clock_wall_ns();

	if (!intake->has_newer && !intake->has_bad)
		spool_file_clear(fd);
	else if (intake->has_bad)
		set_aside(store, SPOOL_NEWER, now);
	else if (intake->n_taken == 0 || spool_file_set_aside(store->path, SPOOL_NEWER, now) < 0)
		return;
	if (intake->has_newer && put_to_newer(store->path, bytes) == 0 && !intake->has_bad)
		spool_file_drop_aside(store->path, now);
}

/* What was taken in is on the disk; if not it is taken in once more, which changes nothing. */
static void clean_up(struct store *store, enum spool_part part, int fd, const struct buf *bytes,
		     const struct intake *intake)
{
	if (part == SPOOL_ENDS)
		clean_up_ends(store, fd, bytes, intake);
	else
		clean_up_newer(store, fd, bytes, intake);
}

/* Locks the file, for as long as fd is open. */
static int read_kept(struct store *store, enum spool_part part, int *ret_fd, struct buf *ret,
		     struct err *err)
{
	int r = spool_file_open(store->path, part, ret_fd);

	if (r == 0)
		r = spool_file_read(*ret_fd, part, ret);
	if (r == -EBADMSG)
		set_aside(store, part, clock_wall_ns());
	if (r == 0 || r == -EBADMSG || r == -EBUSY || r == -ENOENT) /* another has it all */
		return 0;
	return err_set(err, r, "%s-spool cannot be read: %s", store->path, strerror(-r));
}

/*
 * The database comes first: who has the lock of the file would keep those waiting who append,
 * and they do so because somebody has the lock of the database. What is cleared is on the disk
 * elsewhere: here nobody leaves it to another thread.
 */
static int take_in(struct store *store, enum spool_part part, struct err *err)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct intake intake = { 0 };
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = read_kept(store, part, &fd, &bytes, err);
	if (r < 0 || bytes.len == 0)
		return r;
	r = take_records(store, &bytes, &intake, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r < 0)
		return r;
	store->n_attempt_writes++;
	if (store_settle(store) == 0)
		clean_up(store, part, fd, &bytes, &intake);
	return intake.n_taken;
}

int store_take_in(struct store *store, struct err *err)
{
	uint64_t patience_ns = store->patience_ns;
	bool has_ends = store_has_kept(store->path);
	bool has_news = spool_has_news(store);
	int n = 0, r = 0;

	store->patience_ns = 0;
	if (has_news)
		n = take_in(store, SPOOL_NEWER, err);
	if (n < 0)
		store->newer_bytes = 0; /* later, then */
	if (has_ends && n >= 0)
		r = take_in(store, SPOOL_ENDS, err);
	store->patience_ns = patience_ns;
	r = n < 0 ? n : r < 0 ? r : n + r;
	return r == -EBUSY ? 0 : r;
}
