/*
 * Rows of CSV as JSON records. A cell is a number where its column is one of
 * numbers; an empty cell is null, or left out where null may not stand. Spreadsheets and data
 * frames write whole numbers as "17.0" in a column with gaps: that is 17.
 */
#include "crossrank/records.h"

#include <errno.h>
#include <string.h>

#include "base/ascii.h"
#include "base/json.h"
#include "base/macros.h"
#include "crossrank/bulk.h"
#include "crossrank/csv_cells.h"
#include "crossrank/event.h"
#include "crossrank/jtree.h"

/* The length of the whole number that the cell is, without ".0"; 0: it is none. */
static size_t int_length(const struct buf *cell)
{
	size_t n = cell->data[0] == '-', digits = n;

	while (ascii_is_digit(cell->data[n]))
		n++;
	if (n == digits || (cell->data[digits] == '0' && n > digits + 1))
		return 0;
	return cell->len == n || strcmp(cell->data + n, ".0") == 0 ? n : 0;
}

static void add_raw_or_text(struct json *j, const struct buf *cell)
{
	if (jtree_is_valid(cell->data, cell->len))
		json_raw(j, cell->data, cell->len);
	else
		json_str_n(j, cell->data, cell->len);
}

static void add_int(struct json *j, const struct buf *cell)
{
	size_t n = int_length(cell);

	if (n > 0)
		json_raw(j, cell->data, n);
	else
		add_raw_or_text(j, cell);
}

/* What an empty cell is: null, {} for metadata, "" where a text must be; false: nothing at all. */
static bool add_empty(struct json *j, const struct csv_column *column)
{
	const struct event_field *f = column->field < 0 ? NULL : &event_fields[column->field];

	if (!f || f->kind == FIELD_INT || f->kind == FIELD_SCHEMA)
		return false;
	json_key(j, column->name);
	if (f->kind == FIELD_METADATA)
		json_raw(j, "{}", 2);
	else if (f->kind == FIELD_TEXT)
		json_str(j, "");
	else
		json_none(j);
	return true;
}

static bool is_number(const struct buf *cell)
{
	return (ascii_is_digit(cell->data[0]) || cell->data[0] == '-') &&
	       jtree_is_valid(cell->data, cell->len);
}

static void add_cell(struct json *j, const struct csv_column *column, const struct buf *cell)
{
	const struct event_field *f = column->field < 0 ? NULL : &event_fields[column->field];

	if (cell->len == 0) {
		add_empty(j, column);
		return;
	}
	json_key(j, column->name);
	if (f && (f->kind == FIELD_INT || f->kind == FIELD_INT_OR_NULL || f->kind == FIELD_SCHEMA))
		add_int(j, cell);
	else if ((f && f->kind == FIELD_METADATA) || (!f && is_number(cell)))
		add_raw_or_text(j, cell);
	else
		json_str_n(j, cell->data, cell->len);
}

/* False: it has another number of cells than the heading, or a stray quote. */
static bool convert_row(struct records *r, const char *at, const char *end)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	bool ends_with_comma = at < end && end[-1] == ',', is_fine = true;
	struct json j;
	size_t i = 0;

	buf_reset(&r->row);
	json_init(&j, &r->row);
	json_begin_object(&j);
	for (; is_fine && i < r->n_columns && (at < end || (i > 0 && ends_with_comma)); i++) {
		ends_with_comma &= at < end;
		is_fine = csv_take_cell(&at, end, &cell);
		add_cell(&j, &r->columns[i], &cell);
	}
	json_end_object(&j);
	return is_fine && at == end && i == r->n_columns && buf_error(&cell) == 0;
}

/* A quote too much makes one row of all that follow: it is told, and the next line is next. */
static int tell_broken(struct records *r, enum reason reason, struct record_text *ret)
{
	bool has_more;
	int more;

	*ret = (struct record_text){ .line = r->line, .reason = reason };
	more = records_skip_line(r);
	has_more = r->begin < r->end || !r->at_end;
	ret->is_last = more == 0 || !has_more;
	return more < 0 ? more : 1;
}

/*
 * Whether a row that the end of the file ends is all there: of its last cell any part may be
 * missing, unless its quotes are closed, or it is metadata and JSON, which no part of it is.
 */
static bool is_whole(const struct records *r, const char *at, const char *end)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const struct csv_column *last = &r->columns[r->n_columns - 1];
	const char *from = at;

	for (size_t i = 0; i < r->n_columns; i++) {
		from = at;
		csv_take_cell(&at, end, &cell);
	}
	if (last->field >= 0 && event_fields[last->field].kind == FIELD_METADATA)
		return cell.len > 0 && cell.data[0] == '{' && jtree_is_valid(cell.data, cell.len);
	return csv_is_closed(from, end);
}

/* The row of n bytes; its reason where something is wrong with it. */
static void take_row(struct records *r, size_t n, struct record_text *ret)
{
	const char *row = r->data + r->begin, *end = csv_row_end(row, n);

	/* The writer makes text of any bytes: what is wrong with these is told here. */
	if (!bulk_is_utf8(row, (size_t)(end - row)))
		ret->reason = REASON_BAD_UTF8;
	else if (!convert_row(r, row, end))
		ret->reason = REASON_BAD_CSV;
	else if (ret->is_last && end == row + n && !is_whole(r, row, end))
		ret->reason = REASON_CUT_CSV;
}

int csv_next(struct records *r, struct record_text *ret)
{
	bool has_end;
	size_t n;
	int more;

	while ((more = csv_find_row(r, &n, &has_end)) > 0) {
		const char *row = r->data + r->begin;

		*ret = (struct record_text){ .line = r->line, .is_last = !has_end };
		if (!csv_is_blank(row, n)) {
			take_row(r, n, ret);
			if (ret->reason == REASON_BAD_CSV && memchr(row, '\n', n))
				return tell_broken(r, REASON_BAD_CSV, ret);
			records_skip(r, n + has_end);
			if (buf_reserve(&r->row, BULK_PADDING) < 0 || buf_error(&r->row) < 0)
				return -ENOMEM;
			ret->text = r->row.data;
			ret->n = r->row.len;
			return 1;
		}
		records_skip(r, n + has_end);
	}
	return more == -EFBIG ? tell_broken(r, REASON_TOO_LONG, ret) : more;
}
