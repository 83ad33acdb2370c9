#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/columns.h"
#include "store/damage.h"
#include "store/sqlite.h"
#include "store/store.h"

/* Every SQL statement that is run after opening. */
enum statement {
#define STATEMENT(name_, ...) STATEMENT_##name_,
#include "store/statements.def"
	STATEMENT_COUNT
};

/* Appends the statement as SQLite gets it. */
void statement_write(enum statement id, struct buf *out);

/* For CLEANUP(), of statements that are none of these. */
void statement_finalize(sqlite3_stmt **stmt);

/*
 * query - runs these statements, inside transactions.
 *
 *	CLEANUP(query_close) struct query q = QUERY_INIT;
 *
 *	r = query_open(store, STATEMENT_ADD_EVENT, &q, err);
 *	if (r < 0)
 *		return r;
 *	query_bind_i64(&q, attempt_id);
 *	query_bind_columns(&q, &event_columns, event);
 *	return query_run(&q, err);
 *
 * Values are bound and read from left to right. A failure to bind is remembered
 * and comes out of the next query_step() or query_run(). What was bound has to
 * live until then. A statement is in use by one query at a time.
 */

struct query {
	struct store *store;
	sqlite3_stmt *stmt; /* the store's */
	int next;	    /* what is bound or read next, from 0 */
	int rc;
};

#define QUERY_INIT               \
	{                        \
		NULL, NULL, 0, 0 \
	}

int query_open(struct store *store, enum statement id, struct query *ret, struct err *err);
void query_close(struct query *q);

void query_bind_i64(struct query *q, int64_t v);
void query_bind_i64_if(struct query *q, bool is_known, int64_t v); /* else NULL */
void query_bind_text(struct query *q, const char *s);		   /* NULL is NULL */
void query_bind_columns(struct query *q, const struct columns *columns, const void *from);

/* 1: there is a row, to be read from its first column. 0: no more. */
int query_step(struct query *q, struct err *err);

bool query_is_null(const struct query *q);    /* what is read next */
int64_t query_read_i64(struct query *q);      /* NULL is 0 */
const char *query_read_text(struct query *q); /* lives until the next step; NULL is NULL */
/*
 * The next column, and the one behind it, which is its seal; key is that of its row. Lives until
 * the next step. Never NULL; empty, which no blob of ours is, where it is not the one that was
 * written.
 */
const void *query_read_blob(struct query *q, int64_t key, size_t *ret_len);
/* The bytes that such a blob was packed of (codec.h). -EBADMSG, without a sentence. */
int query_read_pack(struct query *q, int64_t key, struct buf *ret, struct err *err);
/* Strings go into the arena, or live until the next step where there is none. */
int query_read_columns(struct query *q, const struct columns *columns, void *to,
		       struct arena *arena, struct err *err);

/*
 * Opening with its first values, where those are numbers: query_ask() is query_open() and
 * query_bind_i64() for each; query_first() also takes the first step, and returns what that does;
 * query_exec() runs it to its end.
 */
#define QUERY_NUMBERS(...) \
	(const int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)
#define query_ask(store_, id_, q_, err_, ...) \
	query_open_with(store_, id_, q_, err_, QUERY_NUMBERS(__VA_ARGS__))
#define query_first(store_, id_, q_, err_, ...) \
	query_step_with(store_, id_, q_, err_, QUERY_NUMBERS(__VA_ARGS__))
#define query_exec(store_, id_, err_, ...) \
	query_run_with(store_, id_, err_, QUERY_NUMBERS(__VA_ARGS__))
int query_open_with(struct store *store, enum statement id, struct query *ret, struct err *err,
		    const int64_t *numbers, size_t n);
int query_step_with(struct store *store, enum statement id, struct query *ret, struct err *err,
		    const int64_t *numbers, size_t n);
int query_run_with(struct store *store, enum statement id, struct err *err, const int64_t *numbers,
		   size_t n);

/*
 * Runs a statement to its end with values of any kind:
 *
 *	return query_put(store, STATEMENT_NOTE_UNKNOWN, err, V_I64(attempt), V_TEXT(what),
 *			 V_TEXT(why));
 */
struct query_value {
	enum { VALUE_NULL, VALUE_I64, VALUE_TEXT, VALUE_BYTES, VALUE_BLOB, VALUE_COLUMNS } kind;
	int64_t number;
	const void *data;
	size_t len;
	const struct columns *columns;
};
#define V_I64(v_)                                 \
	{                                         \
		.kind = VALUE_I64, .number = (v_) \
	}
#define V_I64_IF(is_known_, v_)                                              \
	{                                                                    \
		.kind = (is_known_) ? VALUE_I64 : VALUE_NULL, .number = (v_) \
	}
#define V_TEXT(s_)                               \
	{                                        \
		.kind = VALUE_TEXT, .data = (s_) \
	}
#define V_BYTES(data_, len_)                                        \
	{                                                           \
		.kind = VALUE_BYTES, .data = (data_), .len = (len_) \
	}
/* And its seal behind it: a hash of the row's key and of the data. */
#define V_BLOB(key_, data_, len_)                                                    \
	{                                                                            \
		.kind = VALUE_BLOB, .number = (key_), .data = (data_), .len = (len_) \
	}
#define V_COLUMNS(columns_, from_)                                            \
	{                                                                     \
		.kind = VALUE_COLUMNS, .data = (from_), .columns = (columns_) \
	}
#define query_put(store_, id_, err_, ...)                                                \
	query_put_values(store_, id_, err_, (const struct query_value[]){ __VA_ARGS__ }, \
			 sizeof((struct query_value[]){ __VA_ARGS__ }) /                 \
				 sizeof(struct query_value))
int query_put_values(struct store *store, enum statement id, struct err *err,
		     const struct query_value *values, size_t n);

/* The same, up to the first row of what it reads: as query_step() returns. */
#define query_find(store_, id_, q_, err_, ...)                                                \
	query_find_values(store_, id_, q_, err_, (const struct query_value[]){ __VA_ARGS__ }, \
			  sizeof((struct query_value[]){ __VA_ARGS__ }) /                     \
				  sizeof(struct query_value))
int query_find_values(struct store *store, enum statement id, struct query *ret, struct err *err,
		      const struct query_value *values, size_t n);

/* Runs it to its end; then it can be bound anew. */
int query_run(struct query *q, struct err *err);

/* Runs a statement that has no values. */
int query_run_alone(struct store *store, enum statement id, struct err *err);

/*
 * The number that a statement reads, whose only value, if it has one, is the key. 1: it is in
 * *ret. 0: there is no row, or it is NULL, and *ret stays as it is.
 */
int query_read_number(struct store *store, enum statement id, int64_t key, int64_t *ret,
		      struct err *err);

/* The row of the job; -1, which no row has: there is none. Inside a transaction. */
int job_find_row(struct store *store, const char *job_id, int64_t *ret, struct err *err);

/* ---- numbers of the table meta ---- */

/* Keys of meta: the largest id that a tick has had, of those that are gone… */
#define META_LAST_TICK "last_tick"
/* …and since when there are all: "events_gone_ns", "curves_gone_ns". */
#define META_EVENTS_GONE "events_gone_ns"
#define META_ANOMALIES_GONE "anomalies_gone_ns"
#define META_SECONDS_KEPT "seconds_kept_ns" /* retain_keep_evidence() has seen all by then */
#define META_CURVES_GONE "curves_gone_ns"
#define META_RETAINED "retained_ns" /* when all this was done last */
int meta_read(struct store *store, const char *key, int64_t *ret, struct err *err); /* 0: unset */
int meta_write(struct store *store, const char *key, int64_t value, struct err *err);
int meta_raise(struct store *store, const char *key, int64_t value, struct err *err);

/* ---- transactions ---- */

/*
 *	CLEANUP(txn_abort) struct store *txn = NULL;
 *
 *	r = txn_begin(store, STATEMENT_BEGIN_WRITE, &txn, err);
 *	…
 *	return txn_commit(&txn, err);
 *
 * On a borrowed handle and within a batch nothing is begun, and txn stays NULL; nor by who wants to
 * read and is in a transaction already: what it reads is part of that. Committing it then does
 * nothing.
 */
int txn_begin(struct store *store, enum statement begin, struct store **ret_txn, struct err *err);
/*
 * Whether what is committed from now on is on the disk then, or only comes there in its turn:
 * for what nobody misses after a power cut. Outside of transactions. Where there is a log the
 * disk is waited for behind the commit, so that others can write: if that
 * fails the call has not, as what it wrote is there.
 */
int durability_raise(struct store *store, struct err *err);
int durability_lower(struct store *store, int *ret_before, struct err *err);
int durability_restore(struct store *store, int before, struct err *err);

int txn_commit(struct store **txn, struct err *err);
void txn_abort(struct store **txn); /* undoes what was not committed */

/* A time, or anything else, as the file can hold it: what is beyond is the largest. */
static inline int64_t query_as_i64(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* ---- rows: whole arrays of structs into a table, and out of it ---- */

/* Runs the statement for each item; its values are the attempt, then the columns. */
int rows_write(struct store *store, enum statement id, int64_t attempt_id,
	       const struct columns *columns, const void *items, size_t n, size_t item_size,
	       struct err *err);

/* Columns of a struct that stands at an offset in the item. */
struct row_part {
	const struct columns *columns;
	size_t offset;
};

/* Reads the row that the query stands on into the item, part by part. */
int row_read(struct query *q, const struct row_part *parts, size_t n_parts, void *item,
	     struct arena *arena, struct err *err);

/*
 * All rows of a query (bound, not yet stepped) as an array of items, in the
 * arena with their strings. ret_items is the address of a pointer. No rows: NULL and 0.
 */
int rows_read(struct query *q, const struct row_part *parts, size_t n_parts, size_t item_size,
	      struct arena *arena, void *ret_items, size_t *ret_n, struct err *err);

/*
 * The same of a query that has the id and the time of each row before the columns of the one
 * part: rows that make no sense are left out, as such of this kind and recorder (damage.h).
 */
int rows_read_sound(struct query *q, const struct damage *kind, const struct columns *columns,
		    size_t item_size, struct arena *arena, void *ret_items, size_t *ret_n,
		    struct err *err);
