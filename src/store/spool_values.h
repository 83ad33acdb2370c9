/*
 * spool_values - columns of a struct as bytes, and back.
 *
 * The same columns (tables.h) that are bound to a statement are put down as the values that
 * SQLite makes of them, so a field stands in one place only here as well. Their names are put
 * down once, before the values: who reads them may have other columns, or fewer.
 */
#ifndef PROCTOR_STORE_SPOOL_VALUES_H
#define PROCTOR_STORE_SPOOL_VALUES_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "store/columns.h"

struct value_writer {
	sqlite3 *db; /* an empty one, which turns fields into values */
	sqlite3_stmt *stmt;
	struct buf *out;
	bool failed;
};

int value_writer_open(struct value_writer *w, struct buf *out); /* -ENOMEM */
void value_writer_close(struct value_writer *w);

void value_write_i64(struct value_writer *w, int64_t v);
void value_write_names(struct value_writer *w, const struct columns *columns);
void value_write_columns(struct value_writer *w, const struct columns *columns, const void *from);

/* Borrows the bytes. After an error nothing more is read. */
struct value_reader {
	sqlite3 *db;
	sqlite3_stmt *stmt;
	const char *p, *end;
	int error; /* -EBADMSG: not what was written. -ENOMEM. */
};

int value_reader_open(struct value_reader *r, const void *bytes, size_t len); /* -ENOMEM */
void value_reader_close(struct value_reader *r);

int64_t value_read_i64(struct value_reader *r);

/* The columns of a row, in the order in which they were written; NULL: there is none here. */
#define VALUE_NAMES_MAX 256
struct value_names {
	const struct column *columns[VALUE_NAMES_MAX];
	size_t n; /* never 0, but after an error */
};

void value_read_names(struct value_reader *r, const struct columns *columns,
		      struct value_names *ret);
/* Fields that were not written stay as they are. Strings go into the arena. */
void value_read_columns(struct value_reader *r, const struct value_names *names, void *to,
			struct arena *arena);

#endif
