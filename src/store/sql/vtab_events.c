#include <errno.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/sql/vtab.h"
#include "store/tables.h"

struct sql_event {
	int64_t id;
	int attempt_num;
	const char *type; /* as it stands there: it may be one of a newer version */
	struct proc_event event;
};

/* Each cursor has a statement of its own, which stands at its row. */
struct events_cursor {
	struct vtab_cursor base;
	sqlite3_stmt *stmt;
	struct sql_event row;
};

/* ---- columns ---- */

#define ROW(field_) offsetof(struct sql_event, field_)

static const struct vtab_column columns[] = {
	{ "timestamp", "REAL", vtab_give_seconds, ROW(event.wall_ns), VTAB_TIME, 0,
	  "unix seconds" },
	{ "pid", "INTEGER", vtab_give_int, ROW(event.key.pid), VTAB_PID, 0, "of which process" },
	{ "event_type", "TEXT", vtab_give_text, ROW(type), VTAB_NO_KEY, 0,
	  "spawn, exit, signal, kill, oom, orphan" },
	{ "exit_code", "INTEGER", vtab_give_int_or_none, ROW(event.status.exit_code), VTAB_NO_KEY,
	  0, "of an exit" },
	{ "signal_num", "INTEGER", vtab_give_int_or_none, ROW(event.status.signal), VTAB_NO_KEY, 0,
	  "what ended it, or was sent" },
	{ "job_id", "TEXT", vtab_give_text, ROW(event.job_id), VTAB_JOB, 0, "whose it is" },
	{ "sheet_num", "INTEGER", vtab_give_int_or_none, ROW(event.sheet_num), VTAB_NO_KEY, 0,
	  "number of the sheet" },
	{ "details", "TEXT", vtab_give_text, ROW(event.details), VTAB_NO_KEY, 0, "for people" },
	{ "attempt", "INTEGER", vtab_give_int, ROW(attempt_num), VTAB_NO_KEY, 0,
	  "number of the attempt" },
	{ "start_ticks", "INTEGER", vtab_give_u64, ROW(event.key.start_ticks), VTAB_NO_KEY, 0,
	  "as in process_metrics" },
};

static double count_rows(const struct vtab_size *size)
{
	return size->n_events;
}

/* ---- the statement ---- */

enum parameter { SINCE = 1, UNTIL, JOB, PID };

/* A time that is not known lies within no limits, so these stand there only where they were set. */
static void write_statement(const struct vtab_filter *f, struct buf *sql)
{
	statement_write(STATEMENT_SQL_EVENTS, sql);
	buf_add_str(sql, " WHERE true");
	if (f->has_time)
		buf_printf(sql, " AND e.wall_ns BETWEEN ?%d AND ?%d", SINCE, UNTIL);
	if (f->job_id)
		buf_printf(sql, " AND jobs.job_id = ?%d", JOB);
	if (f->pid)
		buf_printf(sql, " AND e.pid = ?%d", PID);
	if (f->is_ordered)
		buf_add_str(sql,
			    f->newest_first ? " ORDER BY e.wall_ns DESC" : " ORDER BY e.wall_ns");
}

static int bind(sqlite3_stmt *stmt, const struct vtab_filter *f)
{
	int rc = SQLITE_OK;

	if (f->has_time)
		rc = sqlite3_bind_int64(stmt, SINCE, (int64_t)f->since_wall_ns);
	if (rc == SQLITE_OK && f->has_time)
		rc = sqlite3_bind_int64(stmt, UNTIL, (int64_t)f->until_wall_ns);
	if (rc == SQLITE_OK && f->job_id)
		rc = sqlite3_bind_text(stmt, JOB, f->job_id, -1, SQLITE_TRANSIENT);
	if (rc == SQLITE_OK && f->pid)
		rc = sqlite3_bind_int(stmt, PID, f->pid);
	return rc;
}

static int prepare(struct events_cursor *c, const struct vtab_filter *f, struct err *err)
{
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	struct store *store = c->base.store;

	sqlite3_finalize(c->stmt);
	c->stmt = NULL;
	write_statement(f, &sql);
	if (buf_error(&sql) < 0)
		return store_no_memory(store, err);
	if (sqlite3_prepare_v2(store->db, sql.data, (int)sql.len + 1, &c->stmt, NULL) !=
		    SQLITE_OK ||
	    bind(c->stmt, f) != SQLITE_OK)
		return store_failure(store, err);
	return 0;
}

/* ---- rows ---- */

static int next_row(struct vtab_cursor *base, struct err *err)
{
	struct events_cursor *c = (struct events_cursor *)base;
	struct query q = { .store = base->store, .stmt = c->stmt };
	int r = query_step(&q, err);

	if (r <= 0)
		return r;
	c->row.id = query_read_i64(&q);
	c->row.attempt_num = (int)query_read_i64(&q);
	c->row.event.job_id = query_read_text(&q);
	c->row.type = query_read_text(&q);
	r = query_read_columns(&q, &event_sql_columns, &c->row.event, NULL, err);
	return r < 0 ? r : 1;
}

static int filter_rows(struct vtab_cursor *base, const struct vtab_filter *filter, struct err *err)
{
	int r;

	if (filter->is_empty)
		return 0;
	r = prepare((struct events_cursor *)base, filter, err);
	return r < 0 ? r : next_row(base, err);
}

static const void *tell_row(struct vtab_cursor *base, const struct vtab_column *column,
			    struct err *err)
{
	(void)column;
	(void)err;
	return &((struct events_cursor *)base)->row;
}

static int64_t row_id(const struct vtab_cursor *base)
{
	return ((const struct events_cursor *)base)->row.id;
}

static void close_rows(struct vtab_cursor *base)
{
	sqlite3_finalize(((struct events_cursor *)base)->stmt);
}

const struct vtab_table vtab_events = {
	.name = "process_events",
	.about = "births, deaths and signals of jobs' processes",
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.cursor_size = sizeof(struct events_cursor),
	.count = count_rows,
	.close = close_rows,
	.filter = filter_rows,
	.next = next_row,
	.row = tell_row,
	.rowid = row_id,
};
