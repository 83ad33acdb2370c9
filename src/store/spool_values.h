/*
 * spool_values - columns of a struct as bytes, and back into statements.
 *
 * The same columns (tables.h) that are bound to a statement are put down as the values that
 * SQLite makes of them, so a field stands in one place only here as well.
 */
#ifndef PROCTOR_STORE_SPOOL_VALUES_H
#define PROCTOR_STORE_SPOOL_VALUES_H

#include "base/buf.h"
#include "store/query.h"

struct value_writer {
	sqlite3 *db; /* an empty one, which turns fields into values */
	struct buf *out;
	bool failed;
};

int value_writer_open(struct value_writer *w, struct buf *out); /* -ENOMEM */
void value_writer_close(struct value_writer *w);

void value_write_columns(struct value_writer *w, const struct columns *columns, const void *from);
void value_write_i64(struct value_writer *w, int64_t v);
void value_write_text(struct value_writer *w, const char *s); /* NULL is NULL */

/* Borrows the bytes. After a failure all that is read is NULL and 0. */
struct value_reader {
	const char *p, *end;
	bool failed;
};

/* The next n of them become the statement's next n. */
void value_bind(struct value_reader *r, struct query *q, size_t n);
int64_t value_read_i64(struct value_reader *r);
/* It is copied, to be freed; NULL for NULL, or when memory runs out (then it has failed). */
char *value_read_text(struct value_reader *r);

/* Goes on behind n of them. */
void value_skip(struct value_reader *r, size_t n);

#endif
