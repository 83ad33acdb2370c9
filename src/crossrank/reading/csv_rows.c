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

struct row {
	const char *at, *end; /* without its line end, and the carriage return before that */
	size_t n;	      /* with these */
	bool has_end;	      /* else the end of the file is its end */
};

/*
 * The row at begin; quotes may hold line ends. 1; 0: there is none; -EFBIG: it is longer than a
 * record may be.
 */
static int find_row(struct records *r, struct row *ret)
{
	size_t n = 0, n_lines = 0;
	bool is_quoted = false;
	int more = 1;

	for (;;) {
		const char *s = r->data + r->begin;

		for (; n < r->end - r->begin && (is_quoted || s[n] != '\n'); n++) {
			is_quoted ^= s[n] == '"';
			n_lines += s[n] == '\n';
			if (n_lines >= RECORDS_MAX_LINES)
				return -EFBIG;
		}
		if (n < r->end - r->begin || more <= 0) {
			bool has_end = n < r->end - r->begin;

			*ret = (struct row){ s, s + n - (n > 0 && s[n - 1] == '\r'), n + has_end,
					     has_end };
			return more < 0 ? more : has_end || n > 0;
		}
		more = records_fill(r);
	}
}

/* The next one that has more than spaces. */
static int find_filled_row(struct records *r, struct row *ret)
{
	int more;

	while ((more = find_row(r, ret)) > 0 &&
	       (ret->end == ret->at || text_is_blank(ret->at, (size_t)(ret->end - ret->at))))
		records_skip(r, ret->n);
	return more;
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

/*
 * A column without which no row is a record; NULL: all are there. Older records, which have no
 * version, need a time alone.
 */
static const char *find_missing(const struct records *r, bool has_versions)
{
	if (find_column(r, "timestamp_ns") == r->n_columns &&
	    find_column(r, "timestamp") == r->n_columns)
		return "timestamp_ns";
	for (const struct event_field *f = event_fields; f < event_fields + EVENT_FIELDS; f++)
		if (has_versions && f->is_required && find_column(r, f->name) == r->n_columns)
			return f->name;
	return NULL;
}

/* Whether rows have a version: the first that is not blank tells. Without any row the heading. */
static int find_versions(struct records *r, bool *ret)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	size_t column = find_column(r, "schema_version"), i = 0;
	struct row row;
	int more = find_filled_row(r, &row);

	*ret = column < r->n_columns;
	if (more > 0) {
		for (; i <= column && row.at < row.end; i++)
			csv_take_cell(&row.at, row.end, &cell);
		*ret &= i > column && cell.len > 0;
	}
	return more < 0 && more != -EFBIG ? more : 0; /* which is told where the rows are read */
}

/* One fault for the whole file. */
static int tell_bad_heading(struct records *r, struct record_text *ret)
{
	*ret = r->heading_fault;
	r->is_done = true;
	return 1;
}

/* The names of the columns. -E2BIG: there are too many. */
static int take_heading(struct records *r, struct row *row)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	int e = 0;

	while (row->at < row->end && e == 0) {
		csv_take_cell(&row->at, row->end, &cell);
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
static bool convert_row(struct records *r, const struct row *row, bool *ret_is_whole)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const struct csv_column *last = &r->columns[r->n_columns - 1];
	const char *at = row->at, *end = row->end, *from = at;
	bool ends_with_comma = at < end && end[-1] == ',', is_fine = true;
	struct json j;
	size_t i = 0;

	buf_reset(&r->row);
	json_init_object(&j, &r->row);
	for (; is_fine && i < r->n_columns && (at < end || (i > 0 && ends_with_comma)); i++) {
		ends_with_comma &= at < end;
		from = at;
		is_fine = csv_take_cell(&at, end, &cell);
		add_cell(&j, &r->columns[i], &cell);
	}
	json_end_object(&j);
	/* A carriage return is as good as a line end. */
	*ret_is_whole = row->has_end || end < row->at + row->n ||
			(last->field == EVENT_METADATA ? cell.len > 0 && cell.data[0] == '{' &&
								 jtree_is_valid(cell.data, cell.len)
						       : csv_is_closed(from, end));
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

static int csv_next(struct records *r, struct record_text *ret)
{
	struct row row;
	int more = find_filled_row(r, &row);
	bool is_whole;

	if (more == -EFBIG)
		return tell_broken(r, REASON_TOO_LONG, ret);
	if (more <= 0)
		return more;
	*ret = (struct record_text){ .line = r->line, .is_last = !row.has_end };
	/* The writer makes text of any bytes: what is wrong with these is told here. */
	if (!utf8_is_valid(row.at, (size_t)(row.end - row.at)))
		ret->reason = REASON_BAD_UTF8;
	else if (!convert_row(r, &row, &is_whole))
		ret->reason = REASON_BAD_CSV;
	else if (!is_whole)
		ret->reason = REASON_CUT_CSV;
	if (ret->reason == REASON_BAD_CSV && memchr(row.at, '\n', row.n - row.has_end))
		return tell_broken(r, REASON_BAD_CSV, ret);
	records_skip(r, row.n);
	ret->text = r->row.data;
	ret->n = r->row.len;
	return buf_error(&r->row) < 0 ? -ENOMEM : 1;
}

int csv_begin(struct records *r)
{
	bool has_versions = false;
	struct row row;
	int more = find_row(r, &row);

	r->next = csv_next;
	r->heading_fault = (struct record_text){ .line = 1 };
	if (more == 0)
		return 0;
	if (more > 0)
		more = take_heading(r, &row);
	if (more == -E2BIG || more == -EFBIG) {
		/* A heading that does not end: the line ends are lost, or are no line feeds. */
		r->heading_fault.reason = REASON_TOO_LONG;
		more = 0;
	} else if (more == 0) {
		records_skip(r, row.n);
		more = find_versions(r, &has_versions);
		r->heading_fault.field = find_missing(r, has_versions);
		if (r->heading_fault.field)
			r->heading_fault.reason = REASON_BAD_HEADING;
	}
	if (r->heading_fault.reason != REASON_NONE)
		r->next = tell_bad_heading;
	return more;
}

void csv_release(struct records *r)
{
	for (size_t i = 0; i < r->n_columns; i++)
		free(r->columns[i].name);
	free(r->columns);
}
