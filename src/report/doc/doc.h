/*
 * doc - what a page is made of, whatever it is written as.
 *
 * page.c (and the page of "proctor ranks") says what is on it, a writer (text, Markdown, HTML) says
 * what it looks like. Text given to a writer may be foreign: the writer makes it safe and escapes
 * it, so whoever fills the page need not. A lost append shows in buf_error() of out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "model/job.h"

struct doc_writer;

struct doc {
	const struct doc_writer *writer;
	struct buf *out;
	bool has_legend; /* the marks of evidence have been explained */
};

enum column_kind {
	COLUMN_LEFT,
	COLUMN_RIGHT, /* numbers */
	COLUMN_CUT,   /* left; gets what room is left and is cut there */
	COLUMN_WRAP,  /* left; the last one only: goes on in the next line, below itself */
};

struct table_column {
	const char *title;
	enum column_kind kind;
};

/*
 * Cells are added row by row, from left to right:
 *
 *	format_count(table_cell(&t), n);
 *
 * table_cell() begins the next cell and returns where to append its text.
 */
struct table {
	const struct table_column *columns;
	size_t n_columns;
	bool hides_titles; /* where a writer can do without them */
	bool has_marks;	   /* of evidence, before some numbers */
	size_t n_cells;
	struct buf text; /* cells, with a NUL between two */
	size_t *widths;	 /* of a list that has begun: see table_print() */
};

/* For an array of columns. */
#define TABLE_INIT(array)                                                          \
	{                                                                          \
		.columns = (array), .n_columns = sizeof(array) / sizeof(*(array)), \
		.text = BUF_INIT,                                                  \
	}

void table_release(struct table *t);
struct buf *table_cell(struct table *t);

/* A cell for a number: its mark of evidence is there already if the number is known. */
struct buf *table_number_cell(struct table *t, bool is_known, enum evidence evidence);

/* Before any cell. */
void table_drop_first_column(struct table *t);

/*
 * A list: a table for people of any length, piece by piece. Prints the rows that are there, and
 * empties the table. The titles and the first of these pieces decide how wide the columns are: what
 * is longer sticks out, and nothing is cut. Foreign text is made safe for a terminal.
 */
void table_print(struct table *t, struct buf *out);

/* Prints the table, and a legend of its marks if no table before it had any. */
void doc_add_table(struct doc *d, const struct table *t);

/* Foreign text, made safe and escaped, for who draws something in HTML by himself. */
void doc_add_html(struct buf *out, const char *text);

enum doc_part { DOC_TITLE, DOC_SECTION, DOC_PARAGRAPH, DOC_ITEM };

enum doc_mood { DOC_PLAIN, DOC_GOOD, DOC_WARNING, DOC_BAD };

struct doc_writer {
	void (*text)(struct doc *d, enum doc_part part, const char *text);
	/* The verdict: a word that stands out and a sentence. */
	void (*verdict)(struct doc *d, enum doc_mood mood, const char *word, const char *sentence);
	void (*table)(struct doc *d, const struct table *t);
	/* Lines of our own making, printed as they are. */
	void (*figure)(struct doc *d, const char *lines);
	void (*end)(struct doc *d); /* of the page; NULL: it needs none */
};

extern const struct doc_writer text_writer, markdown_writer, html_writer;
