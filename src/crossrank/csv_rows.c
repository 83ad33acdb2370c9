/*
 * Rows of CSV as JSON records. A cell is a number where its column is one of
 * numbers; an empty cell is null, or left out where null may not stand. Spreadsheets and data
 * frames write whole numbers as "17.0" in a column with gaps: that is 17.
 */
#include "crossrank/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/json.h"
#include "base/macros.h"
#include "crossrank/bulk.h"
#include "crossrank/event.h"
#include "crossrank/jtree.h"

#define MAX_COLUMNS 4096
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

struct csv_column {
	char *name;
	int field; /* -1: none of version 2 */
};

/* ---- cells ---- */

/* The length of the row at begin, without its line end; quotes may hold line ends. */
static int find_row(struct records *r, size_t *ret_n, bool *ret_has_end)
{
	size_t n = 0, n_lines = 0;
	bool is_quoted = false;

	for (;;) {
		const char *s = r->data + r->begin;
		int more;

		for (; n < r->end - r->begin && (is_quoted || s[n] != '\n'); n++) {
			is_quoted ^= s[n] == '"';
			n_lines += s[n] == '\n';
			if (n_lines >= RECORDS_MAX_LINES)
				return -EFBIG;
		}
		*ret_n = n;
		*ret_has_end = n < r->end - r->begin;
		if (*ret_has_end)
			return 1;
		more = records_fill(r);
		if (more <= 0)
			return more < 0 ? more : n > 0;
	}
}

/* Takes the cell at *at into cell and moves behind its comma. False: something stands behind a
 * quote. */
static bool take_cell(const char **at, const char *end, struct buf *cell)
{
	const char *s = *at;

	buf_reset(cell);
	if (s < end && *s == '"') {
		for (s++; s < end && (*s != '"' || (s + 1 < end && s[1] == '"')); s++) {
			s += *s == '"';
			buf_add_char(cell, *s);
		}
		s += s < end;
	} else {
		while (s < end && *s != ',')
			buf_add_char(cell, *s++);
	}
	*at = s < end ? s + 1 : s;
	return s == end || *s == ',';
}

/* Without the carriage return that some write before a line feed. */
static const char *row_end(const char *row, size_t n)
{
	return row + n - (n > 0 && row[n - 1] == '\r');
}

/* ---- the heading ---- */

static int add_column(struct records *r, const struct buf *cell)
{
	struct csv_column *columns;

	if (r->n_columns >= MAX_COLUMNS)
		return -E2BIG;
	columns = reallocarray(r->columns, r->n_columns + 1, sizeof(*columns));
	if (!columns)
		return -ENOMEM;
	r->columns = columns;
	columns[r->n_columns].name = strndup(cell->data, cell->len);
	columns[r->n_columns].field = event_field_find(cell->data, cell->len);
	return columns[r->n_columns++].name ? 0 : -ENOMEM;
}

static bool has_column(const struct records *r, const char *name)
{
	for (size_t i = 0; i < r->n_columns; i++)
		if (strcmp(r->columns[i].name, name) == 0)
			return true;
	return false;
}

static int tell_no_more(struct records *r, struct record_text *ret)
{
	(void)r;
	(void)ret;
	return 0;
}

/* Nothing below such a heading can be a record: that is told once, and not of every row. */
static int tell_heading(struct records *r, struct record_text *ret)
{
	*ret = (struct record_text){ .line = 1, .reason = REASON_BAD_HEADING };
	r->next = tell_no_more;
	return 1;
}

int csv_begin(struct records *r)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const char *at, *end;
	bool has_end;
	size_t n;
	int more;

	r->next = csv_next;
	if (r->end >= 3 && memcmp(r->data, BYTE_ORDER_MARK, 3) == 0)
		r->begin = 3;
	more = find_row(r, &n, &has_end);
	if (more <= 0)
		return more;
	at = r->data + r->begin;
	for (end = row_end(at, n); at < end && more >= 0;) {
		take_cell(&at, end, &cell);
		more = buf_error(&cell) < 0 ? -ENOMEM : add_column(r, &cell);
	}
	records_skip(r, n + has_end);
	if (!has_column(r, "timestamp_ns") && !has_column(r, "timestamp"))
		r->next = tell_heading;
	return more < 0 ? more : 0;
}

void csv_release(struct records *r)
{
	for (size_t i = 0; i < r->n_columns; i++)
		free(r->columns[i].name);
	free(r->columns);
}

/* ---- rows ---- */

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
		is_fine = take_cell(&at, end, &cell);
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

/* The row of n bytes; its reason where something is wrong with it. */
static void take_row(struct records *r, size_t n, struct record_text *ret)
{
	const char *row = r->data + r->begin, *end = row_end(row, n);

	/* The writer makes text of any bytes: what is wrong with these is told here. */
	if (!bulk_is_utf8(row, (size_t)(end - row)))
		ret->reason = REASON_BAD_UTF8;
	else if (!convert_row(r, row, end))
		ret->reason = REASON_BAD_CSV;
	else if (ret->is_last)
		ret->reason = REASON_CUT_CSV; /* of its last cell any part may be missing */
}

int csv_next(struct records *r, struct record_text *ret)
{
	bool has_end;
	size_t n;
	int more;

	while ((more = find_row(r, &n, &has_end)) > 0) {
		const char *row = r->data + r->begin;

		*ret = (struct record_text){ .line = r->line, .is_last = !has_end };
		if (row_end(row, n) > row && !text_is_blank(row, (size_t)(row_end(row, n) - row))) {
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
