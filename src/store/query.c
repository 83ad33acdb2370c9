#include "store/query.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/macros.h"
#include "store/failure.h"
#include "store/handle.h"
#include "store/journal.h"
#include "store/patience.h"

/*
 * Of PRAGMA synchronous. NORMAL does without a sync where there is a log: settle_log() (settle.c)
 * does it when others can write again. EXTRA syncs, and with a rollback journal also that the
 * journal is gone.
 */
enum { SYNCHRONOUS_NORMAL = 1, SYNCHRONOUS_EXTRA = 3 };

static int prepare(struct store *store, enum statement id, struct err *err)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;

	statement_write(id, &sql);
	if (buf_error(&sql) < 0)
		return err_set(err, -ENOMEM, "no memory left to use the database %s", store->path);
	if (sqlite3_prepare_v3(store->db, sql.data, (int)sql.len + 1, SQLITE_PREPARE_PERSISTENT,
			       &store->statements[id], NULL) != SQLITE_OK)
		return store_failure(store, err);
	return 0;
}

int query_open(struct store *store, enum statement id, struct query *ret, struct err *err)
{
	int r = store->statements[id] ? 0 : prepare(store, id, err);

	if (r < 0)
		return r;
	*ret = (struct query){ .store = store, .stmt = store->statements[id] };
	return 0;
}

void query_close(struct query *q)
{
	if (q->stmt)
		sqlite3_reset(q->stmt); /* repeats the error of the last step, told already */
	*q = (struct query)QUERY_INIT;
}

/* Keeps the first failure. */
static void note(struct query *q, int rc)
{
	if (q->rc == SQLITE_OK)
		q->rc = rc;
}

void query_bind_i64(struct query *q, int64_t v)
{
	note(q, sqlite3_bind_int64(q->stmt, ++q->next, v));
}

void query_bind_i64_if(struct query *q, bool is_known, int64_t v)
{
	note(q, is_known ? sqlite3_bind_int64(q->stmt, q->next + 1, v)
			 : sqlite3_bind_null(q->stmt, q->next + 1));
	q->next++;
}

void query_bind_text(struct query *q, const char *s)
{
	note(q, sqlite3_bind_text(q->stmt, ++q->next, s, -1, SQLITE_STATIC));
}

/* Signed, as that is at most 4 bytes in the file. */
static int32_t seal_up(int64_t key, const void *data, size_t len)
{
	uint64_t word = htole64((uint64_t)key);
	uint64_t hash = hash_bytes(hash_bytes(HASH_INIT, &word, sizeof(word)), data, len);

	return (int32_t)(uint32_t)(hash ^ hash >> 32);
}

void query_bind_blob(struct query *q, int64_t key, const void *data, size_t len)
{
	note(q, sqlite3_bind_blob64(q->stmt, ++q->next, data, len, SQLITE_STATIC));
	note(q, sqlite3_bind_int(q->stmt, ++q->next, seal_up(key, data, len)));
}

void query_bind_columns(struct query *q, const struct columns *columns, const void *from)
{
	for (size_t i = 0; i < columns->n; i++) {
		const struct column *c = &columns->items[i];

		note(q, column_bind(c, q->stmt, ++q->next, from));
	}
}

int query_step(struct query *q, struct err *err)
{
	int rc;

	q->next = 0;
	if (q->rc != SQLITE_OK)
		return store_failure(q->store, err);
	rc = sqlite3_step(q->stmt);
	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : store_failure(q->store, err);
}

bool query_is_null(const struct query *q)
{
	return sqlite3_column_type(q->stmt, q->next) == SQLITE_NULL;
}

int64_t query_read_i64(struct query *q)
{
	return sqlite3_column_int64(q->stmt, q->next++);
}

const char *query_read_text(struct query *q)
{
	return (const char *)sqlite3_column_text(q->stmt, q->next++);
}

const void *query_read_some_blob(struct query *q, int64_t key, size_t *ret_len, bool *ret_is_whole)
{
	const void *data = sqlite3_column_blob(q->stmt, q->next);

	*ret_len = data ? (size_t)sqlite3_column_bytes(q->stmt, q->next) : 0;
	q->next++;
	*ret_is_whole = !query_is_null(q) &&
			sqlite3_column_int64(q->stmt, q->next) == seal_up(key, data, *ret_len);
	q->next++;
	return data ? data : "";
}

const void *query_read_blob(struct query *q, int64_t key, size_t *ret_len)
{
	bool is_whole;
	const void *data = query_read_some_blob(q, key, ret_len, &is_whole);

	if (!is_whole)
		*ret_len = 0;
	return data;
}

int query_read_columns(struct query *q, const struct columns *columns, void *to,
		       struct arena *arena, struct err *err)
{
	for (size_t i = 0; i < columns->n; i++) {
		const struct column *c = &columns->items[i];
		int r = column_read(c, q->stmt, q->next++, to, arena);

		if (r == -EBADMSG)
			return err_set(
				err, r,
				"the database %s holds a %s that makes no sense; " ADVICE_DAMAGED,
				q->store->path, c->name);
		if (r < 0)
			return err_set(err, r, "no memory left to read the database %s",
				       q->store->path);
	}
	return 0;
}

int query_run(struct query *q, struct err *err)
{
	int r;

	do
		r = query_step(q, err);
	while (r > 0);
	sqlite3_reset(q->stmt);
	q->rc = SQLITE_OK;
	return r;
}

static int run(struct store *store, enum statement id, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	return r < 0 ? r : query_run(&q, err);
}

int query_run_for(struct store *store, enum statement id, int64_t key, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	query_bind_i64(&q, key);
	return query_run(&q, err);
}

int query_read_number(struct store *store, enum statement id, int64_t key, int64_t *ret,
		      struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, id, &q, err);

	if (r < 0)
		return r;
	if (sqlite3_bind_parameter_count(q.stmt) > 0)
		query_bind_i64(&q, key);
	r = query_step(&q, err);
	if (r <= 0 || query_is_null(&q))
		return r < 0 ? r : 0;
	*ret = query_read_i64(&q);
	return 1;
}

static int set_synchronous(struct store *store, int level, struct err *err)
{
	char sql[48];

	snprintf(sql, sizeof(sql), "PRAGMA synchronous = %d", level);
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : store_failure(store, err);
}

static bool has_log(const struct store *store)
{
	return strcmp(store->journal, "wal") == 0;
}

int durability_raise(struct store *store, struct err *err)
{
	store->syncs_log = has_log(store);
	return set_synchronous(store, store->syncs_log ? SYNCHRONOUS_NORMAL : SYNCHRONOUS_EXTRA,
			       err);
}

int durability_lower(struct store *store, int *ret_before, struct err *err)
{
	int64_t level = 0;
	int r;

	if (has_log(store)) {
		*ret_before = store->syncs_log;
		store->syncs_log = false;
		return 0;
	}
	r = query_read_number(store, STATEMENT_SYNCHRONOUS, 0, &level, err);
	*ret_before = (int)level;
	if (r < 0 || level <= SYNCHRONOUS_NORMAL)
		return r < 0 ? r : 0;
	return set_synchronous(store, SYNCHRONOUS_NORMAL, err);
}

int durability_restore(struct store *store, int before, struct err *err)
{
	if (has_log(store)) {
		store->syncs_log = before;
		return 0;
	}
	return before <= SYNCHRONOUS_NORMAL ? 0 : set_synchronous(store, before, err);
}

int txn_begin(struct store *store, enum statement begin, struct store **ret_txn, struct err *err)
{
	int r;

	if (store->is_borrowed) /* who calls us reads already */
		return 0;
	if (begin == STATEMENT_BEGIN_READ && !sqlite3_get_autocommit(store->db))
		return 0;
	patience_renew(store);
	r = run(store, begin, err);
	if (r < 0)
		return r;
	if (store->log_error && begin == STATEMENT_BEGIN_WRITE)
		journal_mend_log(store);
	*ret_txn = store;
	return 0;
}

int txn_commit(struct store **txn, struct err *err)
{
	int r = run(*txn, STATEMENT_COMMIT, err);

	if (r < 0)
		return r;
	*txn = NULL;
	return 0;
}

void txn_abort(struct store **txn)
{
	/* Some failures (no room, I/O) have made SQLite undo it already. */
	if (*txn && !sqlite3_get_autocommit((*txn)->db))
		run(*txn, STATEMENT_ROLLBACK, NULL);
	*txn = NULL;
}
