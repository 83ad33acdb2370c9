#include "report/doc/doc.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/format.h"

/* ---- tables ---- */

void table_release(struct table *t)
{
	buf_release(&t->text);
	free(t->widths);
	t->widths = NULL;
}

struct buf *table_cell(struct table *t)
{
	if (t->n_cells > 0)
		buf_add_char(&t->text, '\0');
	t->n_cells++;
	return &t->text;
}

static size_t table_rows(const struct table *t)
{
	/* After a lost append the cells no longer stand where they belong. */
	return buf_error(&t->text) < 0 ? 0 : t->n_cells / t->n_columns;
}

static const char *table_first(const struct table *t)
{
	return t->text.data;
}

static const char *table_next(const char *cell)
{
	return cell + strlen(cell) + 1;
}

struct buf *table_number_cell(struct table *t, bool is_known, enum evidence evidence)
{
	struct buf *cell = table_cell(t);

	if (is_known && evidence != EVIDENCE_EXACT) {
		buf_add_str(cell, format_mark(evidence));
		t->has_marks = true;
	}
	return cell;
}

void table_drop_first_column(struct table *t)
{
	t->columns++;
	t->n_columns--;
}

void doc_add_table(struct doc *d, const struct table *t)
{
	d->writer->table(d, t);
	if (t->has_marks && !d->has_legend) {
		d->writer->text(d, DOC_PARAGRAPH, FORMAT_MARKS);
		d->has_legend = true;
	}
}

/* ---- text ---- */

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

static void text_text(struct doc *d, enum doc_part part, const char *text)
{
	static const struct {
		const char *lead;
		size_t indent;
	} looks[] = {
		[DOC_TITLE] = { "", 0 },
		[DOC_SECTION] = { "\n", 0 },
		[DOC_PARAGRAPH] = { "  ", INDENT },
		[DOC_ITEM] = { "  - ", INDENT + 2 },
	};

	add_block(d, looks[part].lead, looks[part].indent, text);
}

static void text_verdict(struct doc *d, enum doc_mood mood, const char *word, const char *sentence)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;

	(void)mood;
	buf_printf(&line, "%s: %s", word, sentence);
	add_block(d, "\n", 0, line.data);
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

/* The column that gives way when a row is too wide: an elastic one, else the widest. */
static size_t column_to_shrink(const struct table *t, const size_t widths[])
{
	size_t widest = 0;

	for (size_t c = 0; c < t->n_columns; c++) {
		enum column_kind kind = t->columns[c].kind;

		if ((kind == COLUMN_CUT || kind == COLUMN_WRAP) && widths[c] > ELASTIC_MIN)
			return c;
		if (widths[c] > widths[widest])
			widest = c;
	}
	return widest;
}

/* The widest cell of each column, each no wider than max. */
static void find_widths(const struct table *t, size_t max, size_t widths[])
{
	const char *cell = table_first(t);

	for (size_t i = 0; i < table_rows(t) * t->n_columns; i++, cell = table_next(cell)) {
		size_t n = utf8_count(cell, strlen(cell)), c = i % t->n_columns;

		n = n < max ? n : max;
		widths[c] = n > widths[c] ? n : widths[c];
	}
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

/* With its titles as a first row, where they are wanted. False: memory is short. */
static bool make_safe(const struct table *t, bool has_titles, bool is_list, struct table *ret)
{
	const char *cell = table_first(t);

	for (size_t i = 0; has_titles && i < t->n_columns; i++)
		buf_add_str(table_cell(ret), t->columns[i].title);
	for (size_t i = 0; i < table_rows(t) * t->n_columns; i++, cell = table_next(cell))
		if (is_list)
			utf8_add_text(table_cell(ret), cell, strlen(cell));
		else
			format_safe(table_cell(ret), cell);
	return buf_error(&t->text) == 0 && buf_error(&ret->text) == 0;
}

#define LIST_CELL_MAX 60 /* longer ones stick out */

void table_print(struct table *t, struct buf *out)
{
	CLEANUP(table_release)
	struct table safe = { .columns = t->columns, .n_columns = t->n_columns, .text = BUF_INIT };
	bool is_first = !t->widths;
	const char *cell;

	t->widths = is_first ? calloc(t->n_columns + 1, sizeof(*t->widths)) : t->widths;
	if (!t->widths || !make_safe(t, is_first && !t->hides_titles, true, &safe)) {
		out->failed = true;
		return;
	}
	if (is_first)
		find_widths(&safe, LIST_CELL_MAX, t->widths);
	cell = table_first(&safe);
	for (size_t i = 0; i < safe.n_cells; i++, cell = table_next(cell)) {
		size_t c = i % t->n_columns, n = utf8_count(cell, strlen(cell));
		bool is_last = c + 1 == t->n_columns;

		add_spaces(out, c > 0 ? GAP : 0);
		add_cell(out, cell, t->columns[c].kind, n > t->widths[c] ? n : t->widths[c],
			 is_last);
		while (is_last && out->len > 0 && out->data[out->len - 1] == ' ')
			buf_truncate(out, out->len - 1);
		buf_add_str(out, is_last ? "\n" : "");
	}
	buf_reset(&t->text);
	t->n_cells = 0;
}

static void text_table(struct doc *d, const struct table *t)
{
	CLEANUP(table_release)
	struct table safe = { .columns = t->columns, .n_columns = t->n_columns, .text = BUF_INIT };
	size_t widths[TABLE_COLUMNS] = { 0 }, used = INDENT + (t->n_columns - 1) * GAP;
	const char *cell;

	if (t->n_columns > TABLE_COLUMNS || !make_safe(t, !t->hides_titles, false, &safe)) {
		d->out->failed = true;
		return;
	}
	find_widths(&safe, PAGE_COLUMNS, widths);
	for (size_t c = 0; c < t->n_columns; c++)
		used += widths[c];
	for (; used > PAGE_COLUMNS; used--) /* as far as the page has room */
		widths[column_to_shrink(t, widths)]--;
	cell = table_first(&safe);
	for (size_t row = 0; row < table_rows(&safe); row++)
		cell = add_row(d->out, &safe, widths, cell);
}

const struct doc_writer text_writer = {
	.text = text_text,
	.verdict = text_verdict,
	.table = text_table,
	.figure = text_figure,
};

/* ---- Markdown ---- */

/* Safe, and with everything that Markdown (or HTML inside it) would obey escaped. */
static void add_markdown(struct buf *out, const char *text)
{
	CLEANUP(buf_release) struct buf safe = BUF_INIT;

	format_safe(&safe, text);
	for (const char *p = safe.data; *p; p++) {
		if (strchr("\\`*_[]<>|~&$", *p))
			buf_add_char(out, '\\');
		buf_add_char(out, *p);
	}
	if (buf_error(&safe) < 0)
		out->failed = true;
}

static void add_line(struct buf *out, const char *lead, const char *text)
{
	buf_add_str(out, lead);
	add_markdown(out, text);
	buf_add_char(out, '\n');
}

/* The first of a list needs an empty line before it. */
static void md_text(struct doc *d, enum doc_part part, const char *text)
{
	static const char *const leads[] = { "# ", "\n## ", "\n", "- " };
	const char *last = memrchr(d->out->data, '\n', d->out->len ? d->out->len - 1 : 0);

	if (part == DOC_ITEM && (!last || strncmp(last + 1, "- ", 2) != 0))
		buf_add_char(d->out, '\n');
	add_line(d->out, leads[part], text);
}

static void md_verdict(struct doc *d, enum doc_mood mood, const char *word, const char *sentence)
{
	(void)mood;
	buf_add_str(d->out, "\n**");
	add_markdown(d->out, word);
	add_line(d->out, "**: ", sentence);
}

static void md_table(struct doc *d, const struct table *t)
{
	const char *cell = table_first(t);

	if (buf_error(&t->text) < 0)
		d->out->failed = true;
	buf_add_str(d->out, "\n|");
	for (size_t c = 0; c < t->n_columns; c++)
		buf_printf(d->out, " %s |", t->columns[c].title);
	buf_add_str(d->out, "\n|");
	for (size_t c = 0; c < t->n_columns; c++)
		buf_add_str(d->out, t->columns[c].kind == COLUMN_RIGHT ? "---:|" : "---|");
	buf_add_char(d->out, '\n');
	for (size_t row = 0; row < table_rows(t); row++) {
		buf_add_char(d->out, '|');
		for (size_t c = 0; c < t->n_columns; c++, cell = table_next(cell)) {
			buf_add_char(d->out, ' ');
			add_markdown(d->out, cell);
			buf_add_str(d->out, " |");
		}
		buf_add_char(d->out, '\n');
	}
}

static void md_figure(struct doc *d, const char *lines)
{
	buf_printf(d->out, "\n```text\n%s```\n", lines);
}

const struct doc_writer markdown_writer = {
	.text = md_text,
	.verdict = md_verdict,
	.table = md_table,
	.figure = md_figure,
};

/* ---- HTML ---- */

/* Everything is in the page itself: it is sent around, and opened where there is no network. */
static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" "
	"content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	"<style>\n"
	":root { color-scheme: light dark; }\n"
	"body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; "
	"padding: 0 1rem; }\n"
	"h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }\n"
	".verdict { padding: .6rem .9rem; border-left: .3rem solid #888; background: #8881; }\n"
	".good { border-color: #2a2; background: #2a22; } "
	".warning { border-color: #d90; background: #d902; } "
	".bad { border-color: #d22; background: #d222; }\n"
	".wide { overflow-x: auto; } td { overflow-wrap: anywhere; min-width: 3rem; }\n"
	"table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
	"th, td { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; "
	"border-bottom: 1px solid #8883; }\n"
	".n { text-align: right; white-space: nowrap; }\n"
	"pre { font: 12px/1.15 ui-monospace, monospace; }\n"
	/* A table of many columns has no room in a narrow window: each row becomes a list. */
	"@media (max-width: 60rem) { .rows tr:first-child { display: none; } "
	".rows tr, .rows td { display: block; } .rows tr { margin-bottom: .8rem; } "
	".rows td, .rows .n { text-align: left; padding-left: 8rem; text-indent: -8rem; } "
	".rows td::before { content: attr(data-of); display: inline-block; width: 8rem; "
	"text-indent: 0; font-weight: bold; } }\n"
	"</style>\n";

static void escape(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++)
		switch (*p) {
		case '&':
			buf_add_str(out, "&amp;");
			break;
		case '<':
			buf_add_str(out, "&lt;");
			break;
		case '>':
			buf_add_str(out, "&gt;");
			break;
		case '"':
			buf_add_str(out, "&quot;");
			break;
		default:
			buf_add_char(out, *p);
		}
}

void doc_add_html(struct buf *out, const char *text)
{
	CLEANUP(buf_release) struct buf safe = BUF_INIT;

	format_safe(&safe, text);
	escape(out, safe.data);
	if (buf_error(&safe) < 0)
		out->failed = true;
}

static void add_element(struct buf *out, const char *tag, const char *text)
{
	buf_printf(out, "<%s>", tag);
	doc_add_html(out, text);
	buf_printf(out, "</%s>\n", tag);
}

/* A list goes on where the last one was left. */
static void html_text(struct doc *d, enum doc_part part, const char *text)
{
	static const char *const tags[] = { "h1", "h2", "p", "li" };
	static const char end[] = "</ul>\n";
	size_t n = strlen(end);

	if (part == DOC_TITLE) {
		buf_add_str(d->out, head);
		add_element(d->out, "title", text);
		buf_add_str(d->out, "</head>\n<body>\n");
	} else if (part == DOC_ITEM) {
		if (d->out->len >= n && memcmp(d->out->data + d->out->len - n, end, n) == 0)
			buf_truncate(d->out, d->out->len - n);
		else
			buf_add_str(d->out, "<ul>\n");
	}
	add_element(d->out, tags[part], text);
	buf_add_str(d->out, part == DOC_ITEM ? end : "");
}

static void html_verdict(struct doc *d, enum doc_mood mood, const char *word, const char *sentence)
{
	static const char *const classes[] = { "", " good", " warning", " bad" };

	buf_printf(d->out, "<p class=\"verdict%s\"><strong>", classes[mood]);
	doc_add_html(d->out, word);
	buf_add_str(d->out, "</strong>: ");
	doc_add_html(d->out, sentence);
	buf_add_str(d->out, "</p>\n");
}

static void html_table(struct doc *d, const struct table *t)
{
	const char *cell = table_first(t);

	if (buf_error(&t->text) < 0)
		d->out->failed = true;
	buf_printf(d->out, "<div class=\"wide\"><table%s>\n",
		   t->hides_titles ? "" : " class=\"rows\"");
	if (!t->hides_titles) {
		buf_add_str(d->out, "<tr>");
		for (size_t c = 0; c < t->n_columns; c++)
			buf_printf(d->out, "<th%s>%s</th>",
				   t->columns[c].kind == COLUMN_RIGHT ? " class=\"n\"" : "",
				   t->columns[c].title);
		buf_add_str(d->out, "</tr>\n");
	}
	for (size_t row = 0; row < table_rows(t); row++) {
		buf_add_str(d->out, "<tr>");
		for (size_t c = 0; c < t->n_columns; c++, cell = table_next(cell)) {
			buf_add_str(d->out,
				    t->columns[c].kind == COLUMN_RIGHT ? "<td class=\"n\"" : "<td");
			if (!t->hides_titles)
				buf_printf(d->out, " data-of=\"%s\"", t->columns[c].title);
			buf_add_char(d->out, '>');
			doc_add_html(d->out, cell);
			buf_add_str(d->out, "</td>");
		}
		buf_add_str(d->out, "</tr>\n");
	}
	buf_add_str(d->out, "</table></div>\n");
}

static void html_figure(struct doc *d, const char *lines)
{
	buf_add_str(d->out, "<pre class=\"wide\">");
	escape(d->out, lines);
	buf_add_str(d->out, "</pre>\n");
}

static void html_end(struct doc *d)
{
	buf_add_str(d->out, "</body>\n</html>\n");
}

const struct doc_writer html_writer = {
	.text = html_text,
	.verdict = html_verdict,
	.table = html_table,
	.figure = html_figure,
	.end = html_end,
};
