/*
 * vtab - recorded ticks, samples and events as tables of SQL.
 *
 * vtab_register() adds snapshots, process_metrics, process_events and process_minutes
 * to a connection whose main database is proctor's. They are read-only, made of the
 * folds while they are read, and see what the statement that reads them sees.
 * Limits on time, job, pid and snapshot reach the folds: others are not opened.
 *
 * vtab.c has what SQLite calls and chooses the plan; vtab_tables.c the tables; vtab_ticks.c finds
 * the moments that they are of. Others need vtab_register() alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/sqlite.h"
#include "store/fold.h"
#include "store/store.h"
#include "store/timeline.h"

/*
 * The tables are there until the connection is closed. What is damaged is left out where
 * there is a store that can tell of it (it outlives the connection); with NULL the
 * statement that meets it fails. -EINVAL, -ENOMEM.
 */
int vtab_register(sqlite3 *db, struct store *teller, struct err *err);

/* ---- columns ---- */

/* By which limits on a column rows can be found. */
enum vtab_key {
	VTAB_NO_KEY,
	VTAB_TIME, /* <, <=, =, >=, > */
	VTAB_TICK, /* = */
	VTAB_JOB,  /* = */
	VTAB_PID,  /* = */
};

/* Gives a field to SQLite. */
typedef void vtab_give_fn(sqlite3_context *ctx, const void *field);

struct vtab_column {
	const char *name;
	const char *type;   /* as SQL calls it */
	vtab_give_fn *give; /* NULL: nobody measures it yet */
	size_t offset;	    /* of the field in the row */
	enum vtab_key key;
	unsigned parts;	   /* of the row that it needs (fill()) */
	const char *about; /* for people */
};

/* ---- which rows ---- */

/* At least those that are asked for: SQLite looks at each once more. */
struct vtab_filter {
	bool is_empty; /* none can match */
	bool has_time;
	uint64_t since_wall_ns, until_wall_ns;
	bool has_tick;
	int64_t tick_id;
	const char *job_id; /* NULL: any; valid during the call */
	pid_t pid;	    /* 0: any */
	bool is_ordered;    /* by time… */
	bool newest_first;  /* …or against it */
	unsigned n_words;   /* of samples that the columns asked for need */
};

/* How much there is, roughly; at least 1 of each. */
struct vtab_size {
	double n_ticks, n_samples, n_minutes, n_events, n_jobs, n_pids;
	double n_spans; /* a limit on time leaves one of so many: a guess */
};

struct vtab_cursor;

struct vtab_table {
	const char *name, *about;
	const struct vtab_column *columns;
	size_t n_columns;
	size_t cursor_size;
	size_t of_size; /* in struct vtab_size: how many rows it has */
	unsigned (*n_words)(const struct vtab_column *column); /* NULL: none */
	void (*open)(struct vtab_cursor *cursor); /* it is cleared; NULL: nothing to do */
	void (*close)(struct vtab_cursor *cursor);
	/* 1: it stands at the first, or the next, row. 0: there is none. */
	int (*filter)(struct vtab_cursor *cursor, const struct vtab_filter *filter,
		      struct err *err);
	int (*next)(struct vtab_cursor *cursor, struct err *err);
	/* Fills in the parts of the row that the column needs; NULL: it has all. */
	int (*fill)(struct vtab_cursor *cursor, const struct vtab_column *column, struct err *err);
};

/* What a cursor of a table begins with. */
struct vtab_cursor {
	sqlite3_vtab_cursor base;
	const struct vtab_table *table;
	struct store *store;
	bool has_row;
	const void *row; /* the struct that offsets of columns are of */
	int64_t rowid;	 /* the same in each statement */
};

#define VTAB_N_TABLES 4
extern const struct vtab_table vtab_tables[VTAB_N_TABLES];

/*
 * vtab_ticks - the moments that a statement asks for: all of a time, or one by its id.
 *
 * A moment is a tick, or a minute where ticks are not kept any more. A tick has its own id,
 * a minute its number since 1970, negative.
 *
 * A join asks for one by one, mostly for neighbours. So the folds that they were
 * found in stay open until vtab_ticks_release().
 */
struct vtab_ticks {
	struct store *store;
	struct timeline *timeline;
	struct open_fold *kept;	      /* the one that was used last first */
	unsigned n_words;	      /* of those */
	struct minute_window *window; /* of a minute that was found by its id */
	uint64_t from, to;	      /* what is in it */
	const struct open_fold *fold; /* the tick is its current one; NULL: a minute, or none */
	struct minute_rows minute;    /* no rows: a tick, or none */
};

void vtab_ticks_release(struct vtab_ticks *ticks);

/* 1: it stands at the first, or the next, moment. 0: there is none. */
int vtab_ticks_begin(struct vtab_ticks *ticks, struct store *store,
		     const struct vtab_filter *filter, struct err *err);
int vtab_ticks_next(struct vtab_ticks *ticks, struct err *err);

int64_t vtab_ticks_id(const struct vtab_ticks *ticks);
/* The resolution of a tick is NaN. */
void vtab_ticks_time(const struct vtab_ticks *ticks, uint64_t *ret_wall_ns, double *ret_resolution);
