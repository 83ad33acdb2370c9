/*
 * columns - the fields of a recorded struct, as a constant table.
 *
 *	static const struct column rank_items[] = {
 *		COLUMN(rank_record, rank, COLUMN_INT),
 *		COLUMN_AS("exit_code", rank_record, status.exit_code, COLUMN_INT_OR_NONE),
 *	};
 *
 * The bytes of a record (record.h) and the columns of a database (store/) are made from it, so a
 * field stands in one place only.
 */
#pragma once

#include <stddef.h>

enum column_type {
	COLUMN_U64,	     /* uint64_t; U64_UNKNOWN is unknown */
	COLUMN_BITS,	     /* uint64_t, of which every value is known */
	COLUMN_BITS_OR_NONE, /* the same in bytes; U64_UNKNOWN is NULL in a database */
	COLUMN_F64,	     /* double; NaN is unknown */
	COLUMN_INT,	     /* int or pid_t */
	COLUMN_INT_OR_NONE,  /* int; a negative one is unknown, and read as -1 */
	COLUMN_FLAG,	     /* bool */
	COLUMN_TEXT,	     /* const char *; NULL is unknown. Any bytes */
	COLUMN_DETAIL,	     /* const char *; NULL is "" */
	COLUMN_CHARS,	     /* char[size]; "" is unknown */
	COLUMN_OUTCOME,	     /* enum outcome */
	COLUMN_CAUSE,	     /* enum cause_kind */
	COLUMN_EVIDENCE,     /* enum evidence */
	COLUMN_EVENT_TYPE,   /* enum event_type */
	COLUMN_ANOMALY_TYPE, /* enum anomaly_type */
	COLUMN_SEVERITY,     /* enum severity */
	COLUMN_CHANGE,	     /* enum episode_change */
	N_COLUMN_TYPES,
};

struct column {
	const char *name; /* in a database; NULL: it is in bytes alone */
	enum column_type type;
	size_t offset;
	size_t size;
};

#define COLUMN_AS(name_, struct_, field_, type_)                \
	{                                                       \
		name_, type_, offsetof(struct struct_, field_), \
			sizeof(((struct struct_ *)0)->field_)   \
	}
#define COLUMN(struct_, field_, type_) COLUMN_AS(#field_, struct_, field_, type_)

struct columns {
	const struct column *items;
	size_t n;
};

/* From the array above: const struct columns rank_columns = COLUMNS(rank_items); */
#define COLUMNS(items_)                                      \
	{                                                    \
		items_, sizeof(items_) / sizeof((items_)[0]) \
	}

/* Every column's field as unknown as it can be: 0 or false where it has no such value. */
void columns_clear(const struct columns *columns, void *ret);

/* struct attempt, by when it is known */
extern const struct columns attempt_who_columns;      /* its job, boot and number */
extern const struct columns attempt_begin_columns;    /* when it begins */
extern const struct columns clock_columns;	      /* of its host, then */
extern const struct columns attempt_progress_columns; /* with each sheet */
extern const struct columns attempt_end_columns;      /* when it ends; with usage_columns */

extern const struct columns usage_columns;	    /* struct usage */
extern const struct columns daemon_columns;	    /* struct daemon_record */
extern const struct columns sheet_columns;	    /* struct sheet_record; with usage_columns */
extern const struct columns rank_columns;	    /* struct rank_record */
extern const struct columns process_columns;	    /* struct proc_record */
extern const struct columns event_columns;	    /* struct proc_event */
extern const struct columns phase_columns;	    /* struct phase_record */
extern const struct columns rung_columns;	    /* struct rung */
extern const struct columns unknown_columns;	    /* struct unknown_note */
extern const struct columns syscall_columns;	    /* struct syscall_use */
extern const struct columns sample_process_columns; /* struct proc_sample: what is kept once per
						       process, not in words (words.h) */
extern const struct columns episode_columns;	    /* struct episode; host and evidence are JSON */
extern const struct columns moment_columns;	    /* struct episode_moment */

/* What is learned from runs. */
extern const struct columns run_columns;      /* struct run_record */
extern const struct columns pattern_columns;  /* struct pattern */
extern const struct columns estimate_columns; /* struct estimate */
