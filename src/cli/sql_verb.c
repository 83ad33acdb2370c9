#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/output.h"

/*
 * ---- rows as text for people, JSON or CSV ----
 *
 * Text is aligned by the first rows; what is longer than those sticks out. JSON is an array of
 * objects. CSV is that of RFC 4180, and rows end as they do in the exports (base/csv.h). NULL is
 * "-", null and nothing; bytes are hexadecimal.
 */

struct sql_printer {
	struct lister lister;	      /* LISTER_BARE: CSV */
	struct table_column *columns; /* of its table: numbers to the right, unless there are words
					 among them */
	bool *has_words;
};

static void sql_printer_release(struct sql_printer *p)
{
	lister_release(&p->lister);
	free(p->columns);
	free(p->has_words);
}

static void add_hex(struct buf *out, const struct sql_value *v)
{
	for (size_t i = 0; i < v->len; i++)
		buf_printf(out, "%02x", (unsigned)(unsigned char)v->bytes[i]);
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
		add_hex(&hex, v);
		json_str_n(j, hex.data, hex.len);
		break;
	}
}

/* Text that is empty is quoted, to tell it from NULL. A terminal would obey control characters: it
 * gets '?' in their place. */
static void add_csv_text(struct buf *out, const char *s, size_t n)
{
	bool needs_quotes = n == 0, is_shown = isatty(STDOUT_FILENO);

	for (size_t i = 0; !needs_quotes && i < n; i++)
		needs_quotes = s[i] == ',' || s[i] == '"' || s[i] == '\r' || s[i] == '\n';
	if (needs_quotes)
		buf_add_char(out, '"');
	for (size_t i = 0; i < n;) {
		if (s[i] == '"')
			buf_add_char(out, '"');
		if (is_shown && s[i] != '\n')
			i += utf8_add_shown(out, s + i, n - i);
		else
			buf_add_char(out, s[i++]);
	}
	if (needs_quotes)
		buf_add_char(out, '"');
}

/* For people a double has the 15 digits that they mean; in CSV the fewest that are the same again.
 */
static void add_value(struct buf *out, const struct sql_value *v, bool is_csv)
{
	struct json j;

	switch (v->type) {
	case SQL_NULL:
		buf_add_str(out, is_csv ? "" : "-");
		break;
	case SQL_INTEGER:
		buf_printf(out, "%lld", (long long)v->integer);
		break;
	case SQL_REAL:
		json_init(&j, out);
		if (is_csv && isfinite(v->real))
			json_f64(&j, v->real);
		else
			buf_printf(out, is_csv ? "%f" : "%.15g", v->real);
		break;
	case SQL_TEXT:
		if (is_csv)
			add_csv_text(out, v->bytes, v->len);
		else
			utf8_add_text(out, v->bytes, v->len);
		break;
	case SQL_BLOB:
		add_hex(out, v);
		break;
	}
}

/* ---- all of it ---- */

/* -EINVAL: as JSON, two columns would have the same name. */
static int sql_printer_begin(struct sql_printer *p, const struct store_sql *sql, struct err *err)
{
	const size_t n_columns = store_sql_columns(sql);
	struct lister *l = &p->lister;
	const bool has_heading = l->form == LISTER_BARE && !l->table.hides_titles && n_columns > 0;

	p->columns = calloc(n_columns + 1, sizeof(*p->columns));
	p->has_words = calloc(n_columns + 1, sizeof(*p->has_words));
	if (!p->columns || !p->has_words)
		return err_set(err, -ENOMEM, "no memory left to print a row");
	l->table.columns = p->columns;
	l->table.n_columns = n_columns;
	for (size_t i = 0; i < n_columns; i++) {
		const char *name = store_sql_name(sql, i);

		p->columns[i].title = name;
		for (size_t k = 0; l->form == LISTER_ARRAY && k < i; k++)
			if (strcmp(name, store_sql_name(sql, k)) == 0)
				return err_set(err, -EINVAL,
					       "two columns are called %s: as JSON each needs a "
					       "name of its own (\"… AS name\")",
					       name);
		if (has_heading) {
			buf_add_str(&l->out.buf, i > 0 ? "," : "");
			add_csv_text(&l->out.buf, name, strlen(name));
		}
	}
	if (has_heading)
		buf_add_char(&l->out.buf, '\n');
	return 0;
}

static int sql_printer_add_row(struct sql_printer *p, const struct store_sql *sql)
{
	struct lister *l = &p->lister;

	if (l->form == LISTER_ARRAY)
		json_begin_object(&l->json);
	for (size_t i = 0; i < l->table.n_columns; i++) {
		struct sql_value v = store_sql_value(sql, i);

		if (l->form == LISTER_ARRAY) {
			json_key(&l->json, store_sql_name(sql, i));
			add_json_value(&l->json, &v);
		} else if (l->form == LISTER_BARE) {
			buf_add_str(&l->out.buf, i > 0 ? "," : "");
			add_value(&l->out.buf, &v, true);
		} else {
			p->has_words[i] |= v.type == SQL_TEXT || v.type == SQL_BLOB;
			if (!l->table.widths &&
			    (v.type == SQL_INTEGER || v.type == SQL_REAL || p->has_words[i]))
				p->columns[i].kind = p->has_words[i] ? COLUMN_LEFT : COLUMN_RIGHT;
			add_value(table_cell(&l->table), &v, false);
		}
	}
	if (l->form == LISTER_ARRAY)
		json_end_object(&l->json);
	else if (l->form == LISTER_BARE)
		buf_add_char(&l->out.buf, '\n');
	return lister_pass(l);
}

/* ---- the verb ---- */

#define SQL_MAX_BYTES ((size_t)1 << 20)

struct sql_args {
	const char *statement;
	bool json, csv, no_header, schema;
};

static const struct argp_option sql_options[] = {
	CLI_WORD(sql_args, statement, NULL),
	CLI_OPTION("json", sql_args, json, NULL, "Print a JSON array of objects"),
	CLI_OPTION("csv", sql_args, csv, NULL, "Print comma-separated values (RFC 4180)"),
	CLI_OPTION("no-header", sql_args, no_header, NULL, "Leave out the names of the columns"),
	CLI_OPTION("schema", sql_args, schema, NULL, "Print the tables and what their columns are"),
	{ 0 },
};

static const struct argp sql_argp = {
	.options = sql_options,
	.args_doc = "'SELECT …'",
	.doc = "Asks the record in SQL. The statement only reads; - reads it from stdin. "
	       "--schema tells which tables there are.",
};

/* ---- the tables ---- */

struct schema {
	struct buf out;
	struct json json;
	bool is_inside; /* JSON: of a table */
};

static void add_schema_text(void *ctx, const char *table, const char *column, const char *type,
			    const char *about)
{
	struct schema *s = ctx;

	if (column)
		buf_printf(&s->out, "  %-27s  %-7s  %s\n", column, type, about);
	else
		buf_printf(&s->out, "%s%s: %s\n", s->out.len > 0 ? "\n" : "", table, about);
}

static void end_schema_table(struct schema *s)
{
	if (!s->is_inside)
		return;
	json_end_array(&s->json);
	json_end_object(&s->json);
}

static void add_schema_json(void *ctx, const char *table, const char *column, const char *type,
			    const char *about)
{
	struct schema *s = ctx;

	if (!column)
		end_schema_table(s);
	s->is_inside = true;
	json_begin_object(&s->json);
	json_key_string(&s->json, column ? "name" : "table", column ? column : table);
	if (column)
		json_key_string(&s->json, "type", type);
	json_key_string(&s->json, "about", about);
	if (column) {
		json_end_object(&s->json);
		return;
	}
	json_key_array(&s->json, "columns");
}

static int print_schema(bool as_json)
{
	struct schema s = { .out = BUF_INIT };
	int status;

	json_init(&s.json, &s.out);
	if (as_json) {
		json_begin_array(&s.json);
		store_sql_tell_schema(add_schema_json, &s);
		end_schema_table(&s);
		json_end_array(&s.json);
		buf_add_char(&s.out, '\n');
	} else {
		store_sql_tell_schema(add_schema_text, &s);
	}
	status = cli_print(&s.out);
	buf_release(&s.out);
	return status;
}

/* ---- the statement ---- */

static int read_stdin(struct buf *ret, struct err *err)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(STDIN_FILENO, bytes, sizeof(bytes))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -EIO, "cannot read the statement: %s", strerror(errno));
		buf_add(ret, bytes, (size_t)n);
		if (ret->len > SQL_MAX_BYTES)
			return err_set(err, -EINVAL, "the statement is longer than 1 MiB");
	}
	if (strlen(ret->data) < ret->len)
		return err_set(err, -EINVAL, "the statement has a zero byte in it");
	return buf_error(ret) < 0 ? err_set(err, -ENOMEM, "no memory left for the statement") : 0;
}

/* Ctrl-C is held back while a statement runs, which looks for it now and then. */
static bool was_interrupted(void *ctx)
{
	sigset_t pending;

	(void)ctx;
	return sigpending(&pending) == 0 && sigismember(&pending, SIGINT) == 1;
}

static int print_rows(struct store *store, const char *statement, struct sql_printer *p,
		      struct err *err)
{
	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
	int r = store_sql_open(store, statement, was_interrupted, NULL, &sql, err);

	if (r == 0)
		r = lister_open(&p->lister, err);
	if (r == 0)
		r = sql_printer_begin(p, sql, err);
	while (r == 0 && (r = store_sql_next(sql, err)) > 0)
		r = sql_printer_add_row(p, sql);
	if (r == 0 && p->lister.form == LISTER_TABLE)
		table_print(&p->lister.table,
			    &p->lister.out.buf); /* the titles, without a row too */
	return r;
}

/* Ctrl-C is not held back where it is ignored, as in the background of a script: it would count. */
static int ask(const struct sql_args *args, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	CLEANUP(sql_printer_release)
	struct sql_printer printer = {
		.lister = { .form = args->json	? LISTER_ARRAY
				    : args->csv ? LISTER_BARE
						: LISTER_TABLE,
			    .out = OUTPUT_INIT,
			    .table = { .text = BUF_INIT, .hides_titles = args->no_header } },
	};
	bool is_from_stdin = strcmp(args->statement, "-") == 0;
	sigset_t interrupts, before;
	struct sigaction action;
	struct paths paths;
	int r = is_from_stdin ? read_stdin(&text, err) : 0;

	if (r == 0)
		r = cli_find_paths_to_read(&paths, err);
	if (r == 0)
		r = cli_open_store(&paths, STORE_READ, &store, err);
	if (r < 0)
		return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, err);
	printer.lister.out.never_waits = true; /* else a slow reader would hold up the database */
	sigemptyset(&interrupts);
	if (sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(&interrupts, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupts, &before);
	r = print_rows(store, is_from_stdin ? text.data : args->statement, &printer, err);
	if (r == -EINVAL)
		return cli_fail(CLI_USAGE, err);
	if (r == 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
	return lister_end(&printer.lister, r, NULL, err);
}

int cli_sql(int argc, char **argv)
{
	struct sql_args args = { 0 };
	struct err err = ERR_INIT;

	cli_parse(&sql_argp, argc, argv, 0, &args);
	if (args.json && args.csv)
		cli_reject(argv, "either --json or --csv");
	if (args.json && args.no_header)
		cli_reject(argv, "JSON has no header: --no-header goes with text or --csv");
	if (args.schema && (args.statement || args.csv || args.no_header))
		cli_reject(argv, "--schema stands alone, or with --json");
	if (!args.schema && !args.statement)
		cli_reject(argv, "which statement? 'SELECT …', or - to read it from stdin");
	return args.schema ? print_schema(args.json) : ask(&args, &err);
}
