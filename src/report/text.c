#include "report/doc.h"

#include <string.h>

#include "base/utf8.h"
#include "report/format.h"

#define PAGE_COLUMNS 100
#define INDENT 2
#define GAP 2	       /* between two columns of a table */
#define ELASTIC_MIN 24 /* a cut or wrapped column gives way to this; then the widest does */
#define TABLE_COLUMNS 12

static void add_spaces(struct buf *out, size_t n)
{
	buf_printf(out, "%*s", (int)n, "");
}

/* Length in bytes of the first max characters of s[0..n). */
static size_t bytes_of_chars(const char *s, size_t n, size_t max)
{
	size_t used = 0;

	while (used < n && max-- > 0) {
		size_t len = utf8_char_len(s + used, n - used);

		used += len ? len : 1;
	}
	return used;
}

/* How many bytes of text go on a line of width characters; *ret_skip: and the space after them. */
static size_t line_length(const char *text, size_t width, size_t *ret_skip)
{
	size_t n = strlen(text);
	size_t fit = bytes_of_chars(text, n, width);
	size_t cut = fit;

	*ret_skip = 0;
	if (fit == n)
		return n;
	while (cut > 0 && text[cut] != ' ')
		cut--;
	if (cut == 0)
		return fit; /* one long word: broken where the line ends */
	*ret_skip = 1;
	return cut;
}

/* Fills lines up to width; each but the first begins with indent spaces. Ends the last line. */
static void add_wrapped(struct buf *out, const char *text, size_t indent, size_t width)
{
	size_t skip, n = line_length(text, width, &skip);

	buf_add(out, text, n);
	buf_add_char(out, '\n');
	for (text += n + skip; *text; text += n + skip) {
		n = line_length(text, width, &skip);
		add_spaces(out, indent);
		buf_add(out, text, n);
		buf_add_char(out, '\n');
	}
}

static void add_block(struct doc *d, const char *lead, size_t indent, const char *text)
{
	CLEANUP(buf_release) struct buf safe = BUF_INIT;

	format_safe(&safe, text);
	buf_add_str(d->out, lead);
	add_wrapped(d->out, safe.data, indent, PAGE_COLUMNS - indent);
}

static void text_title(struct doc *d, const char *text)
{
	add_block(d, "", 0, text);
}

static void text_section(struct doc *d, const char *heading)
{
	buf_add_char(d->out, '\n');
	add_block(d, "", 0, heading);
}

static void text_verdict(struct doc *d, const char *word, const char *sentence)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	buf_printf(&line, "%s: %s", word, sentence);
	buf_add_char(d->out, '\n');
	add_block(d, "", 0, line.data);
}

static void text_paragraph(struct doc *d, const char *text)
{
	add_block(d, "  ", INDENT, text);
}

static void text_item(struct doc *d, const char *text)
{
	add_block(d, "  - ", INDENT + 2, text);
}

static void text_figure(struct doc *d, const char *lines)
{
	while (*lines) {
		size_t n = strcspn(lines, "\n");

		if (n > 0)
			buf_add_str(d->out, "  ");
		buf_add(d->out, lines, n);
		buf_add_char(d->out, '\n');
		lines += n + (lines[n] == '\n');
	}
}

/* The table as it is printed: titles (unless hidden) and cells, all safe. */
static void make_safe(const struct table *t, struct table *ret)
{
	const char *cell = table_first(t);

	ret->columns = t->columns;
	ret->n_columns = t->n_columns;
	for (size_t i = 0; !t->hides_titles && i < t->n_columns; i++)
		buf_add_str(table_cell(ret), t->columns[i].title);
	for (size_t i = 0; i < table_rows(t) * t->n_columns; i++, cell = table_next(cell))
		format_safe(table_cell(ret), cell);
}

static bool is_elastic(enum column_kind kind)
{
	return kind == COLUMN_CUT || kind == COLUMN_WRAP;
}

/* The column that gives way when a row is too wide: an elastic one, else the widest. */
static size_t column_to_shrink(const struct table *t, const size_t widths[])
{
	size_t widest = 0;

	for (size_t c = 0; c < t->n_columns; c++) {
		if (is_elastic(t->columns[c].kind) && widths[c] > ELASTIC_MIN)
			return c;
		if (widths[c] > widths[widest])
			widest = c;
	}
	return widest;
}

/* The widest cell of each column, as far as the page has room for all of them. */
static void find_widths(const struct table *t, size_t widths[])
{
	const char *cell = table_first(t);
	size_t used = INDENT + (t->n_columns - 1) * GAP;

	memset(widths, 0, t->n_columns * sizeof(widths[0]));
	for (size_t i = 0; i < table_rows(t) * t->n_columns; i++, cell = table_next(cell)) {
		size_t n = utf8_count(cell, strlen(cell)), c = i % t->n_columns;

		n = n > PAGE_COLUMNS ? PAGE_COLUMNS : n;
		if (n > widths[c])
			widths[c] = n;
	}
	for (size_t c = 0; c < t->n_columns; c++)
		used += widths[c];
	for (; used > PAGE_COLUMNS; used--)
		widths[column_to_shrink(t, widths)]--;
}

/* The cell in width columns, with "…" where it was cut; pads unless it is the last of its row. */
static void add_cell(struct buf *out, const char *cell, enum column_kind kind, size_t width,
		     bool is_last)
{
	size_t n = strlen(cell), count = utf8_count(cell, n);
	bool is_cut = count > width;
	size_t pad;

	if (is_cut) {
		n = bytes_of_chars(cell, n, width - 1);
		count = width;
	}
	pad = width - count;
	if (kind == COLUMN_RIGHT)
		add_spaces(out, pad);
	buf_add(out, cell, n);
	if (is_cut)
		buf_add_str(out, "…");
	if (kind != COLUMN_RIGHT && !is_last)
		add_spaces(out, pad);
}

static const char *add_row(struct buf *out, const struct table *t, const size_t widths[],
			   const char *cell)
{
	size_t at = INDENT;

	add_spaces(out, INDENT);
	for (size_t c = 0; c < t->n_columns; c++, cell = table_next(cell)) {
		bool is_last = c + 1 == t->n_columns;

		if (c > 0)
			add_spaces(out, GAP);
		if (is_last && t->columns[c].kind == COLUMN_WRAP)
			add_wrapped(out, cell, at, widths[c]);
		else
			add_cell(out, cell, t->columns[c].kind, widths[c], is_last);
		at += widths[c] + GAP;
	}
	if (t->columns[t->n_columns - 1].kind != COLUMN_WRAP)
		buf_add_char(out, '\n');
	return cell;
}

static void text_table(struct doc *d, const struct table *t)
{
	CLEANUP(table_release) struct table safe = { .text = BUF_INIT };
	size_t widths[TABLE_COLUMNS] = { 0 };
	const char *cell;

	make_safe(t, &safe);
	if (buf_error(&t->text) < 0 || buf_error(&safe.text) < 0 || t->n_columns > TABLE_COLUMNS) {
		d->out->failed = true;
		return;
	}
	find_widths(&safe, widths);
	cell = table_first(&safe);
	for (size_t row = 0; row < table_rows(&safe); row++)
		cell = add_row(d->out, &safe, widths, cell);
}

const struct doc_writer text_writer = {
	.title = text_title,
	.section = text_section,
	.verdict = text_verdict,
	.paragraph = text_paragraph,
	.item = text_item,
	.table = text_table,
	.figure = text_figure,
};
