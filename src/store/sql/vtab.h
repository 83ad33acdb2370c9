/*
 * vtab - recorded ticks, samples and events as tables of SQL.
 *
 * vtab_register() adds snapshots, process_metrics, process_events and process_minutes
 * to a connection whose main database is proctor's. They are read-only, made of the
 * folds while they are read, and see what the statement that reads them sees.
 * Limits on time, job, pid and snapshot reach the folds: others are not opened.
 *
 * A table is one struct vtab_table: its columns, and how its rows are found. For
 * the files vtab_*.c; others need vtab_register() alone.
 */
#ifndef PROCTOR_STORE_SQL_VTAB_H
#define PROCTOR_STORE_SQL_VTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/sqlite.h"
#include "store/store.h"

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
	size_t offset;	    /* of the field in what row() returns */
	enum vtab_key key;
	unsigned parts;	   /* of the row that it needs: the table knows what they are */
	const char *about; /* for people */
};

/* How fields are given; unknown is NULL. */
vtab_give_fn vtab_give_i64;	    /* int64_t */
vtab_give_fn vtab_give_u64;	    /* uint64_t */
vtab_give_fn vtab_give_mb;	    /* uint64_t bytes */
vtab_give_fn vtab_give_mb_f64;	    /* double bytes */
vtab_give_fn vtab_give_seconds;	    /* uint64_t ns */
vtab_give_fn vtab_give_f64;	    /* double */
vtab_give_fn vtab_give_int;	    /* int, pid_t */
vtab_give_fn vtab_give_int_or_none; /* int; negative is NULL */
vtab_give_fn vtab_give_pid;	    /* pid_t; 0 is NULL */
vtab_give_fn vtab_give_count;	    /* unsigned; 0 is NULL */
vtab_give_fn vtab_give_text;	    /* const char * */
vtab_give_fn vtab_give_chars;	    /* char[]; "" is NULL */
vtab_give_fn vtab_give_state;	    /* char; '?' is NULL */
vtab_give_fn vtab_give_covers;	    /* enum snapshot_covers */
vtab_give_fn vtab_give_fd_limit;    /* uint64_t; unlimited is the word, as in JSON */
vtab_give_fn vtab_give_psi;	    /* struct psi, as JSON */
/* Of a struct proc_sample, as JSON. */
vtab_give_fn vtab_give_syscall_counts, vtab_give_syscall_times;
/* Of a struct snapshot. */
vtab_give_fn vtab_give_gpus, vtab_give_progress, vtab_give_cgroups, vtab_give_zombie_pids,
	vtab_give_zombie_count;

/* The type in SQL and the function for a field of a sample, by its kind in sample_fields.def. */
#define VTAB_GIVE_PID "INTEGER", vtab_give_int
#define VTAB_GIVE_INT "INTEGER", vtab_give_int_or_none
#define VTAB_GIVE_U64 "INTEGER", vtab_give_u64
#define VTAB_GIVE_LIMIT "INTEGER", vtab_give_fd_limit
#define VTAB_GIVE_F64 "REAL", vtab_give_f64
#define VTAB_GIVE_MB "REAL", vtab_give_mb
#define VTAB_GIVE_SECONDS "REAL", vtab_give_seconds
#define VTAB_GIVE_STRING "TEXT", vtab_give_text
#define VTAB_GIVE_CHAR "TEXT", vtab_give_state
#define VTAB_GIVE_COMM "TEXT", vtab_give_chars
#define VTAB_GIVE_COUNTS "TEXT", vtab_give_syscall_counts
#define VTAB_GIVE_TIMES "TEXT", vtab_give_syscall_times

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
	double n_ticks, n_samples, n_events, n_jobs, n_pids;
	double n_spans; /* a limit on time leaves one of so many: a guess */
};

struct vtab_cursor;

struct vtab_table {
	const char *name, *about;
	const struct vtab_column *columns;
	size_t n_columns;
	size_t cursor_size;
	double (*count)(const struct vtab_size *size);	       /* its rows, roughly */
	unsigned (*n_words)(const struct vtab_column *column); /* NULL: none */
	void (*open)(struct vtab_cursor *cursor); /* it is cleared; NULL: nothing to do */
	void (*close)(struct vtab_cursor *cursor);
	/* 1: it stands at the first, or the next, row. 0: there is none. */
	int (*filter)(struct vtab_cursor *cursor, const struct vtab_filter *filter,
		      struct err *err);
	int (*next)(struct vtab_cursor *cursor, struct err *err);
	/* The struct that the column's offset is of, its parts filled in; NULL: err says why. */
	const void *(*row)(struct vtab_cursor *cursor, const struct vtab_column *column,
			   struct err *err);
	int64_t (*rowid)(const struct vtab_cursor *cursor); /* the same in each statement */
};

/* What a cursor of a table begins with. */
struct vtab_cursor {
	sqlite3_vtab_cursor base;
	const struct vtab_table *table;
	struct store *store;
	bool has_row;
};

extern const struct vtab_table vtab_snapshots, vtab_metrics, vtab_events, vtab_minutes;

/* The number i of them; NULL: there are no more. */
const struct vtab_table *vtab_table_at(size_t i);

#endif
