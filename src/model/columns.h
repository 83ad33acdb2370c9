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
#ifndef PROCTOR_MODEL_COLUMNS_H
#define PROCTOR_MODEL_COLUMNS_H

#include <stddef.h>

enum column_type {
	COLUMN_U64,	    /* uint64_t; U64_UNKNOWN is unknown */
	COLUMN_BITS,	    /* uint64_t, of which every value is known */
	COLUMN_F64,	    /* double; NaN is unknown */
	COLUMN_INT,	    /* int or pid_t */
	COLUMN_INT_OR_NONE, /* int; a negative one is unknown, and read as -1 */
	COLUMN_FLAG,	    /* bool */
	COLUMN_TEXT,	    /* const char *; NULL is unknown. Any bytes */
	COLUMN_DETAIL,	    /* const char *; NULL is "" */
	COLUMN_CHARS,	    /* char[size]; "" is unknown */
	COLUMN_OUTCOME,	    /* enum outcome */
	COLUMN_EVIDENCE,    /* enum evidence */
	COLUMN_EVENT_TYPE,  /* enum event_type */
	N_COLUMN_TYPES,
};

struct column {
	const char *name;
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

#endif
