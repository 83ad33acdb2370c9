/*
 * columns - how a field of a struct is kept in a column, exactly.
 *
 * A struct of model/ is described by a constant array, one row per field:
 *
 *	static const struct column rank_items[] = {
 *		COLUMN(rank_record, rank, column_int),
 *		COLUMN_AS("exit_code", rank_record, status.exit_code, column_int_or_none),
 *	};
 *
 * Statements are made from it (statements.h), values are bound and read by it
 * (query.h), so a field stands in one place only.
 */
#ifndef PROCTOR_STORE_COLUMNS_H
#define PROCTOR_STORE_COLUMNS_H

#include <stddef.h>

#include "base/arena.h"
#include "store/sqlite.h"

/* How one type is kept. field points into the struct; size is that of the field. */
struct column_type {
	/* Returns SQLite's result code. What field points at lives until the statement has run. */
	int (*bind)(sqlite3_stmt *stmt, int index, const void *field);
	/*
	 * -EBADMSG: no such value can have been written. -ENOMEM. Strings are copied
	 * into the arena; without one they are SQLite's and live until the next step.
	 */
	int (*read)(sqlite3_stmt *stmt, int index, void *field, size_t size, struct arena *arena);
};

/*
 * uint64_t. U64_UNKNOWN is NULL. SQLite's integers are signed, so values from
 * 2^63 up are kept as the negative number with the same bits: nothing is lost,
 * and FD_LIMIT_UNLIMITED is -2.
 */
extern const struct column_type column_u64;
extern const struct column_type column_bits;	    /* uint64_t, same, but every value is known */
extern const struct column_type column_f64;	    /* double; NaN is NULL */
extern const struct column_type column_int;	    /* int or pid_t */
extern const struct column_type column_int_or_none; /* int; negative is NULL, NULL is -1 */
extern const struct column_type column_flag;	    /* bool */
extern const struct column_type column_count;	    /* unsigned; 0 means unknown and is NULL */
extern const struct column_type column_text;	    /* const char *; NULL is NULL. Any bytes. */
extern const struct column_type column_detail;	    /* const char *; NULL is "" */
extern const struct column_type column_chars;	    /* char[size]; "" is NULL */
extern const struct column_type column_state;	    /* one char; '?' is NULL */
extern const struct column_type column_outcome;	    /* enum outcome, by name */
extern const struct column_type column_evidence;    /* enum evidence, by name */
extern const struct column_type column_event_type;  /* enum event_type, by name */

struct column {
	const char *name;
	const struct column_type *type;
	size_t offset;
	size_t size;
};

#define COLUMN_AS(name_, struct_, field_, type_)                 \
	{                                                        \
		name_, &type_, offsetof(struct struct_, field_), \
			sizeof(((struct struct_ *)0)->field_)    \
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
