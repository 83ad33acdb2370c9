#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "model/job.h"
#include "store/damage.h"
#include "store/handle.h"
#include "store/query.h"
#include "store/rollup.h"
#include "store/sql/vtab.h"
#include "store/tables.h"

/*
 * The tables: for each its columns, how many rows it may have, and how they are found.
 *
 * ---- how a field is given to SQLite; unknown is NULL ----
 */

static void give_i64(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_int64(ctx, *(const int64_t *)field);
}

/* SQL's integers end at 2^63: what is beyond is told nearly. */
static void give_u64(sqlite3_context *ctx, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	if (!u64_known(v))
		return; /* a result is NULL until it is set */
	if (v > INT64_MAX)
		sqlite3_result_double(ctx, (double)v);
	else
		sqlite3_result_int64(ctx, (int64_t)v);
}

static void give_f64(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_double(ctx, *(const double *)field); /* NaN becomes NULL */
}

static void give_mb_f64(sqlite3_context *ctx, const void *field)
{
	double mb = *(const double *)field / (1024.0 * 1024.0);

	give_f64(ctx, &mb);
}

static void give_mb(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_double(ctx, u64_to_mb(*(const uint64_t *)field));
}

static void give_seconds(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_double(ctx, u64_to_seconds(*(const uint64_t *)field));
}

static void give_int(sqlite3_context *ctx, const void *field)
{
	sqlite3_result_int(ctx, *(const int *)field);
}

static void give_int_or_none(sqlite3_context *ctx, const void *field)
{
	if (*(const int *)field >= 0)
		give_int(ctx, field);
}

static void give_positive(sqlite3_context *ctx, const void *field)
{
	if (*(const int *)field > 0)
		give_int(ctx, field);
}

static void give_fd_limit(sqlite3_context *ctx, const void *field)
{
	if (*(const uint64_t *)field == FD_LIMIT_UNLIMITED)
		sqlite3_result_text(ctx, "unlimited", -1, SQLITE_STATIC);
	else
		give_u64(ctx, field);
}

/* The row may be gone before SQLite is done with a text. */

static void give_string(sqlite3_context *ctx, const char *s)
{
	if (s)
		sqlite3_result_text(ctx, s, -1, SQLITE_TRANSIENT);
}

static void give_text(sqlite3_context *ctx, const void *field)
{
	give_string(ctx, *(const char *const *)field);
}

static void give_chars(sqlite3_context *ctx, const void *field)
{
	const char *s = field;

	give_string(ctx, s[0] ? s : NULL);
}

static void give_state(sqlite3_context *ctx, const void *field)
{
	const char state[2] = { *(const char *)field };

	give_string(ctx, state[0] == '?' || state[0] == '\0' ? NULL : state);
}

static void give_covers(sqlite3_context *ctx, const void *field)
{
	give_string(ctx, snapshot_covers_name(*(const enum snapshot_covers *)field));
}

static void give_json(sqlite3_context *ctx, const struct buf *text)
{
	if (buf_error(text) < 0)
		sqlite3_result_error_nomem(ctx);
	else if (strcmp(text->data, "null") != 0)
		sqlite3_result_text(ctx, text->data, (int)text->len, SQLITE_TRANSIENT);
}

/* A function that gives what the call writes. */
#define GIVE_JSON(name_, call_)                                           \
	static void give_##name_(sqlite3_context *ctx, const void *field) \
	{                                                                 \
		CLEANUP(buf_release) struct buf text = BUF_INIT;          \
		struct json j;                                            \
                                                                          \
		json_init(&j, &text);                                     \
		call_;                                                    \
		give_json(ctx, &text);                                    \
	}
#define SAMPLE ((const struct proc_sample *)field)

GIVE_JSON(psi, psi_write_json(&j, field))
GIVE_JSON(syscall_counts, syscall_uses_write_counts(&j, SAMPLE->syscalls, SAMPLE->n_syscalls))
GIVE_JSON(syscall_times, syscall_uses_write_times(&j, SAMPLE->syscalls, SAMPLE->n_syscalls))
GIVE_JSON(gpus, snapshot_write_gpus(&j, field))
GIVE_JSON(cgroups, snapshot_write_cgroups(&j, field))
GIVE_JSON(zombie_pids, snapshot_write_zombie_pids(&j, field, SNAPSHOT_ALL))

static void give_progress(sqlite3_context *ctx, const void *snapshot)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct json j;

	if (f64_known(((const struct snapshot *)snapshot)->resolution_seconds))
		return; /* not kept */
	json_init(&j, &text);
	snapshot_write_progress(&j, snapshot);
	give_json(ctx, &text);
}

static void give_zombie_count(sqlite3_context *ctx, const void *snapshot)
{
	sqlite3_result_int64(ctx, (int64_t)snapshot_count_zombies(snapshot, SNAPSHOT_ALL));
}

/* The type in SQL and the function for a field of a sample, by its kind in sample_fields.def. */
#define GIVE_PID "INTEGER", give_int
#define GIVE_INT "INTEGER", give_int_or_none
#define GIVE_POSITIVE "INTEGER", give_positive
#define GIVE_U64 "INTEGER", give_u64
#define GIVE_LIMIT "INTEGER", give_fd_limit
#define GIVE_F64 "REAL", give_f64
#define GIVE_MB "REAL", give_mb
#define GIVE_SECONDS "REAL", give_seconds
#define GIVE_STRING "TEXT", give_text
#define GIVE_CHAR "TEXT", give_state
#define GIVE_COMM "TEXT", give_chars
#define GIVE_NAME "TEXT", give_chars
#define GIVE_COUNTS "TEXT", give_syscall_counts
#define GIVE_TIMES "TEXT", give_syscall_times

/* ---- process_events ---- */

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

#define EVENT(field_) offsetof(struct sql_event, field_)

static const struct vtab_column event_columns_sql[] = {
	{ "timestamp", "REAL", give_seconds, EVENT(event.wall_ns), VTAB_TIME, 0, "unix seconds" },
	{ "pid", "INTEGER", give_int, EVENT(event.key.pid), VTAB_PID, 0, "of which process" },
	{ "event_type", "TEXT", give_text, EVENT(type), VTAB_NO_KEY, 0,
	  "spawn, exit, signal, kill, oom, orphan" },
	{ "exit_code", "INTEGER", give_int_or_none, EVENT(event.status.exit_code), VTAB_NO_KEY, 0,
	  "of an exit" },
	{ "signal_num", "INTEGER", give_int_or_none, EVENT(event.status.signal), VTAB_NO_KEY, 0,
	  "what ended it, or was sent" },
	{ "job_id", "TEXT", give_text, EVENT(event.job_id), VTAB_JOB, 0, "whose it is" },
	{ "sheet_num", "INTEGER", give_int_or_none, EVENT(event.sheet_num), VTAB_NO_KEY, 0,
	  "number of the sheet" },
	{ "details", "TEXT", give_text, EVENT(event.details), VTAB_NO_KEY, 0, "for people" },
	{ "attempt", "INTEGER", give_int, EVENT(attempt_num), VTAB_NO_KEY, 0,
	  "number of the attempt" },
	{ "start_ticks", "INTEGER", give_u64, EVENT(event.key.start_ticks), VTAB_NO_KEY, 0,
	  "as in process_metrics" },
};

static int next_event(struct vtab_cursor *base, struct err *err)
{
	struct events_cursor *c = (struct events_cursor *)base;
	struct query q = { .store = base->store, .stmt = c->stmt };
	int r = query_step(&q, err);

	if (r <= 0)
		return r;
	base->row = &c->row;
	base->rowid = c->row.id = query_read_i64(&q);
	c->row.attempt_num = (int)query_read_i64(&q);
	c->row.event.job_id = query_read_text(&q);
	c->row.type = query_read_text(&q);
	r = query_read_columns(&q, &event_sql_columns, &c->row.event, NULL, err);
	return r < 0 ? r : 1;
}

/* A time that is not known lies within no limits, so these stand there only where they were set. */
static int filter_events(struct vtab_cursor *base, const struct vtab_filter *f, struct err *err)
{
	enum parameter { SINCE = 1, UNTIL, JOB, PID };
	struct events_cursor *c = (struct events_cursor *)base;
	CLEANUP(buf_release) struct buf sql = BUF_INIT;
	sqlite3 *db = base->store->db;

	if (f->is_empty)
		return 0;
	sqlite3_finalize(c->stmt);
	c->stmt = NULL;
	statement_write(STATEMENT_SQL_EVENTS, &sql);
	buf_add_str(&sql, " WHERE true");
	if (f->has_time)
		buf_printf(&sql, " AND e.wall_ns BETWEEN ?%d AND ?%d", SINCE, UNTIL);
	if (f->job_id)
		buf_printf(&sql, " AND jobs.job_id = ?%d", JOB);
	if (f->pid)
		buf_printf(&sql, " AND e.pid = ?%d", PID);
	if (f->is_ordered)
		buf_printf(&sql, " ORDER BY e.wall_ns%s", f->newest_first ? " DESC" : "");
	if (buf_error(&sql) < 0)
		return store_no_memory(base->store, err);
	if (sqlite3_prepare_v2(db, sql.data, (int)sql.len + 1, &c->stmt, NULL) != SQLITE_OK)
		return store_failure(base->store, err);
	if (f->has_time) {
		sqlite3_bind_int64(c->stmt, SINCE, (int64_t)f->since_wall_ns);
		sqlite3_bind_int64(c->stmt, UNTIL, (int64_t)f->until_wall_ns);
	}
	if (f->job_id &&
	    sqlite3_bind_text(c->stmt, JOB, f->job_id, -1, SQLITE_TRANSIENT) != SQLITE_OK)
		return store_failure(base->store, err);
	if (f->pid)
		sqlite3_bind_int(c->stmt, PID, f->pid);
	return next_event(base, err);
}

static void close_events(struct vtab_cursor *base)
{
	sqlite3_finalize(((struct events_cursor *)base)->stmt);
}

/* ---- process_metrics ---- */

struct metrics_row {
	int64_t tick_id;
	uint64_t wall_ns;
	double resolution_seconds;
	uint64_t n_samples;
	int attempt_num;
	struct proc_sample sample;
};

struct metrics_cursor {
	struct vtab_cursor base;
	struct vtab_ticks ticks;
	size_t process;	     /* in the fold, or row of the minute: the next one */
	int64_t row_process; /* its row */
	struct metrics_row row;
};

#define METRIC(field_) offsetof(struct metrics_row, field_)
#define NOT_KEYED(offset_) (offset_), VTAB_NO_KEY, 0

/* A value as it was measured; not of all, where a column for people is enough. */
#define EXACT_CSV(member_, key_, help_)
#define EXACT_SQL(member_, key_, help_) \
	{ key_, GIVE_U64, NOT_KEYED(METRIC(sample.member_)), help_ },

static const struct vtab_column metric_columns[] = {
	{ "snapshot_id", "INTEGER", give_i64, METRIC(tick_id), VTAB_TICK, 0, "snapshots.id" },
	{ "timestamp", "REAL", give_seconds, METRIC(wall_ns), VTAB_TIME, 0,
	  "unix seconds, of the snapshot" },
#define SAMPLE_FIELD(kind_, member_, key_, help_) \
	{ key_, GIVE_##kind_, NOT_KEYED(METRIC(sample.member_)), help_ },
#define SAMPLE_ID(kind_, member_, key_, by_, help_) \
	{ key_, GIVE_##kind_, METRIC(sample.member_), VTAB_##by_, 0, help_ },
#define SAMPLE_JOB(kind_, member_, key_, by_, help_) \
	{ key_, GIVE_##kind_, METRIC(sample.member_), VTAB_##by_, 0, help_ },
#define SAMPLE_CALLS(kind_, key_, help_) { key_, GIVE_##kind_, NOT_KEYED(METRIC(sample)), help_ },
#define SAMPLE_CONTRACT_ENDS \
	{ "attempt", "INTEGER", give_int, NOT_KEYED(METRIC(attempt_num)), "number of the attempt" },
#define SAMPLE_EXACT(member_, key_, where_, help_) EXACT_##where_(member_, key_, help_)
#include "model/sample_fields.def"
	{ "resolution_seconds", "REAL", give_f64, NOT_KEYED(METRIC(resolution_seconds)),
	  "NULL: as it was read; 60: of a minute, averages; see process_minutes" },
	{ "samples", "INTEGER", give_u64, NOT_KEYED(METRIC(n_samples)),
	  "how many stand behind it: 1, or those of the minute" },
};

/* At least one, which is what tells samples from none. */
static unsigned metric_words(const struct vtab_column *column)
{
	unsigned n = 0;

	if (column->give == give_syscall_counts || column->give == give_syscall_times)
		return SAMPLE_WORDS; /* they stand behind all others */
	if (column->give && column->offset >= METRIC(sample))
		n = sample_words_up_to(column->offset - METRIC(sample));
	return n > 0 ? n : 1;
}

/* The next process that was there at the tick. */
static int next_of_fold(struct metrics_cursor *c, struct err *err)
{
	const struct open_fold *fold = c->ticks.fold;
	const struct process *process;
	int r = 0;

	while (r == 0 && c->process < fold->n_processes)
		r = open_fold_sample(c->base.store, fold, c->process++, &c->row.sample, &process,
				     err);
	if (r <= 0)
		return r;
	c->row.n_samples = 1;
	c->row.attempt_num = process->attempt_num;
	c->row_process = process->id;
	return 1;
}

static int next_of_minute(struct metrics_cursor *c, struct err *err)
{
	const struct minute_rows *m = &c->ticks.minute;
	struct minute_row row;
	int r = 0;

	while (r == 0 && c->process < m->n)
		r = minute_window_row(m->window, m->first + c->process++, &row, err);
	if (r <= 0)
		return r;
	minute_row_sample(&row, &c->row.sample);
	c->row.attempt_num = row.attempt_num;
	c->row.n_samples = row.n_samples;
	c->row_process = row.process;
	return 1;
}

/* Its id is as chunks have it, with the tick instead of the fold. */
static int next_process(struct metrics_cursor *c, struct err *err)
{
	int r = c->ticks.fold ? next_of_fold(c, err) : next_of_minute(c, err);

	c->base.rowid = vtab_ticks_id(&c->ticks) * (CHUNK_PROCESS_MAX + 1) +
			(c->row_process & CHUNK_PROCESS_MAX);
	return r;
}

/* From the moment, if there is one (r), on to one that has a process. */
static int find_metric(struct metrics_cursor *c, int r, struct err *err)
{
	while (r > 0) {
		c->process = 0;
		r = next_process(c, err);
		if (r != 0)
			break;
		r = vtab_ticks_next(&c->ticks, err);
	}
	if (r <= 0)
		return r;
	c->base.row = &c->row;
	c->row.tick_id = vtab_ticks_id(&c->ticks);
	vtab_ticks_time(&c->ticks, &c->row.wall_ns, &c->row.resolution_seconds);
	return 1;
}

static int filter_metrics(struct vtab_cursor *base, const struct vtab_filter *filter,
			  struct err *err)
{
	struct metrics_cursor *c = (struct metrics_cursor *)base;
	struct vtab_filter with_samples = *filter;

	if (with_samples.n_words == 0) /* count(*) uses no column */
		with_samples.n_words = 1;
	return find_metric(c, vtab_ticks_begin(&c->ticks, base->store, &with_samples, err), err);
}

static int next_metric(struct vtab_cursor *base, struct err *err)
{
	struct metrics_cursor *c = (struct metrics_cursor *)base;
	int r = next_process(c, err);

	return r != 0 ? r : find_metric(c, vtab_ticks_next(&c->ticks, err), err);
}

static void close_metrics(struct vtab_cursor *base)
{
	vtab_ticks_release(&((struct metrics_cursor *)base)->ticks);
}

/* ---- process_minutes ---- */

struct minutes_cursor {
	struct vtab_cursor base;
	struct timeline *timeline;
	struct minute_rows rows; /* those of the minute that are left */
	struct minute_row row;
};

#define MINUTE(field_) offsetof(struct minute_row, field_)
#define LAST(field_) MINUTE(last.field_), VTAB_NO_KEY, 0

/* How the values of a gauge are given, by its kind: the average is a double. */
#define AVERAGE_U64 give_f64
#define AVERAGE_F64 give_f64
#define AVERAGE_MB give_mb_f64
#define VALUE_U64 give_u64
#define VALUE_F64 give_f64
#define VALUE_MB give_mb

/* The columns of gauges follow the first ones: four each, in the order of recorded minutes. */
#define N_FIRST 12
#define PER_GAUGE 4
#define GAUGE_COLUMN(gauge_, which_, name_, give_, field_, help_)                                 \
	[N_FIRST + (gauge_)*PER_GAUGE + (which_)] = { name_,	   "REAL", give_, MINUTE(field_), \
						      VTAB_NO_KEY, 0,	   help_ },

static const struct vtab_column minute_columns[] = {
	{ "timestamp", "REAL", give_seconds, MINUTE(wall_ns), VTAB_TIME, 0,
	  "unix seconds, when the minute begins" },
	{ "job_id", "TEXT", give_text, MINUTE(last.job_id), VTAB_JOB, 0,
	  "the job that it belongs to" },
	{ "attempt", "INTEGER", give_int, MINUTE(attempt_num), VTAB_NO_KEY, 0,
	  "number of the attempt" },
	{ "sheet_num", "INTEGER", give_int_or_none, LAST(sheet_num), "number of the sheet" },
	{ "rank", "INTEGER", give_int_or_none, LAST(rank), "which of the sheet's ranks it is" },
	{ "pid", "INTEGER", give_int, MINUTE(last.key.pid), VTAB_PID, 0,
	  "reused in time: with start_ticks it is one process of a boot" },
	{ "start_ticks", "INTEGER", give_u64, LAST(key.start_ticks),
	  "when it began, in the kernel's ticks since boot" },
	{ "start_time", "REAL", give_seconds, LAST(start_wall_ns), "when it began, unix time" },
	{ "comm", "TEXT", give_chars, LAST(comm), "its name for the kernel" },
	{ "command", "TEXT", give_text, LAST(command), "the command line, without secrets" },
	{ "samples", "INTEGER", give_u64, MINUTE(n_samples), VTAB_NO_KEY, 0,
	  "how many stand behind it" },
	{ "state", "TEXT", give_state, LAST(state), "the last: R S D Z T t X I" },
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, brief_, help_)                \
	GAUGE_COLUMN(gauge_, 0, key_ "_avg", AVERAGE_##kind_, avg.member_, help_)       \
	GAUGE_COLUMN(gauge_, 1, key_ "_min", VALUE_##kind_, min.member_, "the least")   \
	GAUGE_COLUMN(gauge_, 2, key_ "_max", VALUE_##kind_, max.member_, "the largest") \
	GAUGE_COLUMN(gauge_, 3, key_ "_last", VALUE_##kind_, last.member_, "the last")
#include "model/sample_fields.def"
	[N_FIRST + SAMPLE_N_GAUGES * PER_GAUGE] = { "ppid", "INTEGER", give_int, LAST(ppid),
						    "its parent; from here on the last" },
	{ "uid", "INTEGER", give_u64, LAST(uid), "effective user" },
	{ "cgroup", "TEXT", give_text, LAST(cgroup), "path of its control group" },
#define SAMPLE_COUNTER(kind_, member_, key_, word_, brief_, help_) \
	{ key_, GIVE_##kind_, LAST(member_), help_ },
#define SAMPLE_LEVEL(kind_, member_, key_, word_, help_) \
	{ key_, GIVE_##kind_, LAST(member_), help_ },
#include "model/sample_fields.def"
};

static int next_minute(struct vtab_cursor *base, struct err *err)
{
	struct minutes_cursor *c = (struct minutes_cursor *)base;
	int r = 0;

	while (r == 0) {
		if (c->rows.n > 0) {
			c->rows.n--;
			r = minute_window_row(c->rows.window, c->rows.first++, &c->row, err);
			continue;
		}
		r = timeline_next(c->timeline, err);
		if (r <= 0)
			return r;
		c->rows = timeline_minute(c->timeline);
		r = 0;
	}
	base->row = &c->row;
	base->rowid = (int64_t)(c->row.wall_ns / MINUTE_NS) << CHUNK_BITS |
		      (c->row.process & CHUNK_PROCESS_MAX);
	return r;
}

/* The limits are those of the minute's beginning: of others SQLite would say that they do not
 * match. */
static int filter_minutes(struct vtab_cursor *base, const struct vtab_filter *filter,
			  struct err *err)
{
	struct minutes_cursor *c = (struct minutes_cursor *)base;
	const struct timeline_filter minutes = { .job_id = filter->job_id,
						 .pid = filter->pid,
						 .since_wall_ns = filter->since_wall_ns,
						 .until_wall_ns = filter->until_wall_ns,
						 .newest_first = filter->newest_first,
						 .minutes_only = true };
	int r;

	timeline_close(&c->timeline);
	c->rows.n = 0;
	if (filter->is_empty)
		return 0;
	r = timeline_open(base->store, &minutes, true, &c->timeline, err);
	return r < 0 ? r : next_minute(base, err);
}

static void close_minutes(struct vtab_cursor *base)
{
	timeline_close(&((struct minutes_cursor *)base)->timeline);
}

/* ---- snapshots ---- */

/* A moment; its snapshot is told as far as columns were asked for. */
struct snapshot_row {
	int64_t tick_id;
	uint64_t wall_ns;
	double resolution_seconds;
	struct snapshot snap;
};

struct snapshots_cursor {
	struct vtab_cursor base;
	struct vtab_ticks ticks;
	struct snapshot_row row;
	unsigned told; /* parts of the snapshot */
};

#define SNAPSHOT(field_) offsetof(struct snapshot_row, field_)
#define HOST(field_) SNAPSHOT(snap.field_), VTAB_NO_KEY, FOLD_HOST
#define PROCESSES (FOLD_PROCESSES | FOLD_ATTEMPTS)

static const struct vtab_column snapshot_columns[] = {
	{ "id", "INTEGER", give_i64, SNAPSHOT(tick_id), VTAB_TICK, 0,
	  "the snapshot's number; process_metrics.snapshot_id" },
	{ "timestamp", "REAL", give_seconds, SNAPSHOT(wall_ns), VTAB_TIME, 0, "unix seconds" },
#define HOST_MEMBER(kind_, member_, key_, exact_, help_) \
	{ key_, GIVE_##kind_, HOST(member_), help_ },
#define HOST_FIELD(kind_, member_, key_, scale_, exact_, help_) \
	{ key_, GIVE_##kind_, HOST(system.member_), help_ },
#define HOST_PSI(member_, key_, help_) { key_, "TEXT", give_psi, HOST(system.member_), help_ },
#include "model/host_fields.def"
	{ "zombie_count", "INTEGER", give_zombie_count, SNAPSHOT(snap), VTAB_NO_KEY, PROCESSES,
	  "recorded processes that were zombies" },
	{ "zombie_pids", "TEXT", give_zombie_pids, SNAPSHOT(snap), VTAB_NO_KEY, PROCESSES,
	  "a JSON array" },
	{ "gpus", "TEXT", give_gpus, SNAPSHOT(snap), VTAB_NO_KEY, FOLD_THINGS,
	  "a JSON array of objects; NULL: nobody could look" },
	{ "job_progress", "TEXT", give_progress, SNAPSHOT(snap), VTAB_NO_KEY, FOLD_THINGS,
	  "a JSON array of objects" },
	{ "cgroups", "TEXT", give_cgroups, SNAPSHOT(snap), VTAB_NO_KEY, FOLD_THINGS,
	  "of jobs, with their memory: a JSON array of objects; NULL: nobody looked" },
	{ "conductor_uptime_seconds", "REAL", give_f64, HOST(daemon_uptime_seconds),
	  "how long the recorder was up" },
	{ "resolution_seconds", "REAL", give_f64, SNAPSHOT(resolution_seconds), VTAB_NO_KEY, 0,
	  "NULL: a moment; 60: a minute, of which only GPUs are kept of the host" },
	{ "covers", "TEXT", give_covers, HOST(covers),
	  "host: all jobs; job: the one of its runner; look: one, between two ticks" },
};

static unsigned snapshot_words(const struct vtab_column *column)
{
	return column->parts & FOLD_PROCESSES ? SAMPLE_state + 1 : 0;
}

static int take_moment(struct snapshots_cursor *c, int r)
{
	if (r <= 0)
		return r;
	c->base.row = &c->row;
	c->base.rowid = c->row.tick_id = vtab_ticks_id(&c->ticks);
	vtab_ticks_time(&c->ticks, &c->row.wall_ns, &c->row.resolution_seconds);
	snapshot_reset(&c->row.snap);
	c->told = 0;
	return 1;
}

static int filter_snapshots(struct vtab_cursor *base, const struct vtab_filter *filter,
			    struct err *err)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;

	return take_moment(c, vtab_ticks_begin(&c->ticks, base->store, filter, err));
}

static int next_snapshot(struct vtab_cursor *base, struct err *err)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;

	return take_moment(c, vtab_ticks_next(&c->ticks, err));
}

/* Of a minute there is all or nothing. */
static int fill_snapshot(struct vtab_cursor *base, const struct vtab_column *column,
			 struct err *err)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;
	unsigned missing = column->parts & ~c->told;
	int r = 0;

	if (missing && c->ticks.fold)
		r = open_fold_snapshot(base->store, c->ticks.fold, missing, &c->row.snap, err);
	else if (missing && !c->told)
		r = minute_rows_snapshot(base->store, &c->ticks.minute, false, &c->row.snap, err);
	if (r == 0)
		c->told |= missing;
	return r;
}

static void open_snapshots(struct vtab_cursor *base)
{
	snapshot_init(&((struct snapshots_cursor *)base)->row.snap);
}

static void close_snapshots(struct vtab_cursor *base)
{
	struct snapshots_cursor *c = (struct snapshots_cursor *)base;

	snapshot_release(&c->row.snap);
	vtab_ticks_release(&c->ticks);
}

/* ---- all of them ---- */

const struct vtab_table vtab_tables[VTAB_N_TABLES] = {
	{
		.name = "snapshots",
		.about =
			"the host, each time that somebody looked; a row for each minute of what is "
			"older",
		.columns = snapshot_columns,
		.n_columns = ARRAY_SIZE(snapshot_columns),
		.cursor_size = sizeof(struct snapshots_cursor),
		.of_size = offsetof(struct vtab_size, n_ticks),
		.n_words = snapshot_words,
		.open = open_snapshots,
		.close = close_snapshots,
		.filter = filter_snapshots,
		.next = next_snapshot,
		.fill = fill_snapshot,
	},
	{
		.name = "process_metrics",
		.about =
			"what each process of a job was doing, in each snapshot; in each minute of "
			"what is older. cpu_wait_seconds and ignores_sigchld are told of now alone, "
			"and in no record",
		.columns = metric_columns,
		.n_columns = ARRAY_SIZE(metric_columns),
		.cursor_size = sizeof(struct metrics_cursor),
		.of_size = offsetof(struct vtab_size, n_samples),
		.n_words = metric_words,
		.close = close_metrics,
		.filter = filter_metrics,
		.next = next_metric,
	},
	{
		.name = "process_events",
		.about = "births, deaths and signals of jobs' processes",
		.columns = event_columns_sql,
		.n_columns = ARRAY_SIZE(event_columns_sql),
		.cursor_size = sizeof(struct events_cursor),
		.of_size = offsetof(struct vtab_size, n_events),
		.close = close_events,
		.filter = filter_events,
		.next = next_event,
	},
	{
		.name = "process_minutes",
		.about = "each process of a job in each minute: average, least, largest and last",
		.columns = minute_columns,
		.n_columns = ARRAY_SIZE(minute_columns),
		.cursor_size = sizeof(struct minutes_cursor),
		.of_size = offsetof(struct vtab_size, n_minutes),
		.close = close_minutes,
		.filter = filter_minutes,
		.next = next_minute,
	},
};
