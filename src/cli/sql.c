#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/sql_print.h"

#define SQL_MAX_BYTES ((size_t)1 << 20)

enum sql_key { KEY_JSON = 256, KEY_CSV, KEY_NO_HEADER, KEY_SCHEMA };

struct sql_args {
	const char *statement;
	bool json, csv, no_header, schema;
};

static const struct argp_option sql_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print a JSON array of objects", 0 },
	{ "csv", KEY_CSV, NULL, 0, "Print comma-separated values (RFC 4180)", 0 },
	{ "no-header", KEY_NO_HEADER, NULL, 0, "Leave out the names of the columns", 0 },
	{ "schema", KEY_SCHEMA, NULL, 0, "Print the tables and what their columns are", 0 },
	{ 0 },
};

static void check_args(const struct sql_args *args, const struct argp_state *state)
{
	if (args->json && args->csv)
		cli_usage_error(state, "either --json or --csv");
	if (args->json && args->no_header)
		cli_usage_error(state, "JSON has no header: --no-header goes with text or --csv");
	if (args->schema && (args->statement || args->csv || args->no_header))
		cli_usage_error(state, "--schema stands alone, or with --json");
	if (!args->schema && !args->statement)
		cli_usage_error(state, "which statement? 'SELECT …', or - to read it from stdin");
}

static error_t parse_sql_option(int key, char *arg, struct argp_state *state)
{
	struct sql_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_CSV:
		args->csv = true;
		return 0;
	case KEY_NO_HEADER:
		args->no_header = true;
		return 0;
	case KEY_SCHEMA:
		args->schema = true;
		return 0;
	case ARGP_KEY_ARG:
		if (args->statement)
			cli_usage_error(state,
					"'%s' is one word too many; the statement is one word: put "
					"it in quotes",
					arg);
		args->statement = arg;
		return 0;
	case ARGP_KEY_END:
		check_args(args, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp sql_argp = {
	.options = sql_options,
	.parser = parse_sql_option,
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
	json_key(&s->json, "columns");
	json_begin_array(&s->json);
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

/* Not where it is ignored, as in the background of a script: held back it would count. */
static void hold_interrupts(sigset_t *ret_before)
{
	struct sigaction action;
	sigset_t interrupts;

	sigemptyset(&interrupts);
	if (sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(&interrupts, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupts, ret_before);
}

static int print_rows(struct store *store, const char *statement, struct sql_printer *p,
		      struct err *err)
{
	CLEANUP(store_sql_close) struct store_sql *sql = NULL;
	int r = store_sql_open(store, statement, was_interrupted, NULL, &sql, err);

	if (r == 0)
		r = sql_printer_begin(p, sql, err);
	while (r == 0 && (r = store_sql_next(sql, err)) > 0)
		r = sql_printer_add_row(p, sql, err);
	return r < 0 ? r : sql_printer_end(p, err);
}

static int run_statement(struct store *store, const char *statement, const struct sql_args *args,
			 struct err *err)
{
	CLEANUP(sql_printer_release)
	struct sql_printer printer = {
		.format = args->json  ? SQL_AS_JSON
			  : args->csv ? SQL_AS_CSV
				      : SQL_AS_TEXT,
		.has_header = !args->no_header,
		.out = BUF_INIT,
		.cells = BUF_INIT,
	};
	sigset_t before;
	int r;

	signal(SIGPIPE, SIG_IGN);
	hold_interrupts(&before);
	r = print_rows(store, statement, &printer, err);
	if (r < 0)
		return r;
	sigprocmask(SIG_SETMASK, &before, NULL);
	r = outflow_finish(&printer.flow);
	return r < 0 ? err_set(err, r, "cannot write the output: %s", strerror(-r)) : 0;
}

static int ask(const struct sql_args *args, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	bool is_from_stdin = strcmp(args->statement, "-") == 0;
	struct paths paths;
	int r = is_from_stdin ? read_stdin(&text, err) : 0;

	if (r == 0)
		r = cli_find_paths_to_read(&paths, err);
	if (r == 0)
		r = cli_open_store(&paths, &store, err);
	if (r == 0)
		r = run_statement(store, is_from_stdin ? text.data : args->statement, args, err);
	return r;
}

int cli_sql(int argc, char **argv)
{
	struct sql_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&sql_argp, argc, argv, 0, &args);
	if (args.schema)
		return print_schema(args.json);
	r = ask(&args, &err);
	if (r == -EPIPE) /* a reader that has seen enough, as in "| head", is no news */
		return CLI_FAILED;
	if (r < 0)
		return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
	return CLI_DONE;
}
