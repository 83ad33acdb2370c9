/*
 * ranks_doc - headings, paragraphs and tables as text, Markdown or HTML.
 *
 * Text may be foreign: it is made safe for a terminal, and escaped for the format.
 */
#ifndef PROCTOR_CLI_RANKS_DOC_H
#define PROCTOR_CLI_RANKS_DOC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct ranks_doc {
	struct buf *out;
	bool is_html, is_markdown;
};

void doc_begin(struct ranks_doc *d, const char *title);
void doc_end(struct ranks_doc *d);
void doc_section(struct ranks_doc *d, const char *heading);
void doc_paragraph(struct ranks_doc *d, const char *text);
void doc_verdict(struct ranks_doc *d, const char *word, const char *text);
void doc_item(struct ranks_doc *d, const char *text);

#define DOC_COLUMNS 12

/*
 * Columns whose title begins with '<' are set to the left, others, numbers, to the right.
 * Cells come row by row: append to what doc_cell() returns.
 */
struct doc_table {
	const char *const *titles;
	size_t n_columns;
	size_t n_cells;
	struct buf cells; /* with a NUL between two */
};

#define DOC_TABLE_INIT(array)                                                     \
	{                                                                         \
		.titles = (array), .n_columns = sizeof(array) / sizeof(*(array)), \
		.cells = BUF_INIT,                                                \
	}

void doc_table_release(struct doc_table *t);
struct buf *doc_cell(struct doc_table *t);
void doc_table(struct ranks_doc *d, const struct doc_table *t);

/* Appends text for HTML, or inside an attribute of it. */
void doc_escape_html(struct buf *out, const char *text, size_t n);

#endif
