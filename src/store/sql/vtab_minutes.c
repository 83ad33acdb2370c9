#include "base/macros.h"
#include "store/fold.h"
#include "store/minute_window.h"
#include "store/rollup.h"
#include "store/sql/vtab.h"

struct minutes_cursor {
	struct vtab_cursor base;
	struct minute_walk *walk;
};

/* ---- columns ---- */

#define ROW(field_) offsetof(struct minute_row, field_)
#define LAST(field_) ROW(last.field_), VTAB_NO_KEY, 0

/* How the values of a gauge are given, by its kind: the average is a double. */
#define AVERAGE_U64 vtab_give_f64
#define AVERAGE_F64 vtab_give_f64
#define AVERAGE_MB vtab_give_mb_f64
#define VALUE_U64 vtab_give_u64
#define VALUE_F64 vtab_give_f64
#define VALUE_MB vtab_give_mb

/* The columns of gauges follow the first ones: four each, in the order of recorded minutes. */
#define N_FIRST 12
#define PER_GAUGE 4
#define GAUGE_COLUMN(gauge_, which_, name_, give_, field_, help_)                              \
	[N_FIRST + (gauge_)*PER_GAUGE + (which_)] = { name_,	   "REAL", give_, ROW(field_), \
						      VTAB_NO_KEY, 0,	   help_ },

static const struct vtab_column columns[] = {
	{ "timestamp", "REAL", vtab_give_seconds, ROW(wall_ns), VTAB_TIME, 0,
	  "unix seconds, when the minute begins" },
	{ "job_id", "TEXT", vtab_give_text, ROW(last.job_id), VTAB_JOB, 0,
	  "the job that it belongs to" },
	{ "attempt", "INTEGER", vtab_give_int, ROW(attempt_num), VTAB_NO_KEY, 0,
	  "number of the attempt" },
	{ "sheet_num", "INTEGER", vtab_give_int_or_none, LAST(sheet_num), "number of the sheet" },
	{ "rank", "INTEGER", vtab_give_int_or_none, LAST(rank),
	  "which of the sheet's ranks it is" },
	{ "pid", "INTEGER", vtab_give_int, ROW(last.key.pid), VTAB_PID, 0,
	  "reused in time: with start_ticks it is one process of a boot" },
	{ "start_ticks", "INTEGER", vtab_give_u64, LAST(key.start_ticks),
	  "when it began, in the kernel's ticks since boot" },
	{ "start_time", "REAL", vtab_give_seconds, LAST(start_wall_ns),
	  "when it began, unix time" },
	{ "comm", "TEXT", vtab_give_chars, LAST(comm), "its name for the kernel" },
	{ "command", "TEXT", vtab_give_text, LAST(command), "the command line, without secrets" },
	{ "samples", "INTEGER", vtab_give_u64, ROW(n_samples), VTAB_NO_KEY, 0,
	  "how many stand behind it" },
	{ "state", "TEXT", vtab_give_state, LAST(state), "the last: R S D Z T t X I" },
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, brief_, help_)                \
	GAUGE_COLUMN(gauge_, 0, key_ "_avg", AVERAGE_##kind_, avg.member_, help_)       \
	GAUGE_COLUMN(gauge_, 1, key_ "_min", VALUE_##kind_, min.member_, "the least")   \
	GAUGE_COLUMN(gauge_, 2, key_ "_max", VALUE_##kind_, max.member_, "the largest") \
	GAUGE_COLUMN(gauge_, 3, key_ "_last", VALUE_##kind_, last.member_, "the last")
#include "model/sample_fields.def"
	[N_FIRST + SAMPLE_N_GAUGES * PER_GAUGE] = { "ppid", "INTEGER", vtab_give_int, LAST(ppid),
						    "its parent; from here on the last" },
	{ "uid", "INTEGER", vtab_give_u64, LAST(uid), "effective user" },
	{ "cgroup", "TEXT", vtab_give_text, LAST(cgroup), "path of its control group" },
#define SAMPLE_COUNTER(kind_, member_, key_, word_, brief_, help_) \
	{ key_, VTAB_GIVE_##kind_, LAST(member_), help_ },
#define SAMPLE_LEVEL(kind_, member_, key_, word_, help_) \
	{ key_, VTAB_GIVE_##kind_, LAST(member_), help_ },
#include "model/sample_fields.def"
};

/* A guess: a tick every five seconds. */
static double count_rows(const struct vtab_size *size)
{
	return size->n_samples / 12;
}

/* ---- rows ---- */

static int next_row(struct vtab_cursor *base, struct err *err)
{
	return minute_walk_next(((struct minutes_cursor *)base)->walk, err);
}

/* The limits are those of the minute's beginning: of others SQLite would say that they do not
 * match. */
static int filter_rows(struct vtab_cursor *base, const struct vtab_filter *filter, struct err *err)
{
	struct minutes_cursor *c = (struct minutes_cursor *)base;
	const struct minute_filter minutes = { filter->job_id, filter->pid, filter->since_wall_ns,
					       filter->until_wall_ns };
	int r;

	minute_walk_close(&c->walk);
	if (filter->is_empty)
		return 0;
	r = minute_walk_open(base->store, &minutes, filter->newest_first, &c->walk, err);
	return r < 0 ? r : next_row(base, err);
}

static const void *tell_row(struct vtab_cursor *base, const struct vtab_column *column,
			    struct err *err)
{
	(void)column;
	(void)err;
	return minute_walk_row(((struct minutes_cursor *)base)->walk);
}

static int64_t row_id(const struct vtab_cursor *base)
{
	const struct minute_walk *walk = ((const struct minutes_cursor *)base)->walk;
	int64_t minute = (int64_t)(minute_walk_row(walk)->wall_ns / MINUTE_NS);

	return minute << CHUNK_BITS | (minute_walk_process(walk) & CHUNK_PROCESS_MAX);
}

static void close_rows(struct vtab_cursor *base)
{
	minute_walk_close(&((struct minutes_cursor *)base)->walk);
}

const struct vtab_table vtab_minutes = {
	.name = "process_minutes",
	.about = "each process of a job in each minute: average, least, largest and last",
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.cursor_size = sizeof(struct minutes_cursor),
	.count = count_rows,
	.close = close_rows,
	.filter = filter_rows,
	.next = next_row,
	.row = tell_row,
	.rowid = row_id,
};
