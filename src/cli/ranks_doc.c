#include "cli/ranks_doc.h"

#include <string.h>

#include "base/utf8.h"

#define PAGE_COLUMNS 100

/* ---- escaping ---- */

static void escape_html_char(struct buf *out, const char *s, size_t n)
{
	static const struct {
		char c;
		const char *entity;
	} entities[] = { { '&', "&amp;" },
			 { '<', "&lt;" },
			 { '>', "&gt;" },
			 { '"', "&quot;" },
			 { '\'', "&#39;" } };

	for (size_t i = 0; n == 1 && i < sizeof(entities) / sizeof(entities[0]); i++)
		if (*s == entities[i].c) {
			buf_add_str(out, entities[i].entity);
			return;
		}
	buf_add(out, s, n);
}

static void escape_markdown_char(struct buf *out, const char *s, size_t n)
{
	if (n == 1 && strchr("\\`*_[]<>|~&$#", *s))
		buf_add_char(out, '\\');
	buf_add(out, s, n);
}

static void escape(struct buf *out, const char *text, size_t n, bool is_html, bool is_markdown)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;

	for (size_t i = 0; i < n;) {
		buf_reset(&shown);
		i += utf8_add_shown(&shown, text + i, n - i);
		if (is_html)
			escape_html_char(out, shown.data, shown.len);
		else if (is_markdown)
			escape_markdown_char(out, shown.data, shown.len);
		else
			buf_add(out, shown.data, shown.len);
	}
}

void doc_escape_html(struct buf *out, const char *text, size_t n)
{
	escape(out, text, n, true, false);
}

static void add_text(struct ranks_doc *d, const char *text)
{
	escape(d->out, text, strlen(text), d->is_html, d->is_markdown);
}

/* ---- blocks ---- */

static const char style[] =
	"body{font:15px/1.45 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;"
	"color:#1a1a1a;background:#fff}h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.8em}"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
	"td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}"
	"td.l,th.l{text-align:left}.v{padding:.8em 1em;background:#f2f5fa;border-left:4px solid #36c}"
	"svg{max-width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#444}"
	"@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181c}"
	".v{background:#20242c}td,th{border-color:#333}svg text{fill:#bbb}}";

void doc_begin(struct ranks_doc *d, const char *title)
{
	if (d->is_html) {
		buf_add_str(d->out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
				    "charset=\"utf-8\">\n<meta name=\"viewport\" "
				    "content=\"width=device-width\">\n<title>");
		add_text(d, title);
		buf_printf(d->out, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
		add_text(d, title);
		buf_add_str(d->out, "</h1>\n");
		return;
	}
	if (d->is_markdown)
		buf_add_str(d->out, "# ");
	add_text(d, title);
	buf_add_char(d->out, '\n');
}

void doc_end(struct ranks_doc *d)
{
	if (d->is_html)
		buf_add_str(d->out, "</body>\n</html>\n");
}

void doc_section(struct ranks_doc *d, const char *heading)
{
	buf_add_str(d->out, d->is_html ? "<h2>" : d->is_markdown ? "\n## " : "\n");
	add_text(d, heading);
	buf_add_str(d->out, d->is_html ? "</h2>\n" : "\n");
}

/* Text in lines of the page's width, each after the first behind indent blanks. */
static void add_wrapped(struct ranks_doc *d, const char *text, size_t indent)
{
	size_t at = indent;
	bool is_first = true;

	while (*text) {
		size_t n = strcspn(text, " "), width = utf8_count(text, n);

		if (!is_first && at + 1 + width > PAGE_COLUMNS) {
			buf_printf(d->out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!is_first) {
			buf_add_char(d->out, ' ');
			at++;
		}
		escape(d->out, text, n, false, false);
		at += width;
		is_first = false;
		text += n + strspn(text + n, " ");
	}
	buf_add_char(d->out, '\n');
}

static void add_block(struct ranks_doc *d, const char *tag, const char *lead, const char *text)
{
	if (d->is_html) {
		buf_printf(d->out, "<%s>", tag);
		add_text(d, text);
		buf_printf(d->out, "</%s>\n", tag);
	} else if (d->is_markdown) {
		buf_add_str(d->out, lead[2] == '-' ? "- " : "\n");
		add_text(d, text);
		buf_add_char(d->out, '\n');
	} else {
		buf_add_str(d->out, lead);
		add_wrapped(d, text, strlen(lead));
	}
}

void doc_paragraph(struct ranks_doc *d, const char *text)
{
	add_block(d, "p", "  ", text);
}

void doc_item(struct ranks_doc *d, const char *text)
{
	add_block(d, "p", "  - ", text);
}

void doc_verdict(struct ranks_doc *d, const char *word, const char *text)
{
	if (!d->is_html && !d->is_markdown) {
		CLEANUP(buf_release) struct buf line = BUF_INIT;

		buf_printf(&line, "%s: %s", word, text);
		buf_add_char(d->out, '\n');
		add_wrapped(d, line.data, 0);
		return;
	}
	buf_add_str(d->out, d->is_html ? "<p class=\"v\"><b>" : "\n**");
	add_text(d, word); /* it names a host */
	buf_add_str(d->out, d->is_html ? "</b>: " : "**: ");
	add_text(d, text);
	buf_add_str(d->out, d->is_html ? "</p>\n" : "\n");
}

/* ---- tables ---- */

void doc_table_release(struct doc_table *t)
{
	buf_release(&t->cells);
}

struct buf *doc_cell(struct doc_table *t)
{
	if (t->n_cells++ > 0)
		buf_add_char(&t->cells, '\0');
	return &t->cells;
}

static bool is_left(const struct doc_table *t, size_t column)
{
	return t->titles[column][0] == '<';
}

static const char *title_of(const struct doc_table *t, size_t column)
{
	return t->titles[column] + is_left(t, column);
}

static const char *next_cell(const char *cell)
{
	return cell + strlen(cell) + 1;
}

static void add_html_cell(struct ranks_doc *d, const struct doc_table *t, size_t column,
			  const char *tag, const char *text)
{
	buf_printf(d->out, "<%s%s>", tag, is_left(t, column) ? " class=\"l\"" : "");
	add_text(d, text);
	buf_printf(d->out, "</%s>", tag);
}

static void add_html_table(struct ranks_doc *d, const struct doc_table *t)
{
	const char *cell = t->cells.data;

	buf_add_str(d->out, "<table>\n<tr>");
	for (size_t c = 0; c < t->n_columns; c++)
		add_html_cell(d, t, c, "th", title_of(t, c));
	for (size_t i = 0; i < t->n_cells; i++, cell = next_cell(cell)) {
		if (i % t->n_columns == 0)
			buf_add_str(d->out, "</tr>\n<tr>");
		add_html_cell(d, t, i % t->n_columns, "td", cell);
	}
	buf_add_str(d->out, "</tr>\n</table>\n");
}

static void add_markdown_table(struct ranks_doc *d, const struct doc_table *t)
{
	const char *cell = t->cells.data;

	buf_add_str(d->out, "\n|");
	for (size_t c = 0; c < t->n_columns; c++)
		buf_printf(d->out, " %s |", title_of(t, c));
	buf_add_str(d->out, "\n|");
	for (size_t c = 0; c < t->n_columns; c++)
		buf_add_str(d->out, is_left(t, c) ? "---|" : "---:|");
	for (size_t i = 0; i < t->n_cells; i++, cell = next_cell(cell)) {
		buf_add_str(d->out, i % t->n_columns == 0 ? "\n| " : " ");
		add_text(d, cell);
		buf_add_str(d->out, " |");
	}
	buf_add_char(d->out, '\n');
}

static void add_padded(struct ranks_doc *d, const char *text, size_t width, bool to_left)
{
	size_t n = utf8_count(text, strlen(text));
	int pad = n < width ? (int)(width - n) : 0;

	if (!to_left)
		buf_printf(d->out, "%*s", pad, "");
	add_text(d, text);
	if (to_left)
		buf_printf(d->out, "%*s", pad, "");
}

static void end_row(struct buf *out)
{
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_add_char(out, '\n');
}

static void add_text_table(struct ranks_doc *d, const struct doc_table *t)
{
	size_t widths[DOC_COLUMNS] = { 0 };
	const char *cell = t->cells.data;

	for (size_t c = 0; c < t->n_columns; c++)
		widths[c] = strlen(title_of(t, c));
	for (size_t i = 0; i < t->n_cells; i++, cell = next_cell(cell)) {
		size_t n = utf8_count(cell, strlen(cell)), c = i % t->n_columns;

		widths[c] = n > widths[c] ? n : widths[c];
	}
	for (size_t c = 0; c < t->n_columns; c++) {
		buf_add_str(d->out, "  ");
		add_padded(d, title_of(t, c), widths[c], is_left(t, c));
	}
	cell = t->cells.data;
	for (size_t i = 0; i < t->n_cells; i++, cell = next_cell(cell)) {
		size_t c = i % t->n_columns;

		if (c == 0)
			end_row(d->out);
		buf_add_str(d->out, "  ");
		add_padded(d, cell, widths[c], is_left(t, c));
	}
	end_row(d->out);
}

void doc_table(struct ranks_doc *d, const struct doc_table *t)
{
	if (buf_error(&t->cells) < 0)
		d->out->failed = true;
	else if (d->is_html)
		add_html_table(d, t);
	else if (d->is_markdown)
		add_markdown_table(d, t);
	else
		add_text_table(d, t);
}
