#include "report/doc.h"

#include <string.h>

#include "report/format.h"

/* Safe, and with everything that Markdown (or HTML inside it) would obey escaped. */
static void add_text(struct buf *out, const char *text)
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

static void md_title(struct doc *d, const char *text)
{
	buf_add_str(d->out, "# ");
	add_text(d->out, text);
	buf_add_char(d->out, '\n');
}

static void md_section(struct doc *d, const char *heading)
{
	buf_add_str(d->out, "\n## ");
	add_text(d->out, heading);
	buf_add_char(d->out, '\n');
}

static void md_verdict(struct doc *d, const char *word, const char *sentence)
{
	buf_printf(d->out, "\n**%s**: ", word);
	add_text(d->out, sentence);
	buf_add_char(d->out, '\n');
}

static void md_paragraph(struct doc *d, const char *text)
{
	buf_add_char(d->out, '\n');
	add_text(d->out, text);
	buf_add_char(d->out, '\n');
}

/* The first of a list needs an empty line before it. */
static void md_item(struct doc *d, const char *text)
{
	const char *last = memrchr(d->out->data, '\n', d->out->len ? d->out->len - 1 : 0);

	if (!last || strncmp(last + 1, "- ", 2) != 0)
		buf_add_char(d->out, '\n');
	buf_add_str(d->out, "- ");
	add_text(d->out, text);
	buf_add_char(d->out, '\n');
}

static void add_titles(struct buf *out, const struct table *t)
{
	buf_add_char(out, '|');
	for (size_t c = 0; c < t->n_columns; c++)
		buf_printf(out, " %s |", t->columns[c].title);
	buf_add_str(out, "\n|");
	for (size_t c = 0; c < t->n_columns; c++)
		buf_add_str(out, t->columns[c].kind == COLUMN_RIGHT ? "---:|" : "---|");
	buf_add_char(out, '\n');
}

static void md_table(struct doc *d, const struct table *t)
{
	const char *cell = table_first(t);

	if (buf_error(&t->text) < 0)
		d->out->failed = true;
	buf_add_char(d->out, '\n');
	add_titles(d->out, t);
	for (size_t row = 0; row < table_rows(t); row++) {
		buf_add_char(d->out, '|');
		for (size_t c = 0; c < t->n_columns; c++, cell = table_next(cell)) {
			buf_add_char(d->out, ' ');
			add_text(d->out, cell);
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
	.title = md_title,
	.section = md_section,
	.verdict = md_verdict,
	.paragraph = md_paragraph,
	.item = md_item,
	.table = md_table,
	.figure = md_figure,
};
