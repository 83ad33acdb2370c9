/*
 * Rows of CSV as JSON records. A cell is a number where its column is one of
 * numbers; an empty cell is null, or left out where null may not stand. Spreadsheets and data
 * frames write whole numbers as "17.0" in a column with gaps: that is 17.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "crossrank/reading/event.h"
#include "crossrank/reading/jtree.h"
#include "crossrank/reading/records.h"

/*
 * The length of the row at begin, without its line end; quotes may hold line ends. 1; 0: there is
 * none; -EFBIG: it is longer than a record may be.
 */
static int csv_find_row(struct records *r, size_t *ret_n, bool *ret_has_end)
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
static bool csv_take_cell(const char **at, const char *end, struct buf *cell)
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

/* Where a row of n bytes ends: without the carriage return that some write before a line feed. */
static const char *csv_row_end(const char *row, size_t n)
{
	return row + n - (n > 0 && row[n - 1] == '\r');
}

/* Nothing but spaces. */
static bool csv_is_blank(const char *row, size_t n)
{
	const char *end = csv_row_end(row, n);

	return end == row || text_is_blank(row, (size_t)(end - row));
}

/* Whether the last cell of a row, from at to end, is in quotes of which the last one closes it. */
static bool csv_is_closed(const char *at, const char *end)
{
	size_t n_quotes = 0;

	if (at == end || *at != '"')
		return false;
	for (; at < end; at++)
		n_quotes += *at == '"';
	return n_quotes % 2 == 0;
}

/* ---- the heading: which columns there are, and whether rows below it can be records ---- */

#define MAX_COLUMNS 4096

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

/* As many as there are: it has none of that name. */
static size_t find_column(const struct records *r, const char *name)
{
	size_t i = 0;

	while (i < r->n_columns && strcmp(r->columns[i].name, name) != 0)
		i++;
	return i;
}

static bool has_column(const struct records *r, const char *name)
{
	return find_column(r, name) < r->n_columns;
}

/*
 * A column without which no row is a record; NULL: all are there. Older records, which have no
 * version, need a time alone.
 */
static const char *find_missing(const struct records *r)
{
	if (!has_column(r, "timestamp_ns") && !has_column(r, "timestamp"))
		return "timestamp_ns";
	for (size_t i = 0; r->has_versions && i < EVENT_FIELDS; i++)
		if (event_fields[i].is_required && !has_column(r, event_fields[i].name))
			return event_fields[i].name;
	return NULL;
}

/* Whether rows have a version: the first that is not blank tells. Without any row the heading. */
static int find_versions(struct records *r)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	size_t n, column = find_column(r, "schema_version"), i = 0;
	bool has_end;
	int more;

	r->has_versions = column < r->n_columns;
	while ((more = csv_find_row(r, &n, &has_end)) > 0 && csv_is_blank(r->data + r->begin, n))
		records_skip(r, n + has_end);
	if (more > 0) {
		const char *at = r->data + r->begin, *end = csv_row_end(at, n);

		for (; i <= column && at < end; i++)
			csv_take_cell(&at, end, &cell);
		r->has_versions &= i > column && cell.len > 0;
	}
	return more < 0 && more != -EFBIG ? more : 0; /* which is told where the rows are read */
}

/*
 * One fault for the whole file. Nothing below a heading without a needed column can be a record. A
 * heading that does not end: the line ends are lost, or are no line feeds.
 */
static int tell_bad_heading(struct records *r, struct record_text *ret)
{
	*ret = (struct record_text){ .line = 1, .reason = r->heading_fault };
	if (r->heading_fault == REASON_BAD_HEADING)
		ret->field = find_missing(r);
	r->is_done = true;
	return 1;
}

/* The names of the row at begin, which has n bytes. -E2BIG: there are too many. */
static int take_heading(struct records *r, size_t n)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const char *at = r->data + r->begin, *end = csv_row_end(at, n);
	int e = 0;

	while (at < end && e == 0) {
		csv_take_cell(&at, end, &cell);
		e = buf_error(&cell) < 0 ? -ENOMEM : add_column(r, &cell);
	}
	return e;
}

/* ---- rows ---- */

/* A whole number without its ".0", JSON as it is, else a text. */
static void add_value(struct json *j, const struct buf *cell, bool is_int)
{
	size_t sign = cell->data[0] == '-', n = sign;

	while (ascii_is_digit(cell->data[n]))
		n++;
	if (is_int && n > sign && (cell->data[sign] != '0' || n == sign + 1) &&
	    (cell->len == n || strcmp(cell->data + n, ".0") == 0))
		json_raw(j, cell->data, n);
	else if (jtree_is_valid(cell->data, cell->len))
		json_raw(j, cell->data, cell->len);
	else
		json_str_n(j, cell->data, cell->len);
}

/* An empty cell is null, {} for metadata, "" where a text must be, or left out. */
static void add_cell(struct json *j, const struct csv_column *column, const struct buf *cell)
{
	const struct event_field *f = column->field < 0 ? NULL : &event_fields[column->field];
	bool is_int = f && (f->kind == FIELD_INT || f->kind == FIELD_SCHEMA);

	if (cell->len == 0 && (!f || is_int))
		return;
	is_int |= f && f->kind == FIELD_INT_OR_NULL;
	json_key(j, column->name);
	if (cell->len == 0 && f->kind == FIELD_METADATA)
		json_raw(j, "{}", 2);
	else if (cell->len == 0 && f->kind == FIELD_TEXT)
		json_str(j, "");
	else if (cell->len == 0)
		json_none(j);
	else if (f ? is_int || f->kind == FIELD_METADATA
		   : ascii_is_digit(cell->data[0]) || cell->data[0] == '-')
		add_value(j, cell, is_int);
	else
		json_str_n(j, cell->data, cell->len);
}

/*
 * False: it has another number of cells than the heading, or a stray quote. Of the last cell of a
 * row that the end of the file ends any part may be missing, unless its quotes are closed, or it is
 * metadata and JSON, which no part of it is: *ret_is_whole.
 */
static bool convert_row(struct records *r, const char *at, const char *end, bool is_last,
			bool *ret_is_whole)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	bool ends_with_comma = at < end && end[-1] == ',', is_fine = true;
	const struct csv_column *last = &r->columns[r->n_columns - 1];
	const char *from = at;
	struct json j;
	size_t i = 0;

	buf_reset(&r->row);
	json_init(&j, &r->row);
	json_begin_object(&j);
	for (; is_fine && i < r->n_columns && (at < end || (i > 0 && ends_with_comma)); i++) {
		ends_with_comma &= at < end;
		from = at;
		is_fine = csv_take_cell(&at, end, &cell);
		add_cell(&j, &r->columns[i], &cell);
	}
	json_end_object(&j);
	if (is_last && last->field == EVENT_METADATA)
		*ret_is_whole =
			cell.len > 0 && cell.data[0] == '{' && jtree_is_valid(cell.data, cell.len);
	else
		*ret_is_whole = !is_last || csv_is_closed(from, end);
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
	const char *row = r->data + r->begin, *end = csv_row_end(row, n);
	bool is_whole;

	/* The writer makes text of any bytes: what is wrong with these is told here. */
	if (!utf8_is_valid(row, (size_t)(end - row)))
		ret->reason = REASON_BAD_UTF8;
	else if (!convert_row(r, row, end, ret->is_last, &is_whole))
		ret->reason = REASON_BAD_CSV;
	else if (end == row + n && !is_whole)
		ret->reason = REASON_CUT_CSV;
}

static int csv_next(struct records *r, struct record_text *ret)
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
			if (buf_error(&r->row) < 0)
				return -ENOMEM;
			ret->text = r->row.data;
			ret->n = r->row.len;
			return 1;
		}
		records_skip(r, n + has_end);
	}
	return more == -EFBIG ? tell_broken(r, REASON_TOO_LONG, ret) : more;
}

int csv_begin(struct records *r)
{
	bool has_end;
	size_t n;
	int more;

	r->next = csv_next;
	more = csv_find_row(r, &n, &has_end);
	if (more == 0)
		return 0;
	if (more > 0)
		more = take_heading(r, n);
	if (more == 0) {
		records_skip(r, n + has_end);
		more = find_versions(r);
		if (more == 0 && find_missing(r))
			r->heading_fault = REASON_BAD_HEADING;
	} else if (more == -E2BIG || more == -EFBIG) {
		r->heading_fault = REASON_TOO_LONG;
		more = 0;
	}
	if (r->heading_fault != REASON_NONE)
		r->next = tell_bad_heading;
	return more;
}

void csv_release(struct records *r)
{
	for (size_t i = 0; i < r->n_columns; i++)
		free(r->columns[i].name);
	free(r->columns);
}
