#include "store/sql/vtab.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "store/codec/codec.h"
#include "store/db/db.h"
#include "store/handle.h"
#include "store/query.h"

/* ---- the plan of a statement, between SQLite's constraints and ours ---- */

/*
 * A timestamp in SQL is a double of seconds. From nanoseconds to that and back,
 * up to 2^63 ns, a moment moves by less than this: limits are taken so much
 * wider, and SQLite looks at each row once more with its own doubles.
 */
#define ROUNDING_NS 4096.0

/* Rows that could be read in the time that it takes to open a timeline, or to find a tick by its
 * id. */
#define WALK_COST 500.0
#define TICK_COST 20.0

#define WHOLE_MAX 9007199254740992.0 /* 2^53: beyond it doubles have no ones */

/* The number of a plan: words of samples, and in which order rows come. */
enum plan_bits { PLAN_ORDERED = 1, PLAN_NEWEST_FIRST = 2, PLAN_WORDS_SHIFT = 2 };

/* ---- values ---- */

static bool is_number(sqlite3_value *value)
{
	int type = sqlite3_value_numeric_type(value);

	return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* Whole numbers alone; what is none equals no id and no pid. */
static bool read_whole(sqlite3_value *value, int64_t *ret)
{
	double v;

	if (!is_number(value))
		return false;
	v = sqlite3_value_double(value);
	if (sqlite3_value_type(value) == SQLITE_FLOAT && (v != floor(v) || fabs(v) > WHOLE_MAX))
		return false;
	*ret = sqlite3_value_int64(value);
	return true;
}

static void limit_since(sqlite3_value *value, struct vtab_filter *f)
{
	double ns;

	if (!is_number(value)) /* text and blobs are more than any number: SQLite will say so */
		return;
	ns = sqlite3_value_double(value) * 1e9 - ROUNDING_NS;
	if (ns >= (double)INT64_MAX)
		f->is_empty = true;
	else if (ns > (double)f->since_wall_ns)
		f->since_wall_ns = (uint64_t)ns;
}

static void limit_until(sqlite3_value *value, struct vtab_filter *f)
{
	double ns;

	if (!is_number(value))
		return;
	ns = sqlite3_value_double(value) * 1e9 + ROUNDING_NS;
	if (ns < 1)
		f->is_empty = true;
	else if (ns < (double)f->until_wall_ns)
		f->until_wall_ns = (uint64_t)ns;
}

static void limit_time(sqlite3_value *value, struct vtab_filter *f)
{
	limit_since(value, f);
	limit_until(value, f);
}

static void limit_tick(sqlite3_value *value, struct vtab_filter *f)
{
	f->has_tick = true;
	if (!read_whole(value, &f->tick_id))
		f->is_empty = true;
}

static void limit_pid(sqlite3_value *value, struct vtab_filter *f)
{
	int64_t pid;

	if (!read_whole(value, &pid) || pid < INT32_MIN || pid > INT32_MAX)
		f->is_empty = true;
	else
		f->pid = (pid_t)pid;
}

static void limit_job(sqlite3_value *value, struct vtab_filter *f)
{
	f->job_id = (const char *)sqlite3_value_text(value);
}

/* ---- limits ---- */

/*
 * A limit that is used: its letter in the plan, as EXPLAIN QUERY PLAN shows it,
 * and the field of struct vtab_size of which it leaves one.
 */
struct limit {
	enum vtab_key key;
	int op;
	char letter;
	void (*read)(sqlite3_value *value, struct vtab_filter *f);
	size_t one_of;
};

#define ONE_OF(field_) offsetof(struct vtab_size, field_)

static const struct limit limits[] = {
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_GE, '>', limit_since, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_GT, '>', limit_since, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_LE, '<', limit_until, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_LT, '<', limit_until, ONE_OF(n_spans) },
	{ VTAB_TIME, SQLITE_INDEX_CONSTRAINT_EQ, '=', limit_time, ONE_OF(n_ticks) },
	{ VTAB_TICK, SQLITE_INDEX_CONSTRAINT_EQ, 'i', limit_tick, ONE_OF(n_ticks) },
	{ VTAB_JOB, SQLITE_INDEX_CONSTRAINT_EQ, 'j', limit_job, ONE_OF(n_jobs) },
	{ VTAB_PID, SQLITE_INDEX_CONSTRAINT_EQ, 'p', limit_pid, ONE_OF(n_pids) },
};

/* The limit that constraint number i sets; NULL: none that helps. */
static const struct limit *limit_of(const struct vtab_table *table, sqlite3_index_info *info, int i)
{
	int column = info->aConstraint[i].iColumn;

	if (!info->aConstraint[i].usable || column < 0) /* below 0: the row's id */
		return NULL;
	for (size_t k = 0; k < ARRAY_SIZE(limits); k++)
		if (limits[k].key == table->columns[column].key &&
		    limits[k].op == info->aConstraint[i].op)
			/* "A" COLLATE NOCASE is a job that we would not find. */
			return limits[k].key == VTAB_JOB && strcmp(sqlite3_vtab_collation(info, i),
								   "BINARY") != 0
				       ? NULL
				       : &limits[k];
	return NULL;
}

/* xBestIndex: chooses what is limited, and what that saves. */
static int choose_plan(const struct vtab_table *table, const struct vtab_size *size,
		       sqlite3_index_info *info)
{
	char *plan = sqlite3_malloc(info->nConstraint + 1);
	int n = 0, order = 0, by = info->nOrderBy == 1 ? info->aOrderBy[0].iColumn : -1;
	double rows = *(const double *)((const char *)size + table->of_size);
	bool has_tick = false;
	unsigned n_words = 0;

	if (!plan)
		return SQLITE_NOMEM;
	for (int i = 0; i < info->nConstraint; i++) {
		const struct limit *limit = limit_of(table, info, i);

		if (!limit)
			continue;
		plan[n++] = limit->letter;
		info->aConstraintUsage[i].argvIndex = n;
		rows /= *(const double *)((const char *)size + limit->one_of);
		has_tick |= limit->key == VTAB_TICK;
	}
	plan[n] = '\0';
	rows = rows < 1 ? 1 : rows;
	info->estimatedRows = (sqlite3_int64)rows;
	info->estimatedCost = (has_tick ? TICK_COST : WALK_COST) + rows;
	info->idxStr = plan;
	info->needToFreeIdxStr = 1;
	/* SQLite has a bit for each of the first 63 columns, and one for all others. */
	for (size_t i = 0; table->n_words && i < table->n_columns; i++)
		if (info->colUsed >> (i < 63 ? i : 63) & 1 &&
		    table->n_words(&table->columns[i]) > n_words)
			n_words = table->n_words(&table->columns[i]);
	if (by >= 0 && table->columns[by].key == VTAB_TIME)
		order = PLAN_ORDERED | (info->aOrderBy[0].desc ? PLAN_NEWEST_FIRST : 0);
	info->idxNum = order | (int)(n_words << PLAN_WORDS_SHIFT);
	info->orderByConsumed = order != 0;
	return SQLITE_OK;
}

/* xFilter: what was chosen, with its values. */
static void read_plan(int number, const char *plan, sqlite3_value **values, struct vtab_filter *ret)
{
	*ret = (struct vtab_filter){
		.until_wall_ns = INT64_MAX,
		.is_ordered = number & PLAN_ORDERED,
		.newest_first = number & PLAN_NEWEST_FIRST,
		.n_words = (unsigned)number >> PLAN_WORDS_SHIFT,
	};
	for (size_t i = 0; plan[i]; i++) {
		const struct limit *limit = limits;

		while (limit->letter != plan[i]) /* it is one of ours */
			limit++;
		ret->has_time |= limit->key == VTAB_TIME;
		if (sqlite3_value_type(values[i]) == SQLITE_NULL) /* equals nothing */
			ret->is_empty = true;
		else
			limit->read(values[i], ret);
	}
}

/* ---- modules ---- */

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
	ret->n_minutes = ret->n_samples / 12;
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
	struct store *store;
	bool is_empty;
	int r;

	(void)argc;
	(void)argv;
	if (!vtab)
		return SQLITE_NOMEM;
	vtab->module = aux;
	vtab->module->n_users++;
	store = vtab->module->store;
	r = layout_check(store, &is_empty, &err);
	if (r == 0 && is_empty)
		r = err_set(&err, -ENOENT,
			    "nothing was recorded in %s: open a database of proctor's",
			    store->path);
	if (r == 0)
		r = read_size(store, &vtab->size, &err);
	if (r == 0 && declare(db, vtab->module->table) != SQLITE_OK)
		r = err_set(&err, -EINVAL, "%s: %s", vtab->module->table->name, sqlite3_errmsg(db));
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

	return choose_plan(vtab->module->table, &vtab->size, info);
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
	read_plan(number, plan, values, &filter);
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
	int r;

	if (!column->give)
		return SQLITE_OK; /* NULL */
	r = cursor->table->fill ? cursor->table->fill(cursor, column, &err) : 0;
	if (r < 0)
		return fail(base->pVtab, r, &err);
	column->give(ctx, (const char *)cursor->row + column->offset);
	return SQLITE_OK;
}

static int give_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = ((const struct vtab_cursor *)base)->rowid;
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

int vtab_register(sqlite3 *db, struct store *teller, struct err *err)
{
	for (size_t i = 0; i < VTAB_N_TABLES; i++) {
		const char *name = vtab_tables[i].name;
		struct vtab_module *module = calloc(1, sizeof(*module));
		int r;

		if (!module)
			return err_set(err, -ENOMEM, "no memory left to add the table %s", name);
		module->table = &vtab_tables[i];
		module->n_users = 1;
		r = store_borrow(db, &module->store, err);
		if (r < 0) {
			leave_module(module);
			return r;
		}
		module->store->teller = teller;
		/* Also when it fails, SQLite calls leave_module(). */
		if (sqlite3_create_module_v2(db, name, &module_functions, module, leave_module) !=
		    SQLITE_OK)
			return err_set(err, -EINVAL, "cannot add the table %s: %s", name,
				       sqlite3_errmsg(db));
	}
	return 0;
}
