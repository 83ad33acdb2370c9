/*
 * sql_print - rows of SQL as text for people, JSON or CSV.
 *
 * Text is aligned by the first rows; what is longer than those sticks out. JSON
 * is an array of objects. CSV is that of RFC 4180. NULL is "-", null and nothing;
 * bytes are hexadecimal.
 */
#ifndef PROCTOR_CLI_SQL_PRINT_H
#define PROCTOR_CLI_SQL_PRINT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/outflow.h"
#include "store/store.h"

enum sql_format { SQL_AS_TEXT, SQL_AS_JSON, SQL_AS_CSV };

struct sql_text_column {
	size_t width;
	bool has_numbers, has_words;
};

struct sql_printer {
	enum sql_format format;
	bool has_header;
	struct buf out;
	struct json json;
	struct outflow flow;
	/* Of text, while the widths are not settled: cells, each with its NUL. */
	struct buf cells;
	size_t n_rows; /* in cells */
	bool is_settled;
	struct sql_text_column *columns;
	size_t n_columns;
};

/* -EINVAL: as JSON, two columns would have the same name. */
int sql_printer_begin(struct sql_printer *p, const struct store_sql *sql, struct err *err);
int sql_printer_add_row(struct sql_printer *p, const struct store_sql *sql, struct err *err);
int sql_printer_end(struct sql_printer *p, struct err *err);
void sql_printer_release(struct sql_printer *p);

/* ---- between the formats ---- */

void sql_add_hex(struct buf *out, const char *bytes, size_t n);

int sql_text_begin(struct sql_printer *p, const struct store_sql *sql, struct err *err);
void sql_text_add_row(struct sql_printer *p, const struct store_sql *sql);
void sql_text_end(struct sql_printer *p);

#endif
