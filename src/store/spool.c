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

/* ---- keeping ---- */

static int keep(const char *path, const struct attempt *a, bool is_bare)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	int r = spool_record_write(a, is_bare, &bytes);

	if (r == 0)
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
	return spool_file_has_records(path);
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
	bool has_bad;
};

/*
 * 1: it was. 0: it makes no sense, not here, or not to the database (-EINVAL), which is its own
 * fault and nobody else's. After any other failure the transaction is given up.
 */
static int take_record(struct store *store, const void *bytes, size_t len, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int taken, r;

	attempt_init(&a);
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
	}
	return r < 0 ? r : 0;
}

/* What nobody here can read is not thrown away. By who has its lock. */
static void set_aside(struct store *store, uint64_t wall_ns)
{
	int64_t now = (int64_t)wall_ns;
	const struct damage d = { DAMAGED_ENDS, now, 0, 1, now, now };

	damage_leave_out(store, &d, NULL);
	if (spool_file_set_aside(store->path, wall_ns) == 0)
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

/* Locks the file, for as long as fd is open. */
static int read_kept(struct store *store, int *ret_fd, struct buf *ret, struct err *err)
{
	int r = spool_file_open(store->path, ret_fd);

	if (r == 0)
		r = spool_file_read(*ret_fd, ret);
	if (r == -EBADMSG)
		set_aside(store, clock_wall_ns());
	if (r == 0 || r == -EBADMSG || r == -EBUSY || r == -ENOENT) /* another has it all */
		return 0;
	return err_set(err, r, "%s-spool cannot be read: %s", store->path, strerror(-r));
}

/*
 * The database comes first: who has the lock of the file would keep those waiting who append,
 * and they do so because somebody has the lock of the database. What is cleared is on the disk
 * elsewhere: here nobody leaves it to another thread.
 */
static int take_in(struct store *store, struct err *err)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	CLEANUP(txn_abort) struct store *txn = NULL;
	struct intake intake = { 0 };
	int r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = read_kept(store, &fd, &bytes, err);
	if (r < 0 || bytes.len == 0)
		return r;
	r = take_records(store, &bytes, &intake, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r < 0)
		return r;
	store->n_attempt_writes++;
	if (store_settle(store) < 0) /* it is taken in once more, which changes nothing */
		return intake.n_taken;
	if (intake.has_bad)
		set_aside(store, clock_wall_ns());
	else
		spool_file_clear(fd);
	return intake.n_taken;
}

int store_take_in(struct store *store, struct err *err)
{
	uint64_t patience_ns = store->patience_ns;
	int r;

	store->patience_ns = 0;
	r = store_has_kept(store->path) ? take_in(store, err) : 0;
	store->patience_ns = patience_ns;
	return r == -EBUSY ? 0 : r;
}
