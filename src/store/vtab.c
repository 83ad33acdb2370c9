#include "store/vtab.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/macros.h"
#include "store/codec.h"
#include "store/handle.h"
#include "store/layout.h"
#include "store/query.h"

/* A table as a connection knows it. Registered anew it may go before its vtab does. */
struct vtab_module {
	const struct vtab_table *table;
	struct store *store; /* borrowed from the connection */
	unsigned n_users;    /* the connection, and the vtab */
};

/* A module in use: there is at most one for each. */
struct vtab {
	sqlite3_vtab base;
	struct vtab_module *module;
	struct vtab_size size;
};

static const struct vtab_table *const tables[] = { &vtab_snapshots, &vtab_metrics, &vtab_events,
						   &vtab_minutes };

const struct vtab_table *vtab_table_at(size_t i)
{
	return i < ARRAY_SIZE(tables) ? tables[i] : NULL;
}

static void leave_module(void *p)
{
	struct vtab_module *module = p;

	if (--module->n_users > 0)
		return;
	store_close(module->store);
	free(module);
}

/* ---- failures ---- */

static const struct {
	int error, rc;
} failures[] = {
	{ ENOMEM, SQLITE_NOMEM }, { EBUSY, SQLITE_BUSY },	    { EINTR, SQLITE_INTERRUPT },
	{ EIO, SQLITE_IOERR },	  { EBADMSG, SQLITE_CORRUPT_VTAB },
};

static int result_code(int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].error == -r)
			return failures[i].rc;
	return SQLITE_ERROR;
}

/* SQLite shows the sentence in place of its own. */
static int fail(sqlite3_vtab *base, int r, const struct err *err)
{
	sqlite3_free(base->zErrMsg);
	base->zErrMsg = sqlite3_mprintf("%s", err->text);
	return result_code(r);
}

/* ---- the table ---- */

static int check_layout(struct store *store, struct err *err)
{
	bool is_empty;
	int r = layout_check(store, &is_empty, err);

	if (r == 0 && is_empty)
		return err_set(err, -ENOENT,
			       "nothing was recorded in %s: open a database of proctor's",
			       store->path);
	return r;
}

static double at_least_one(int64_t n)
{
	return n > 1 ? (double)n : 1;
}

/* Only for the planner, so it is asked once for each connection. */
static int read_size(struct store *store, struct vtab_size *ret, struct err *err)
{
	CLEANUP(query_close) struct query q = QUERY_INIT;
	int r = query_open(store, STATEMENT_SIZES, &q, err);
	int64_t n_folds;

	if (r == 0)
		r = query_step(&q, err);
	if (r <= 0)
		return r;
	n_folds = query_read_i64(&q);
	ret->n_ticks = at_least_one(n_folds * CODEC_ROWS + query_read_i64(&q));
	ret->n_pids = at_least_one(query_read_i64(&q));
	ret->n_samples = ret->n_ticks * ret->n_pids;
	ret->n_events = at_least_one(query_read_i64(&q));
	ret->n_jobs = at_least_one(query_read_i64(&q));
	ret->n_spans = 4;
	return 0;
}

static int declare(sqlite3 *db, const struct vtab_table *table)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;

	buf_printf(&sql, "CREATE TABLE %s (", table->name);
	for (size_t i = 0; i < table->n_columns; i++)
		buf_printf(&sql, "%s%s %s", i ? ", " : "", table->columns[i].name,
			   table->columns[i].type);
	buf_add_char(&sql, ')');
	return buf_error(&sql) < 0 ? SQLITE_NOMEM : sqlite3_declare_vtab(db, sql.data);
}

static int prepare(sqlite3 *db, const struct vtab_module *module, struct vtab *vtab,
		   struct err *err)
{
	int r = check_layout(module->store, err);

	if (r == 0)
		r = read_size(module->store, &vtab->size, err);
	if (r == 0 && declare(db, module->table) != SQLITE_OK)
		r = err_set(err, -EINVAL, "%s: %s", module->table->name, sqlite3_errmsg(db));
	return r;
}

/* The connection may be about to close, which it cannot while there are statements. */
static void leave_vtab(const struct vtab *vtab)
{
	store_forget_statements(vtab->module->store);
	leave_module(vtab->module);
}

static int connect_table(sqlite3 *db, void *aux, int argc, const char *const *argv,
			 sqlite3_vtab **ret, char **ret_error)
{
	CLEANUP(free_ptr) struct vtab *vtab = calloc(1, sizeof(*vtab));
	struct err err = ERR_INIT;
	int r;

	(void)argc;
	(void)argv;
	if (!vtab)
		return SQLITE_NOMEM;
	vtab->module = aux;
	vtab->module->n_users++;
	r = prepare(db, aux, vtab, &err);
	if (r < 0) {
		*ret_error = sqlite3_mprintf("%s", err.text);
		leave_vtab(vtab);
		return result_code(r);
	}
	/* It does nothing but read this database, so views may use it. */
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	*ret = &TAKE_PTR(vtab)->base;
	return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *base)
{
	struct vtab *vtab = (struct vtab *)base;

	leave_vtab(vtab);
	free(vtab);
	return SQLITE_OK;
}

static int plan_table(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct vtab *vtab = (const struct vtab *)base;

	return vtab_plan(vtab->module->table, &vtab->size, info);
}

/* ---- the cursor ---- */

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
	const struct vtab_module *module = ((struct vtab *)base)->module;
	struct vtab_cursor *cursor = calloc(1, module->table->cursor_size);

	if (!cursor)
		return SQLITE_NOMEM;
	cursor->table = module->table;
	cursor->store = module->store;
	if (cursor->table->open)
		cursor->table->open(cursor);
	*ret = &cursor->base;
	return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
	struct vtab_cursor *cursor = (struct vtab_cursor *)base;

	cursor->table->close(cursor);
	free(cursor);
	return SQLITE_OK;
}

static int arrive(struct vtab_cursor *cursor, int r, const struct err *err)
{
	cursor->has_row = r > 0;
	return r < 0 ? fail(cursor->base.pVtab, r, err) : SQLITE_OK;
}

static int filter_cursor(sqlite3_vtab_cursor *base, int number, const char *plan, int n_values,
			 sqlite3_value **values)
{
	struct vtab_cursor *cursor = (struct vtab_cursor *)base;
	struct vtab_filter filter;
	struct err err = ERR_INIT;

	(void)n_values;
	vtab_read_plan(number, plan, values, &filter);
	return arrive(cursor, cursor->table->filter(cursor, &filter, &err), &err);
}

static int move_cursor(sqlite3_vtab_cursor *base)
{
	struct vtab_cursor *cursor = (struct vtab_cursor *)base;
	struct err err = ERR_INIT;

	return arrive(cursor, cursor->table->next(cursor, &err), &err);
}

static int is_at_end(sqlite3_vtab_cursor *base)
{
	return !((struct vtab_cursor *)base)->has_row;
}

static int give_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int i)
{
	struct vtab_cursor *cursor = (struct vtab_cursor *)base;
	const struct vtab_column *column = &cursor->table->columns[i];
	struct err err = ERR_INIT;
	const void *row;

	if (!column->give)
		return SQLITE_OK; /* NULL */
	row = cursor->table->row(cursor, column, &err);
	if (!row)
		return fail(base->pVtab, err.code, &err);
	column->give(ctx, (const char *)row + column->offset);
	return SQLITE_OK;
}

static int give_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	const struct vtab_cursor *cursor = (const struct vtab_cursor *)base;

	*ret = cursor->table->rowid(cursor);
	return SQLITE_OK;
}

/* ---- on a connection ---- */

/* No xCreate: the tables are there without being created, in each connection anew. */
static const sqlite3_module module_functions = {
	.xConnect = connect_table,
	.xDisconnect = disconnect_table,
	.xBestIndex = plan_table,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter_cursor,
	.xNext = move_cursor,
	.xEof = is_at_end,
	.xColumn = give_column,
	.xRowid = give_rowid,
};

static int register_table(sqlite3 *db, const struct vtab_table *table, struct store *teller,
			  struct err *err)
{
	struct vtab_module *module = calloc(1, sizeof(*module));
	int r;

	if (!module)
		return err_set(err, -ENOMEM, "no memory left to add the table %s", table->name);
	module->table = table;
	module->n_users = 1;
	r = store_borrow(db, &module->store, err);
	if (r < 0) {
		leave_module(module);
		return r;
	}
	module->store->teller = teller;
	/* Also when it fails, SQLite calls leave_module(). */
	if (sqlite3_create_module_v2(db, table->name, &module_functions, module, leave_module) !=
	    SQLITE_OK)
		return err_set(err, -EINVAL, "cannot add the table %s: %s", table->name,
			       sqlite3_errmsg(db));
	return 0;
}

int vtab_register(sqlite3 *db, struct store *teller, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(tables); i++)
		r = register_table(db, tables[i], teller, err);
	return r;
}
