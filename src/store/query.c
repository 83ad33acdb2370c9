#include "store/query.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/codec/codec.h"
#include "store/handle.h"

/*
 * Of PRAGMA synchronous. NORMAL does without a sync where there is a log: settle_log()
 * (db/journal.c) does it when others can write again. EXTRA syncs, and with a rollback journal also
 * that the journal is gone.
 */
enum { SYNCHRONOUS_NORMAL = 1, SYNCHRONOUS_EXTRA = 3 };

/*
 * ---- how a field of a struct (model/columns.h) is kept in a column of SQLite, exactly ----
 *
 * Unknown is NULL. SQLite's integers are signed, so values from 2^63 up are kept as the negative
 * number with the same bits: nothing is lost, and FD_LIMIT_UNLIMITED is -2. Outcomes, evidence and
 * types of events are kept by name.
 */

/* SQLite's result code. What the field points at lives until the statement has run. */
static int column_bind(const struct column *c, sqlite3_stmt *stmt, int index, const void *from)
{
	const void *field = (const char *)from + c->offset;
	const char *s = NULL; /* NULL becomes NULL */

	switch (c->type) {
	case COLUMN_U64:
	case COLUMN_BITS_OR_NONE:
		if (!u64_known(*(const uint64_t *)field))
			return sqlite3_bind_null(stmt, index);
		__attribute__((fallthrough));
	case COLUMN_BITS:
		return sqlite3_bind_int64(stmt, index, (sqlite3_int64) * (const uint64_t *)field);
	case COLUMN_F64:
		return sqlite3_bind_double(stmt, index, *(const double *)field); /* NaN is NULL */
	case COLUMN_FLAG:
		return sqlite3_bind_int(stmt, index, *(const bool *)field);
	case COLUMN_INT_OR_NONE:
		if (*(const int *)field < 0)
			return sqlite3_bind_null(stmt, index);
		__attribute__((fallthrough));
	case COLUMN_INT:
		return sqlite3_bind_int(stmt, index, *(const int *)field);
	case COLUMN_TEXT:
		s = *(const char *const *)field;
		break;
	case COLUMN_DETAIL:
		s = *(const char *const *)field;
		s = s ? s : "";
		break;
	case COLUMN_CHARS:
		s = *(const char *)field ? field : NULL;
		break;
	case COLUMN_OUTCOME:
		s = outcome_name(*(const enum outcome *)field);
		break;
	case COLUMN_CAUSE:
		s = cause_name(*(const enum cause_kind *)field);
		break;
	case COLUMN_EVIDENCE:
		if (*(const enum evidence *)field != EVIDENCE_UNKNOWN)
			s = evidence_name(*(const enum evidence *)field);
		break;
	case COLUMN_EVENT_TYPE:
		s = event_type_name(*(const enum event_type *)field);
		break;
	case COLUMN_ANOMALY_TYPE:
		s = anomaly_type_name(*(const enum anomaly_type *)field);
		break;
	case COLUMN_SEVERITY:
		s = severity_name(*(const enum severity *)field);
		break;
	case COLUMN_CHANGE:
		s = episode_change_name(*(const enum episode_change *)field);
		break;
	case N_COLUMN_TYPES:
		break;
	}
	return sqlite3_bind_text(stmt, index, s, -1, SQLITE_STATIC);
}

static int read_string(const struct column *c, sqlite3_stmt *stmt, int index, void *field,
		       struct arena *arena)
{
	const char *s = (const char *)sqlite3_column_text(stmt, index);
	size_t len = s ? (size_t)sqlite3_column_bytes(stmt, index) : 0;

	if (!s && sqlite3_column_type(stmt, index) != SQLITE_NULL)
		return -ENOMEM;
	if (c->type == COLUMN_CHARS) {
		if (len >= c->size)
			return -EBADMSG;
		memset(field, 0, c->size);
		memcpy(field, s ? s : "", len);
		return 0;
	}
	if (s && arena) {
		s = arena_strndup(arena, s, len);
		if (!s)
			return -ENOMEM;
	}
	*(const char **)field = s;
	return 0;
}

/*
 * -EBADMSG: no such value can have been written. -ENOMEM. Strings are copied into the arena;
 * without one they are SQLite's and live until the next step.
 */
static int column_read(const struct column *c, sqlite3_stmt *stmt, int index, void *to,
		       struct arena *arena)
{
	const bool is_null = sqlite3_column_type(stmt, index) == SQLITE_NULL;
	void *field = (char *)to + c->offset;
	const char *name =
		c->type >= COLUMN_OUTCOME ? (const char *)sqlite3_column_text(stmt, index) : NULL;
	sqlite3_int64 v;

	switch (c->type) {
	case COLUMN_U64:
	case COLUMN_BITS:
	case COLUMN_BITS_OR_NONE:
		*(uint64_t *)field = c->type != COLUMN_BITS && is_null
					     ? U64_UNKNOWN
					     : (uint64_t)sqlite3_column_int64(stmt, index);
		return 0;
	case COLUMN_F64:
		*(double *)field = is_null ? F64_UNKNOWN : sqlite3_column_double(stmt, index);
		return 0;
	case COLUMN_FLAG:
		*(bool *)field = sqlite3_column_int(stmt, index) != 0;
		return 0;
	case COLUMN_INT_OR_NONE:
	case COLUMN_INT:
		v = c->type == COLUMN_INT_OR_NONE && is_null ? -1
							     : sqlite3_column_int64(stmt, index);
		if (v < INT_MIN || v > INT_MAX)
			return -EBADMSG;
		*(int *)field = (int)v;
		return 0;
	case COLUMN_TEXT:
	case COLUMN_DETAIL:
	case COLUMN_CHARS:
		return read_string(c, stmt, index, field, arena);
	case COLUMN_OUTCOME:
		*(enum outcome *)field = outcome_from_name(name);
		return 0;
	case COLUMN_CAUSE:
		return cause_from_name(name, field) < 0 ? -EBADMSG : 0;
	case COLUMN_EVIDENCE:
		*(enum evidence *)field = evidence_from_name(name);
		return 0;
	case COLUMN_EVENT_TYPE:
		return event_type_from_name(name, field) < 0 ? -EBADMSG : 0;
	case COLUMN_ANOMALY_TYPE:
		return anomaly_type_from_name(name, field) < 0 ? -EBADMSG : 0;
	case COLUMN_SEVERITY:
		return severity_from_name(name, field) < 0 ? -EBADMSG : 0;
	case COLUMN_CHANGE:
		return episode_change_from_name(name, field) < 0 ? -EBADMSG : 0;
	case N_COLUMN_TYPES:
		break;
	}
	return -EBADMSG;
}

/* ---- statements ---- */

int query_open(struct store *store, enum statement id, struct query *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;

	if (!store->statements[id]) {
		statement_write(id, &sql);
		if (buf_error(&sql) < 0)
			return store_no_memory(store, err);
		if (sqlite3_prepare_v3(store->db, sql.data, (int)sql.len + 1,
				       SQLITE_PREPARE_PERSISTENT, &store->statements[id],
				       NULL) != SQLITE_OK)
			return store_failure(store, err);
	}
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

static void bind_blob(struct query *q, int64_t key, const void *data, size_t len)
{
	note(q, sqlite3_bind_blob64(q->stmt, ++q->next, data, len, SQLITE_STATIC));
	note(q, sqlite3_bind_int(q->stmt, ++q->next, seal_up(key, data, len)));
}

void query_bind_columns(struct query *q, const struct columns *columns, const void *from)
{
	for (size_t i = 0; i < columns->n; i++) {
		const struct column *c = &columns->items[i];

		if (c->name)
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

const void *query_read_blob(struct query *q, int64_t key, size_t *ret_len)
{
	const void *data = sqlite3_column_blob(q->stmt, q->next);

	*ret_len = data ? (size_t)sqlite3_column_bytes(q->stmt, q->next) : 0;
	q->next++;
	if (query_is_null(q) ||
	    sqlite3_column_int64(q->stmt, q->next) != seal_up(key, data, *ret_len))
		*ret_len = 0;
	q->next++;
	return data ? data : "";
}

int query_read_pack(struct query *q, int64_t key, struct buf *ret, struct err *err)
{
	size_t len;
	const void *data = query_read_blob(q, key, &len);
	int r = len > 0 ? pack_read(data, len, ret) : -EBADMSG;

	return r == -ENOMEM ? store_no_memory(q->store, err) : r;
}

int query_read_columns(struct query *q, const struct columns *columns, void *to,
		       struct arena *arena, struct err *err)
{
	const char *damaged = NULL;

	for (size_t i = 0; i < columns->n; i++) {
		const struct column *c = &columns->items[i];
		int r = c->name ? column_read(c, q->stmt, q->next++, to, arena) : 0;

		if (r == -EBADMSG)
			damaged = damaged ? damaged : c->name;
		else if (r < 0)
			return store_no_memory(q->store, err);
	}
	return damaged ? store_damaged(q->store, damaged, err) : 0;
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

int query_run_alone(struct store *store, enum statement id, struct err *err)
{
	return query_run_with(store, id, err, NULL, 0);
}

int query_open_with(struct store *store, enum statement id, struct query *ret, struct err *err,
		    const int64_t *numbers, size_t n)
{
	int r = query_open(store, id, ret, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		query_bind_i64(ret, numbers[i]);
	return r;
}

int query_step_with(struct store *store, enum statement id, struct query *ret, struct err *err,
		    const int64_t *numbers, size_t n)
{
	int r = query_open_with(store, id, ret, err, numbers, n);

	return r < 0 ? r : query_step(ret, err);
}

int query_run_with(struct store *store, enum statement id, struct err *err, const int64_t *numbers,
		   size_t n)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open_with(store, id, &q, err, numbers, n);

	return r < 0 ? r : query_run(&q, err);
}

static int open_values(struct store *store, enum statement id, struct query *ret, struct err *err,
		       const struct query_value *values, size_t n)
{
	int r = query_open(store, id, ret, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct query_value *v = &values[i];

		if (v->kind == VALUE_I64 || v->kind == VALUE_NULL)
			query_bind_i64_if(ret, v->kind == VALUE_I64, v->number);
		else if (v->kind == VALUE_TEXT)
			query_bind_text(ret, v->data);
		else if (v->kind == VALUE_BYTES)
			note(ret, sqlite3_bind_blob64(ret->stmt, ++ret->next, v->data, v->len,
						      SQLITE_STATIC));
		else if (v->kind == VALUE_BLOB)
			bind_blob(ret, v->number, v->data, v->len);
		else
			query_bind_columns(ret, v->columns, v->data);
	}
	return r;
}

int query_put_values(struct store *store, enum statement id, struct err *err,
		     const struct query_value *values, size_t n)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = open_values(store, id, &q, err, values, n);

	return r < 0 ? r : query_run(&q, err);
}

int query_find_values(struct store *store, enum statement id, struct query *ret, struct err *err,
		      const struct query_value *values, size_t n)
{
	int r = open_values(store, id, ret, err, values, n);

	return r < 0 ? r : query_step(ret, err);
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

int job_find_row(struct store *store, const char *job_id, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_find(store, STATEMENT_FIND_JOB, &q, err, V_TEXT(job_id));

	*ret = r > 0 ? query_read_i64(&q) : -1;
	return r < 0 ? r : 0;
}

void statement_finalize(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}

/* ---- meta ---- */

int meta_read(struct store *store, const char *key, int64_t *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_find(store, STATEMENT_READ_META, &q, err, V_TEXT(key));

	*ret = r > 0 ? query_read_i64(&q) : 0;
	return r < 0 ? r : 0;
}

int meta_write(struct store *store, const char *key, int64_t value, struct err *err)
{
	return query_put(store, STATEMENT_WRITE_META, err, V_TEXT(key), V_I64(value));
}

int meta_raise(struct store *store, const char *key, int64_t value, struct err *err)
{
	return query_put(store, STATEMENT_RAISE_META, err, V_TEXT(key), V_I64(value));
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

	if (store->is_borrowed || store->is_batch) /* the caller has begun one */
		return 0;
	if (begin == STATEMENT_BEGIN_READ && !sqlite3_get_autocommit(store->db))
		return 0;
	lock_wait_renew(store);
	r = query_run_alone(store, begin, err);
	if (r < 0)
		return r;
	if (store->log_error && begin == STATEMENT_BEGIN_WRITE)
		journal_mend_log(store);
	*ret_txn = store;
	return 0;
}

int txn_commit(struct store **txn, struct err *err)
{
	int r = *txn ? query_run_alone(*txn, STATEMENT_COMMIT, err) : 0;

	if (r < 0)
		return r;
	*txn = NULL;
	return 0;
}

void txn_abort(struct store **txn)
{
	/* Some failures (no room, I/O) have made SQLite undo it already. */
	if (*txn && !sqlite3_get_autocommit((*txn)->db))
		query_run_alone(*txn, STATEMENT_ROLLBACK, NULL);
	*txn = NULL;
}

int rows_write(struct store *store, enum statement id, int64_t attempt_id,
	       const struct columns *columns, const void *items, size_t n, size_t item_size,
	       struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = n > 0 ? query_open(store, id, &q, err) : 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		query_bind_i64(&q, attempt_id);
		query_bind_columns(&q, columns, (const char *)items + i * item_size);
		r = query_run(&q, err);
	}
	return r;
}

/* Items found so far. They move while they become more, so they get to the arena at the end. */
struct growing {
	char *items;
	size_t n, cap;
};

static void growing_release(struct growing *g)
{
	free(g->items);
}

int row_read(struct query *q, const struct row_part *parts, size_t n_parts, void *item,
	     struct arena *arena, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_parts; i++)
		r = query_read_columns(q, parts[i].columns, (char *)item + parts[i].offset, arena,
				       err);
	return r;
}

/* With damage: rows begin with their id and time, and those that make no sense are left out. */
static int read_rows(struct query *q, const struct damage *kind, const struct row_part *parts,
		     size_t n_parts, size_t item_size, struct arena *arena, void *ret_items,
		     size_t *ret_n, struct err *err)
{
	CLEANUP(growing_release) struct growing g = { 0 };
	void *items = NULL;
	int r;

	while ((r = query_step(q, err)) > 0) {
		struct damage d = kind ? *kind : (struct damage){ 0 };

		if (array_reserve(&g.items, &g.cap, g.n + 1, item_size) < 0)
			return store_no_memory(q->store, err);
		if (kind) {
			d.id = query_read_i64(q);
			d.first_ns = d.last_ns = query_read_i64(q);
			d.n = 1;
		}
		memset(g.items + g.n * item_size, 0, item_size);
		r = row_read(q, parts, n_parts, g.items + g.n * item_size, arena, err);
		g.n += r == 0;
		if (r == -EBADMSG && kind)
			r = damage_leave_out(q->store, &d, err);
		if (r < 0)
			return r;
	}
	if (r == 0 && g.n > 0) {
		items = arena_alloc(arena, g.n * item_size);
		if (!items)
			return store_no_memory(q->store, err);
		memcpy(items, g.items, g.n * item_size);
	}
	memcpy(ret_items, &items, sizeof(items));
	*ret_n = g.n;
	return r;
}

int rows_read_sound(struct query *q, const struct damage *kind, const struct columns *columns,
		    size_t item_size, struct arena *arena, void *ret_items, size_t *ret_n,
		    struct err *err)
{
	const struct row_part part = { columns, 0 };

	return read_rows(q, kind, &part, 1, item_size, arena, ret_items, ret_n, err);
}

int rows_read(struct query *q, const struct row_part *parts, size_t n_parts, size_t item_size,
	      struct arena *arena, void *ret_items, size_t *ret_n, struct err *err)
{
	return read_rows(q, NULL, parts, n_parts, item_size, arena, ret_items, ret_n, err);
}
