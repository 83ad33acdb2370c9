#include "cli/sql_print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define FLUSH_BYTES 65536

void sql_printer_release(struct sql_printer *p)
{
	buf_release(&p->out);
	buf_release(&p->cells);
	outflow_release(&p->flow);
	free(p->columns);
}

static int flush(struct sql_printer *p, struct err *err)
{
	int r = buf_error(&p->out);

	if (r == 0)
		r = outflow_write(&p->flow, p->out.data, p->out.len);
	buf_reset(&p->out);
	return r < 0 ? err_set(err, r, "cannot write the output: %s", strerror(-r)) : 0;
}

/* ---- values ---- */

void sql_add_hex(struct buf *out, const char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)bytes[i];

		buf_add_char(out, digits[c >> 4]);
		buf_add_char(out, digits[c & 15]);
	}
}

/* In the fewest digits that are the same number again; JSON has no infinity, CSV has. */
static void add_real(struct buf *out, double v)
{
	struct json j;

	json_init(&j, out);
	if (isfinite(v))
		json_f64(&j, v);
	else
		buf_printf(out, "%f", v);
}

/* ---- JSON ---- */

static int check_names(const struct store_sql *sql, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(store_sql_name(sql, i), store_sql_name(sql, k)) == 0)
				return err_set(
					err, -EINVAL,
					"two columns are called %s: as JSON each needs a name "
					"of its own (\"… AS name\")",
					store_sql_name(sql, i));
	return 0;
}

static void add_json_value(struct json *j, const struct sql_value *v)
{
	CLEANUP(buf_release) struct buf hex = BUF_INIT;

	switch (v->type) {
	case SQL_NULL:
		json_none(j);
		break;
	case SQL_INTEGER:
		json_i64(j, v->integer);
		break;
	case SQL_REAL:
		json_f64(j, v->real);
		break;
	case SQL_TEXT:
		json_str_n(j, v->bytes, v->len);
		break;
	case SQL_BLOB:
		sql_add_hex(&hex, v->bytes, v->len);
		json_str_n(j, hex.data, hex.len);
		break;
	}
}

static void add_json_row(struct sql_printer *p, const struct store_sql *sql)
{
	json_begin_object(&p->json);
	for (size_t i = 0; i < p->n_columns; i++) {
		struct sql_value v = store_sql_value(sql, i);

		json_key(&p->json, store_sql_name(sql, i));
		add_json_value(&p->json, &v);
	}
	json_end_object(&p->json);
}

static int begin_json(struct sql_printer *p, const struct store_sql *sql, struct err *err)
{
	json_init(&p->json, &p->out);
	json_begin_array(&p->json);
	return check_names(sql, p->n_columns, err);
}

static void end_json(struct sql_printer *p)
{
	json_end_array(&p->json);
	buf_add_char(&p->out, '\n');
}

/* ---- CSV: rows end as they do in the exports, see base/csv.h ---- */

/* Text that is empty is quoted, to tell it from NULL. */
static bool needs_quotes(const char *s, size_t n)
{
	if (n == 0)
		return true;
	for (size_t i = 0; i < n; i++)
		if (s[i] == ',' || s[i] == '"' || s[i] == '\r' || s[i] == '\n')
			return true;
	return false;
}

static void add_csv_text(struct buf *out, const char *s, size_t n)
{
	if (!needs_quotes(s, n)) {
		buf_add(out, s, n);
		return;
	}
	buf_add_char(out, '"');
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '"')
			buf_add_char(out, '"');
		buf_add_char(out, s[i]);
	}
	buf_add_char(out, '"');
}

static void add_csv_value(struct buf *out, const struct sql_value *v)
{
	switch (v->type) {
	case SQL_NULL:
		break;
	case SQL_INTEGER:
		buf_printf(out, "%lld", (long long)v->integer);
		break;
	case SQL_REAL:
		add_real(out, v->real);
		break;
	case SQL_TEXT:
		add_csv_text(out, v->bytes, v->len);
		break;
	case SQL_BLOB:
		sql_add_hex(out, v->bytes, v->len);
		break;
	}
}

static void add_csv_row(struct sql_printer *p, const struct store_sql *sql)
{
	for (size_t i = 0; i < p->n_columns; i++) {
		struct sql_value v = store_sql_value(sql, i);

		if (i > 0)
			buf_add_char(&p->out, ',');
		add_csv_value(&p->out, &v);
	}
	buf_add_char(&p->out, '\n');
}

static int begin_csv(struct sql_printer *p, const struct store_sql *sql, struct err *err)
{
	(void)err;
	for (size_t i = 0; p->has_header && i < p->n_columns; i++) {
		const char *name = store_sql_name(sql, i);

		if (i > 0)
			buf_add_char(&p->out, ',');
		add_csv_text(&p->out, name, strlen(name));
	}
	if (p->has_header && p->n_columns > 0)
		buf_add_char(&p->out, '\n');
	return 0;
}

/* ---- all of it ---- */

static const struct {
	int (*begin)(struct sql_printer *p, const struct store_sql *sql, struct err *err);
	void (*add_row)(struct sql_printer *p, const struct store_sql *sql);
	void (*end)(struct sql_printer *p); /* NULL: nothing to do */
} formats[] = {
	[SQL_AS_TEXT] = { sql_text_begin, sql_text_add_row, sql_text_end },
	[SQL_AS_JSON] = { begin_json, add_json_row, end_json },
	[SQL_AS_CSV] = { begin_csv, add_csv_row, NULL },
};

int sql_printer_begin(struct sql_printer *p, const struct store_sql *sql, struct err *err)
{
	p->n_columns = store_sql_columns(sql);
	return formats[p->format].begin(p, sql, err);
}

int sql_printer_add_row(struct sql_printer *p, const struct store_sql *sql, struct err *err)
{
	formats[p->format].add_row(p, sql);
	return p->out.len > FLUSH_BYTES ? flush(p, err) : 0;
}

int sql_printer_end(struct sql_printer *p, struct err *err)
{
	if (formats[p->format].end)
		formats[p->format].end(p);
	return flush(p, err);
}
