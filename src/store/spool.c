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
#include "store/fold.h"
#include "store/handle.h"
#include "store/migrate.h"
#include "store/spool_file.h"
#include "store/spool_values.h"
#include "store/tables.h"
#include "store/write.h"

/*
 * A record: version and layout, the job and the boot, who ran it and when it began, its
 * columns as store_begin_attempt() and store_finish_attempt() write them, the sheets with
 * their ranks, the notes. How many there are of these stands before them.
 */
#define RECORD_VERSION 1
#define COUNT_MAX 65536

/* ---- keeping ---- */

static void write_sheet(struct value_writer *w, const struct sheet_record *sheet)
{
	value_write_columns(w, &sheet_columns, sheet);
	value_write_columns(w, &usage_columns, &sheet->usage);
	value_write_i64(w, (int64_t)sheet->n_ranks);
	for (size_t i = 0; i < sheet->n_ranks; i++)
		value_write_columns(w, &rank_columns, &sheet->ranks[i]);
}

static void write_attempt(struct value_writer *w, const struct attempt *a, bool is_bare)
{
	size_t n_sheets = is_bare ? 0 : a->n_sheets, n_notes = is_bare ? 0 : a->n_unknowns;

	value_write_i64(w, RECORD_VERSION);
	value_write_i64(w, layout_latest);
	value_write_text(w, a->job_id);
	value_write_text(w, a->boot_id[0] ? a->boot_id : NULL);
	value_write_columns(w, &attempt_identity_columns, a);
	value_write_columns(w, &attempt_begin_columns, a);
	value_write_columns(w, &attempt_progress_columns, a);
	value_write_columns(w, &attempt_end_columns, a);
	value_write_columns(w, &usage_columns, &a->usage);
	value_write_i64(w, (int64_t)n_sheets);
	for (size_t i = 0; i < n_sheets; i++)
		write_sheet(w, &a->sheets[i]);
	value_write_i64(w, (int64_t)n_notes);
	for (size_t i = 0; i < n_notes; i++)
		value_write_columns(w, &unknown_columns, &a->unknowns[i]);
}

static int keep(const char *path, const struct attempt *a, bool is_bare)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	CLEANUP(value_writer_close) struct value_writer w;
	int r = value_writer_open(&w, &bytes);

	if (r < 0)
		return r;
	write_attempt(&w, a, is_bare);
	if (w.failed || buf_error(&bytes) < 0)
		return -ENOMEM;
	return spool_file_append(path, bytes.data, bytes.len);
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

/* A record that is being taken in. */
struct taking {
	struct store *store;
	struct value_reader r;
	int64_t job, boot; /* rows; boot 0: unknown */
	int64_t attempt;   /* its row; 0: it was never begun */
	bool has_end;
};

static void bind_boot(const struct taking *t, struct query *q)
{
	if (t->boot)
		query_bind_i64(q, t->boot);
	else
		query_bind_text(q, NULL);
}

static int find_run(struct taking *t, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(t->store, STATEMENT_FIND_RUN, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, t->job);
	bind_boot(t, &q);
	value_bind(&t->r, &q, attempt_identity_columns.n);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	t->attempt = query_read_i64(&q);
	t->has_end = query_read_i64(&q);
	return 0;
}

/* Leaves the reader at the progress, which the end has as well. */
static int begin_run(struct taking *t, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct value_reader progress;
	int r = 0;

	if (t->attempt) {
		value_skip(&t->r, attempt_begin_columns.n);
		return 0;
	}
	r = query_open(t->store, STATEMENT_ADD_ATTEMPT, &q, err);
	if (r < 0)
		return r;
	query_bind_i64(&q, t->job);
	bind_boot(t, &q);
	value_bind(&t->r, &q, attempt_begin_columns.n);
	progress = t->r;
	value_bind(&progress, &q, attempt_progress_columns.n);
	r = query_step(&q, err);
	if (r <= 0)
		return r;
	t->attempt = query_read_i64(&q);
	return query_run(&q, err);
}

static int end_run(struct taking *t, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(t->store, STATEMENT_SET_END, &q, err);

	if (r < 0)
		return r;
	value_bind(&t->r, &q, attempt_progress_columns.n + attempt_end_columns.n + usage_columns.n);
	query_bind_i64(&q, t->attempt);
	return query_run(&q, err);
}

static int64_t read_count(struct taking *t)
{
	int64_t n = value_read_i64(&t->r);

	t->r.failed |= n < 0 || n > COUNT_MAX;
	return t->r.failed ? 0 : n;
}

static int drop_ranks(struct taking *t, int64_t num, int64_t try_num, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(t->store, STATEMENT_DROP_RANKS, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, t->attempt);
	query_bind_i64(&q, num);
	query_bind_i64(&q, try_num);
	return query_run(&q, err);
}

static int take_ranks(struct taking *t, int64_t num, int64_t try_num, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t n = read_count(t);
	int r = drop_ranks(t, num, try_num, err);

	if (r == 0)
		r = query_open(t->store, STATEMENT_ADD_RANK, &q, err);
	for (int64_t i = 0; r == 0 && i < n && !t->r.failed; i++) {
		query_bind_i64(&q, t->attempt);
		query_bind_i64(&q, num);
		query_bind_i64(&q, try_num);
		value_bind(&t->r, &q, rank_columns.n);
		r = t->r.failed ? 0 : query_run(&q, err);
	}
	return r;
}

static int take_sheet(struct taking *t, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	struct value_reader key = t->r; /* number and try come first */
	int64_t num = value_read_i64(&key), try_num = value_read_i64(&key);
	int r = query_open(t->store, STATEMENT_PUT_SHEET, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, t->attempt);
	value_bind(&t->r, &q, sheet_columns.n + usage_columns.n);
	if (t->r.failed)
		return 0;
	r = query_run(&q, err);
	return r < 0 ? r : take_ranks(t, num, try_num, err);
}

static int take_notes(struct taking *t, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int64_t n = read_count(t);
	int r = query_open(t->store, STATEMENT_ADD_UNKNOWN, &q, err);

	for (int64_t i = 0; r == 0 && i < n && !t->r.failed; i++) {
		query_bind_i64(&q, t->attempt);
		value_bind(&t->r, &q, unknown_columns.n);
		r = t->r.failed ? 0 : query_run(&q, err);
	}
	return r;
}

static int take_rest(struct taking *t, struct err *err)
{
	int64_t n_sheets = read_count(t);
	int r = 0;

	for (int64_t i = 0; r == 0 && i < n_sheets && !t->r.failed; i++)
		r = take_sheet(t, err);
	if (r == 0)
		r = take_notes(t, err);
	return r < 0 || t->r.failed ? r : fold_all(t->store, t->attempt, err);
}

static int find_names(struct taking *t, struct err *err)
{
	CLEANUP(free_ptr) char *job_id = value_read_text(&t->r);
	CLEANUP(free_ptr) char *boot_id = value_read_text(&t->r);
	int r = 0;

	if (t->r.failed || !job_id) {
		t->r.failed = true;
		return 0;
	}
	r = text_intern(t->store, STATEMENT_FIND_JOB, STATEMENT_ADD_JOB, job_id, &t->job, err);
	if (r == 0 && boot_id)
		r = text_intern(t->store, STATEMENT_FIND_BOOT, STATEMENT_ADD_BOOT, boot_id,
				&t->boot, err);
	return r;
}

/* One that has its end is done: who took it in was killed before it could say so. */
static int take_attempt(struct taking *t, struct err *err)
{
	int r = find_names(t, err);

	if (r == 0 && !t->r.failed)
		r = find_run(t, err);
	if (r < 0 || t->r.failed || t->has_end)
		return r;
	r = begin_run(t, err);
	if (r == 0 && !t->r.failed)
		r = end_run(t, err);
	return r < 0 || t->r.failed ? r : take_rest(t, err);
}

/* 1: it was. 0: it makes no sense, or not to this version. */
static int take_record(struct store *store, const void *bytes, size_t len, struct err *err)
{
	struct taking t = { .store = store, .r = { .p = bytes, .end = (const char *)bytes + len } };
	int r;

	if (value_read_i64(&t.r) != RECORD_VERSION || value_read_i64(&t.r) != layout_latest)
		return 0;
	if (sqlite3_exec(store->db, "SAVEPOINT record", NULL, NULL, NULL) != SQLITE_OK)
		return store_failure(store, err);
	r = take_attempt(&t, err);
	if (r < 0)
		return r; /* the transaction is given up */
	if (t.r.failed)
		sqlite3_exec(store->db, "ROLLBACK TO record", NULL, NULL, NULL);
	if (sqlite3_exec(store->db, "RELEASE record", NULL, NULL, NULL) != SQLITE_OK)
		return store_failure(store, err);
	return !t.r.failed;
}

/* Inside the transaction. */
static int take_records(struct store *store, const struct buf *bytes, int *ret_taken, bool *ret_all,
			struct err *err)
{
	const char *at = bytes->data, *end = bytes->data + bytes->len;
	const void *record;
	size_t len;
	int next, r = 0;

	*ret_all = true;
	while (r >= 0 && (next = spool_next(&at, end, &record, &len)) != 0) {
		r = next < 0 ? 0 : take_record(store, record, len, err);
		*ret_all &= r > 0;
		*ret_taken += r > 0;
		if (next < 0)
			break;
	}
	return r < 0 ? r : 0;
}

/* What nobody here can read is not thrown away. By who has its lock. */
static void set_aside(struct store *store)
{
	int64_t now = (int64_t)clock_wall_ns();
	const struct damage d = { DAMAGED_ENDS, now, 0, 1, now, now };

	damage_leave_out(store, &d, NULL);
	spool_file_set_aside(store->path, (uint64_t)now);
}

/* Locks the file, for as long as fd is open. */
static int read_kept(struct store *store, int *ret_fd, struct buf *ret, struct err *err)
{
	int r = spool_file_open(store->path, ret_fd);

	if (r == 0)
		r = spool_file_read(*ret_fd, ret);
	if (r == -EBADMSG)
		set_aside(store);
	if (r == 0 || r == -EBADMSG || r == -EBUSY || r == -ENOENT) /* another has it all */
		return 0;
	return err_set(err, r, "%s-spool cannot be read: %s", store->path, strerror(-r));
}

/*
 * The database comes first: who has the lock of the file would keep those waiting who append,
 * and they do so because somebody has the lock of the database.
 */
static int take_in(struct store *store, struct err *err)
{
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	CLEANUP(close_fd) int fd = -1;
	CLEANUP(txn_abort) struct store *txn = NULL;
	bool is_all = true;
	int n = 0, r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);

	if (r == 0)
		r = read_kept(store, &fd, &bytes, err);
	if (r < 0 || bytes.len == 0)
		return r;
	r = take_records(store, &bytes, &n, &is_all, err);
	if (r == 0)
		r = txn_commit(&txn, err);
	if (r < 0)
		return r;
	store->n_attempt_writes++;
	if (is_all)
		spool_file_clear(fd); /* else it is taken in once more, which changes nothing */
	else
		set_aside(store);
	return n;
}

int store_take_in(struct store *store, struct err *err)
{
	uint64_t patience_ns = store->patience_ns;
	int r;

	if (!spool_file_has_records(store->path))
		return 0;
	store->patience_ns = 0;
	r = take_in(store, err);
	store->patience_ns = patience_ns;
	return r == -EBUSY ? 0 : r; /* later, then */
}
