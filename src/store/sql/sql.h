/*
 * sql - what was recorded, asked for in SQL; part of store.h.
 *
 *	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
 *
 *	r = store_sql_open(store, "SELECT …", stop, ctx, &sql, err);
 *	while (r == 0 && (r = store_sql_next(sql, err)) > 0)
 *		… store_sql_value(sql, i) …
 *
 * One statement, which only reads. Beside the tables of the file there are
 * snapshots, process_metrics, process_events and process_minutes (vtab.h). It sees what was there
 * when its first row was read, and from then until it is closed the file's log
 * cannot be shortened (with a rollback journal: nobody can write), so who hands
 * the rows on does not wait for others meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct store;
struct store_sql;

enum sql_type { SQL_NULL, SQL_INTEGER, SQL_REAL, SQL_TEXT, SQL_BLOB };

struct sql_value {
	enum sql_type type;
	int64_t integer;
	double real;
	const char
		*bytes; /* of SQL_TEXT and SQL_BLOB: valid until the next row; no NUL at the end */
	size_t len;
};

/* Asked now and then while it runs: true ends it with -EINTR. */
typedef bool store_stop_fn(void *ctx);

/*
 * -EINVAL: not SQL, not one statement, or one that would write; err says what is
 * wrong, and where. stop may be NULL. The store is used for nothing else until
 * store_sql_close().
 */
int store_sql_open(struct store *store, const char *text, store_stop_fn *stop, void *ctx,
		   struct store_sql **ret, struct err *err);
void store_sql_close(struct store_sql **sql); /* NULL is fine */

int store_sql_next(struct store_sql *sql, struct err *err); /* 1: a row. 0: no more. */

size_t store_sql_columns(const struct store_sql *sql);
const char *store_sql_name(const struct store_sql *sql, size_t column);
struct sql_value store_sql_value(const struct store_sql *sql, size_t column); /* of the row */

/* Calls fn for each table that is made of what was recorded (column is NULL), and its columns. */
typedef void store_schema_fn(void *ctx, const char *table, const char *column, const char *type,
			     const char *about);
void store_sql_tell_schema(store_schema_fn *fn, void *ctx);
