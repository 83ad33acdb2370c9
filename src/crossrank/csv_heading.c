/*
 * The heading of CSV: which columns there are, and whether rows below it can be records.
 */
#include "crossrank/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/csv_cells.h"
#include "crossrank/event.h"

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
	size_t n, column = find_column(r, "schema_version");
	bool has_end;
	int more;

	r->has_versions = column < r->n_columns;
	while ((more = csv_find_row(r, &n, &has_end)) > 0 && csv_is_blank(r->data + r->begin, n))
		records_skip(r, n + has_end);
	if (more > 0)
		r->has_versions &= csv_has_cell(r->data + r->begin, n, column);
	return more < 0 && more != -EFBIG ? more : 0; /* which is told where the rows are read */
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
	*ret = (struct record_text){ .line = 1,
				     .reason = REASON_BAD_HEADING,
				     .field = find_missing(r) };
	r->next = tell_no_more;
	return 1;
}

/* All of it is one line: its line ends are lost, or are no line feeds. */
static int tell_too_long(struct records *r, struct record_text *ret)
{
	*ret = (struct record_text){ .line = 1, .reason = REASON_TOO_LONG };
	r->next = tell_no_more;
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

int csv_begin(struct records *r)
{
	bool has_end;
	size_t n;
	int more;

	r->next = csv_next;
	more = csv_find_row(r, &n, &has_end);
	if (more > 0)
		more = take_heading(r, n);
	else if (more == 0)
		return 0;
	if (more == -E2BIG || more == -EFBIG) {
		r->next = tell_too_long;
		return 0;
	}
	if (more < 0)
		return more;
	records_skip(r, n + has_end);
	more = find_versions(r);
	if (more == 0 && find_missing(r))
		r->next = tell_heading;
	return more;
}

void csv_release(struct records *r)
{
	for (size_t i = 0; i < r->n_columns; i++)
		free(r->columns[i].name);
	free(r->columns);
}
