#include "cli/sql_print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define SETTLE_ROWS 200	       /* so many are looked at for their widths… */
#define SETTLE_BYTES (1 << 20) /* …or so much text */
#define MAX_WIDTH ((size_t)60) /* longer ones stick out */

static void add_shown(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n;)
		i += utf8_add_shown(out, s + i, n - i);
}

/* A double has 15 digits that people mean. */
static void add_text_value(struct buf *out, const struct sql_value *v)
{
	switch (v->type) {
	case SQL_NULL:
		buf_add_char(out, '-');
		break;
	case SQL_INTEGER:
		buf_printf(out, "%lld", (long long)v->integer);
		break;
	case SQL_REAL:
		buf_printf(out, "%.15g", v->real);
		break;
	case SQL_TEXT:
		add_shown(out, v->bytes, v->len);
		break;
	case SQL_BLOB:
		sql_add_hex(out, v->bytes, v->len);
		break;
	}
}

static void add_blanks(struct buf *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_add_char(out, ' ');
}

/* Numbers to the right; nothing behind the last column. */
static void add_aligned(struct sql_printer *p, size_t i, const char *cell)
{
	const struct sql_text_column *c = &p->columns[i];
	bool is_right = c->has_numbers && !c->has_words;
	bool is_last = i + 1 == p->n_columns;
	size_t len = strlen(cell), n = utf8_count(cell, len);
	size_t blanks = n < c->width ? c->width - n : 0;

	add_blanks(&p->out, is_right ? blanks : 0);
	buf_add(&p->out, cell, len);
	add_blanks(&p->out, is_right || is_last ? 0 : blanks);
	buf_add_str(&p->out, is_last ? "\n" : "  ");
}

static void note_cell(struct sql_text_column *c, enum sql_type type, const char *cell)
{
	size_t n = utf8_count(cell, strlen(cell));

	if (n > MAX_WIDTH)
		n = MAX_WIDTH;
	if (n > c->width)
		c->width = n;
	c->has_numbers |= type == SQL_INTEGER || type == SQL_REAL;
	c->has_words |= type == SQL_TEXT || type == SQL_BLOB;
}

/* A cell, kept until the widths are settled. */
static void keep_cell(struct sql_printer *p, size_t i, const struct sql_value *v)
{
	size_t at = p->cells.len;

	add_text_value(&p->cells, v);
	note_cell(&p->columns[i], v->type, p->cells.data + at);
	buf_add_char(&p->cells, '\0');
}

static void print_kept(struct sql_printer *p)
{
	const char *cell = p->cells.data;

	p->is_settled = true;
	for (size_t row = 0; buf_error(&p->cells) == 0 && row < p->n_rows; row++)
		for (size_t i = 0; i < p->n_columns; i++) {
			add_aligned(p, i, cell);
			cell += strlen(cell) + 1;
		}
	p->out.failed |= buf_error(&p->cells) < 0;
	buf_reset(&p->cells);
}

static void keep_header(struct sql_printer *p, const struct store_sql *sql)
{
	for (size_t i = 0; i < p->n_columns; i++) {
		const char *name = store_sql_name(sql, i);
		struct sql_value v = { SQL_TEXT, .bytes = name, .len = strlen(name) };

		keep_cell(p, i, &v);
		p->columns[i].has_words = false;
	}
	p->n_rows++;
}

static void keep_row(struct sql_printer *p, const struct store_sql *sql)
{
	for (size_t i = 0; i < p->n_columns; i++) {
		struct sql_value v = store_sql_value(sql, i);

		keep_cell(p, i, &v);
	}
	if (++p->n_rows >= SETTLE_ROWS || p->cells.len > SETTLE_BYTES)
		print_kept(p);
}

void sql_text_add_row(struct sql_printer *p, const struct store_sql *sql)
{
	if (!p->is_settled) {
		keep_row(p, sql);
		return;
	}
	for (size_t i = 0; i < p->n_columns; i++) {
		struct sql_value v = store_sql_value(sql, i);

		buf_reset(&p->cells);
		add_text_value(&p->cells, &v);
		add_aligned(p, i, p->cells.data);
	}
}

int sql_text_begin(struct sql_printer *p, const struct store_sql *sql, struct err *err)
{
	p->columns = calloc(p->n_columns + 1, sizeof(*p->columns));
	if (!p->columns)
		return err_set(err, -ENOMEM, "no memory left to print a row");
	if (p->has_header && p->n_columns > 0)
		keep_header(p, sql);
	return 0;
}

void sql_text_end(struct sql_printer *p)
{
	if (!p->is_settled)
		print_kept(p);
}
