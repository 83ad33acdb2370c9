#include "crossrank/csv_cells.h"

#include <errno.h>

#include "base/macros.h"
#include "crossrank/event.h"

int csv_find_row(struct records *r, size_t *ret_n, bool *ret_has_end)
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

bool csv_take_cell(const char **at, const char *end, struct buf *cell)
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

const char *csv_row_end(const char *row, size_t n)
{
	return row + n - (n > 0 && row[n - 1] == '\r');
}

bool csv_is_blank(const char *row, size_t n)
{
	const char *end = csv_row_end(row, n);

	return end == row || text_is_blank(row, (size_t)(end - row));
}

bool csv_has_cell(const char *row, size_t n, size_t column)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const char *at = row, *end = csv_row_end(row, n);

	for (size_t i = 0; i < column && at < end; i++)
		csv_take_cell(&at, end, &cell);
	if (at == end)
		return false;
	csv_take_cell(&at, end, &cell);
	return cell.len > 0;
}

bool csv_is_closed(const char *at, const char *end)
{
	size_t n_quotes = 0;

	if (at == end || *at != '"')
		return false;
	for (; at < end; at++)
		n_quotes += *at == '"';
	return n_quotes % 2 == 0;
}
