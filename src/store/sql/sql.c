#include "store/sql/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/damage.h"
#include "store/db/db.h"
#include "store/handle.h"
#include "store/sql/vtab.h"

#define STEPS_BETWEEN_STOPS 10000 /* of SQLite's machine: about a millisecond */

struct store_sql {
	struct store *store;
	sqlite3_stmt *stmt;
	store_stop_fn *stop;
	void *ctx;
	bool is_refused; /* it wants what is not allowed */
};

/* ---- what is allowed ---- */

/* PRAGMAs that only tell; those that are settings as well, only when they set nothing. */
static const struct {
	const char *name;
	bool is_setting;
} allowed_pragmas[] = {
	{ "application_id", true },   { "auto_vacuum", true },	      { "collation_list", false },
	{ "compile_options", false }, { "data_version", false },      { "database_list", false },
	{ "encoding", true },	      { "foreign_key_check", false }, { "foreign_key_list", false },
	{ "freelist_count", false },  { "function_list", false },     { "index_info", false },
	{ "index_list", false },      { "index_xinfo", false },	      { "integrity_check", false },
	{ "journal_mode", true },     { "module_list", false },	      { "page_count", false },
	{ "page_size", true },	      { "pragma_list", false },	      { "quick_check", false },
	{ "schema_version", true },   { "table_info", false },	      { "table_list", false },
	{ "table_xinfo", false },     { "user_version", true },
};

static bool is_allowed(int action, const char *a, const char *b)
{
	if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE)
		return true;
	if (action == SQLITE_FUNCTION)
		return strcasecmp(b, "load_extension") != 0;
	/* Asked when a virtual table, also json_each(), is first used; nothing is written for it.
	 */
	if (action == SQLITE_UPDATE)
		return strcmp(a, "sqlite_master") == 0;
	for (size_t i = 0; action == SQLITE_PRAGMA && i < ARRAY_SIZE(allowed_pragmas); i++)
		if (strcasecmp(allowed_pragmas[i].name, a) == 0)
			return !b || !allowed_pragmas[i].is_setting;
	return false;
}

/* Remembered, as SQLite does not always say that this is what was wrong. */
static int authorize(void *ctx, int action, const char *a, const char *b, const char *db,
		     const char *trigger)
{
	struct store_sql *sql = ctx;

	(void)db;
	(void)trigger;
	if (is_allowed(action, a, b))
		return SQLITE_OK;
	sql->is_refused = true;
	return SQLITE_DENY;
}

static int refuse_writing(struct err *err)
{
	return err_set(err, -EINVAL,
		       "only what reads is allowed here: SELECT, WITH, VALUES, EXPLAIN, and "
		       "PRAGMAs that tell and set nothing");
}

/* ---- what is wrong with it ---- */

static int fail_at(const char *text, int offset, const char *what, struct err *err)
{
	int line = 1, column = 1;

	if (offset < 0)
		return err_set(err, -EINVAL, "%s", what);
	for (int i = 0; i < offset && text[i]; i++) {
		column = text[i] == '\n' ? 1 : column + 1;
		line += text[i] == '\n';
	}
	return err_set(err, -EINVAL, "line %d, column %d: %s", line, column, what);
}

/* at: where the statement begins in the text */
static int fail_preparing(struct store_sql *sql, const char *text, const char *at, struct err *err)
{
	struct store *store = sql->store;
	struct err missing = ERR_INIT;
	int r, offset = -1; /* where in the text SQLite stopped; -1: it does not say */

#if SQLITE_VERSION_NUMBER >= 3038000
	offset = sqlite3_error_offset(store->db);
#endif

	if (sql->is_refused)
		return refuse_writing(err);
	switch (sqlite3_errcode(store->db) & 0xff) {
	case SQLITE_ERROR:
	case SQLITE_SCHEMA: /* also of a mistake in the first statement of a connection */
	case SQLITE_TOOBIG:
	case SQLITE_RANGE:
		fail_at(text, offset < 0 ? -1 : offset + (int)(at - text),
			sqlite3_errmsg(store->db), err);
		/* The statement may lack a table that every database has: no mistake of the user.
		 */
		r = layout_check_tables(store, &missing);
		if (r < 0)
			*err = missing;
		return r < 0 ? r : -EINVAL;
	default:
		return store_failure(store, err);
	}
}

/* ---- opening ---- */

/* Comments and semicolons may follow. */
static bool is_blank(struct store *store, const char *rest)
{
	sqlite3_stmt *stmt = NULL;
	bool is_sound = true;

	while (is_sound && !stmt && *rest)
		is_sound = sqlite3_prepare_v2(store->db, rest, -1, &stmt, &rest) == SQLITE_OK;
	is_sound = is_sound && !stmt;
	sqlite3_finalize(stmt);
	return is_sound;
}

static int prepare(struct store_sql *sql, const char *text, struct err *err)
{
	struct store *store = sql->store;
	const char *rest = text;

	/* A first semicolon is an empty statement. */
	while (!sql->stmt && *rest) {
		const char *at = rest;

		if (sqlite3_prepare_v2(store->db, at, -1, &sql->stmt, &rest) != SQLITE_OK)
			return fail_preparing(sql, text, at, err);
	}
	if (!sql->stmt)
		return err_set(err, -EINVAL, "there is no statement in it");
	if (!sqlite3_stmt_readonly(sql->stmt))
		return refuse_writing(err);
	if (!is_blank(store, rest))
		return fail_at(text, (int)(rest - text),
			       "one statement at a time, and here begins another", err);
	if (sqlite3_bind_parameter_count(sql->stmt) > 0)
		return err_set(err, -EINVAL,
			       "parameters (?, :name) have no value here: write it out");
	return 0;
}

static int should_stop(void *ctx)
{
	const struct store_sql *sql = ctx;

	return sql->stop(sql->ctx);
}

int store_sql_open(struct store *store, const char *text, store_stop_fn *stop, void *ctx,
		   struct store_sql **ret, struct err *err)
{
	CLEANUP(store_sql_close) struct store_sql *sql = calloc(1, sizeof(*sql));
	sqlite3 *db = store->db;
	int r;

	if (!sql)
		return store_no_memory(store, err);
	*sql = (struct store_sql){ .store = store, .stop = stop, .ctx = ctx };
	lock_wait_renew(store);
	r = vtab_register(db, store, err);
	if (r == 0 && (sqlite3_exec(db, "PRAGMA query_only = 1", NULL, NULL, NULL) != SQLITE_OK ||
		       sqlite3_set_authorizer(db, authorize, sql) != SQLITE_OK))
		r = store_failure(store, err);
	if (r == 0 && sql->stop)
		sqlite3_progress_handler(db, STEPS_BETWEEN_STOPS, should_stop, sql);
	if (r == 0)
		r = prepare(sql, text, err);
	if (r == 0)
		*ret = TAKE_PTR(sql);
	return r;
}

void store_sql_close(struct store_sql **sql)
{
	if (!*sql)
		return;
	sqlite3_finalize((*sql)->stmt);
	sqlite3_progress_handler((*sql)->store->db, 0, NULL, NULL);
	sqlite3_set_authorizer((*sql)->store->db, NULL, NULL);
	sqlite3_exec((*sql)->store->db, "PRAGMA query_only = 0", NULL, NULL, NULL);
	free(*sql);
	*sql = NULL;
}

/* ---- reading ---- */

int store_sql_next(struct store_sql *sql, struct err *err)
{
	sqlite3 *db = sql->store->db;
	int rc = sqlite3_step(sql->stmt);

	if (rc == SQLITE_ROW || rc == SQLITE_DONE)
		return rc == SQLITE_ROW;
	if ((rc & 0xff) == SQLITE_INTERRUPT)
		return err_set(err, -EINTR, "interrupted");
	return err_set(err, -EIO, "the statement failed: %s", sqlite3_errmsg(db));
}

size_t store_sql_columns(const struct store_sql *sql)
{
	return (size_t)sqlite3_column_count(sql->stmt);
}

const char *store_sql_name(const struct store_sql *sql, size_t column)
{
	const char *name = sqlite3_column_name(sql->stmt, (int)column);

	return name ? name : "";
}

/* If memory runs out over a value it is empty, and the next step fails. */
struct sql_value store_sql_value(const struct store_sql *sql, size_t column)
{
	static const enum sql_type types[] = {
		[SQLITE_INTEGER] = SQL_INTEGER, [SQLITE_FLOAT] = SQL_REAL, [SQLITE_TEXT] = SQL_TEXT,
		[SQLITE_BLOB] = SQL_BLOB,	[SQLITE_NULL] = SQL_NULL,
	};
	struct sql_value v = { .type = types[sqlite3_column_type(sql->stmt, (int)column)] };

	if (v.type == SQL_INTEGER)
		v.integer = sqlite3_column_int64(sql->stmt, (int)column);
	else if (v.type == SQL_REAL)
		v.real = sqlite3_column_double(sql->stmt, (int)column);
	else if (v.type != SQL_NULL)
		v.bytes = sqlite3_column_blob(sql->stmt, (int)column);
	v.len = v.bytes ? (size_t)sqlite3_column_bytes(sql->stmt, (int)column) : 0;
	return v;
}

/* ---- what there is ---- */

void store_sql_tell_schema(store_schema_fn *fn, void *ctx)
{
	for (size_t i = 0; i < VTAB_N_TABLES; i++) {
		const struct vtab_table *t = &vtab_tables[i];

		fn(ctx, t->name, NULL, NULL, t->about);
		for (size_t k = 0; k < t->n_columns; k++)
			fn(ctx, t->name, t->columns[k].name, t->columns[k].type,
			   t->columns[k].about);
	}
}
