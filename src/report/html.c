#include <string.h>

#include "report/doc.h"
#include "report/format.h"

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
	".wide { overflow-x: auto; }\n"
	"table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
	"th, td { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; "
	"border-bottom: 1px solid #8883; }\n"
	".n { text-align: right; white-space: nowrap; }\n"
	"pre { font: 12px/1.15 ui-monospace, monospace; }\n"
	"</style>\n";

static const char *entity_of(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	default:
		return NULL;
	}
}

static void escape(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		const char *entity = entity_of(*p);

		if (entity)
			buf_add_str(out, entity);
		else
			buf_add_char(out, *p);
	}
}

static void add_text(struct buf *out, const char *text)
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
	add_text(out, text);
	buf_printf(out, "</%s>\n", tag);
}

static void html_title(struct doc *d, const char *text)
{
	buf_add_str(d->out, head);
	add_element(d->out, "title", text);
	buf_add_str(d->out, "</head>\n<body>\n");
	add_element(d->out, "h1", text);
}

static void html_section(struct doc *d, const char *heading)
{
	add_element(d->out, "h2", heading);
}

static void html_verdict(struct doc *d, const char *word, const char *sentence)
{
	buf_add_str(d->out, "<p class=\"verdict\"><strong>");
	add_text(d->out, word);
	buf_add_str(d->out, "</strong>: ");
	add_text(d->out, sentence);
	buf_add_str(d->out, "</p>\n");
}

static void html_paragraph(struct doc *d, const char *text)
{
	add_element(d->out, "p", text);
}

/* A list goes on where the last one was left. */
static void html_item(struct doc *d, const char *text)
{
	static const char end[] = "</ul>\n";
	size_t n = strlen(end);

	if (d->out->len >= n && memcmp(d->out->data + d->out->len - n, end, n) == 0)
		buf_truncate(d->out, d->out->len - n);
	else
		buf_add_str(d->out, "<ul>\n");
	add_element(d->out, "li", text);
	buf_add_str(d->out, end);
}

static void add_titles(struct buf *out, const struct table *t)
{
	buf_add_str(out, "<tr>");
	for (size_t c = 0; c < t->n_columns; c++)
		buf_printf(out, "<th%s>%s</th>",
			   t->columns[c].kind == COLUMN_RIGHT ? " class=\"n\"" : "",
			   t->columns[c].title);
	buf_add_str(out, "</tr>\n");
}

static void html_table(struct doc *d, const struct table *t)
{
	const char *cell = table_first(t);

	if (buf_error(&t->text) < 0)
		d->out->failed = true;
	buf_add_str(d->out, "<div class=\"wide\"><table>\n");
	if (!t->hides_titles)
		add_titles(d->out, t);
	for (size_t row = 0; row < table_rows(t); row++) {
		buf_add_str(d->out, "<tr>");
		for (size_t c = 0; c < t->n_columns; c++, cell = table_next(cell)) {
			buf_add_str(d->out, t->columns[c].kind == COLUMN_RIGHT ? "<td class=\"n\">"
									       : "<td>");
			add_text(d->out, cell);
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
	.title = html_title,
	.section = html_section,
	.verdict = html_verdict,
	.paragraph = html_paragraph,
	.item = html_item,
	.table = html_table,
	.figure = html_figure,
	.end = html_end,
};
