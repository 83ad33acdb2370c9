/*
 * rows - whole arrays of structs into a table, and out of it.
 */
#ifndef PROCTOR_STORE_ROWS_H
#define PROCTOR_STORE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "store/damage.h"
#include "store/query.h"

/* Runs the statement for each item; its values are the attempt, then the columns. */
int rows_write(struct store *store, enum statement id, int64_t attempt_id,
	       const struct columns *columns, const void *items, size_t n, size_t item_size,
	       struct err *err);

/* Columns of a struct that stands at an offset in the item. */
struct row_part {
	const struct columns *columns;
	size_t offset;
};

/* Reads the row that the query stands on into the item, part by part. */
int row_read(struct query *q, const struct row_part *parts, size_t n_parts, void *item,
	     struct arena *arena, struct err *err);

/*
 * All rows of a query (bound, not yet stepped) as an array of items, in the
 * arena with their strings. ret_items is the address of a pointer. No rows: NULL and 0.
 */
int rows_read(struct query *q, const struct row_part *parts, size_t n_parts, size_t item_size,
	      struct arena *arena, void *ret_items, size_t *ret_n, struct err *err);

/*
 * The same of a query that has the id and the time of each row before the columns of the one
 * part: rows that make no sense are left out, as such of this kind and recorder (damage.h).
 */
int rows_read_sound(struct query *q, const struct damage *kind, const struct columns *columns,
		    size_t item_size, struct arena *arena, void *ret_items, size_t *ret_n,
		    struct err *err);

#endif
