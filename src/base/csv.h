/*
 * csv - a streaming CSV writer (RFC 4180): commas by itself, one row at a time.
 *
 *	struct csv csv;
 *	csv_init(&csv, &buf);
 *	csv_i64(&csv, 17);
 *	csv_text(&csv, "a \"b\", c");
 *	csv_end_row(&csv);
 *
 * Text is in quotes, a number is not, and what is unknown is an empty field.
 * Rows end with a line feed alone: spreadsheets, data frames and databases read
 * that as well as CR LF, and the tools of a shell read nothing else. Text comes out
 * as valid UTF-8 (a byte that is not becomes U+FFFD) and is otherwise as it was, line
 * ends and control characters included. Numbers have the digits that they have in JSON.
 * Memory failure shows in buf_error() of the buffer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

struct csv {
	struct json json; /* its commas and numbers are the same */
	/* For a terminal, which would obey control characters: '?' instead of them. */
	bool is_shown;
	/*
	 * For a spreadsheet, which takes text that begins with = + - @ for a formula
	 * and runs it: a ' before those, wherever it might see a cell begin. Programs
	 * want text as it is, so this is for who asks for it.
	 */
	bool guards_formulas;
};

/* Appends to out, which the caller owns. */
void csv_init(struct csv *c, struct buf *out);

/* A name of the heading, or a number as it stands: without quotes. */
void csv_word(struct csv *c, const char *word);

void csv_text(struct csv *c, const char *s); /* NULL is unknown; "" is "" */
void csv_u64(struct csv *c, uint64_t v);     /* U64_UNKNOWN is unknown */
void csv_i64(struct csv *c, int64_t v);
void csv_unknown(struct csv *c);

void csv_end_row(struct csv *c);
