/*
 * csv_cells - rows and cells of CSV (RFC 4180) as they stand in a file. Inside of csv_heading.c
 * and csv_rows.c.
 */
#ifndef PROCTOR_CROSSRANK_CSV_CELLS_H
#define PROCTOR_CROSSRANK_CSV_CELLS_H

#include "crossrank/records.h"

struct csv_column {
	char *name;
	int field; /* -1: none of version 2 */
};

/*
 * The length of the row at begin, without its line end; quotes may hold line ends. 1; 0: there is
 * none; -EFBIG: it is longer than a record may be.
 */
int csv_find_row(struct records *r, size_t *ret_n, bool *ret_has_end);

/* Where a row of n bytes ends: without the carriage return that some write before a line feed. */
const char *csv_row_end(const char *row, size_t n);

/* Takes the cell at *at into cell and moves behind its comma. False: something stands behind a
 * quote. */
bool csv_take_cell(const char **at, const char *end, struct buf *cell);

/* Whether the last cell of a row, from at to end, is in quotes of which the last one closes it. */
bool csv_is_closed(const char *at, const char *end);

/* Nothing but spaces. */
bool csv_is_blank(const char *row, size_t n);

/* Whether something stands in a column of the row of n bytes; the first is 0. */
bool csv_has_cell(const char *row, size_t n, size_t column);

#endif
