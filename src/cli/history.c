#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "report/report.h"

#define FLUSH_BYTES 65536

enum history_key { KEY_JSON = 256, KEY_CSV, KEY_SINCE, KEY_PID, KEY_JOB };

struct history_args {
	bool json, csv;
	struct history_filter filter;
};

static const struct argp_option history_options[] = {
	{ "job", KEY_JOB, "ID", 0, "Samples of this job's processes", 0 },
	{ "pid", KEY_PID, "PID", 0, "Samples of this process", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only of the last 30s, 5m, 2h, 7d", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print a JSON array", 0 },
	{ "csv", KEY_CSV, NULL, 0, "Print comma-separated values with a heading", 0 },
	{ 0 },
};

static error_t parse_history_option(int key, char *arg, struct argp_state *state)
{
	struct history_args *args = state->input;

	switch (key) {
	case KEY_JOB:
		args->filter.job_id = arg;
		return 0;
	case KEY_PID:
		args->filter.pid = cli_parse_int(state, "--pid", arg, 1, INT32_MAX);
		return 0;
	case KEY_SINCE:
		args->filter.since_wall_ns =
			cli_time_ago(cli_parse_duration(state, "--since", arg));
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case KEY_CSV:
		args->csv = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --job %s or --pid %s", arg,
				arg, arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->filter.job_id && !args->filter.pid)
			cli_usage_error(state, "whose history? --job ID or --pid PID");
		if (args->json && args->csv)
			cli_usage_error(state, "either --json or --csv");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp history_argp = {
	.options = history_options,
	.parser = parse_history_option,
	.doc = "Prints recorded samples, oldest first.",
};

/* Rows are written as they come: a history may be larger than memory. */
struct printer {
	const struct history_args *args;
	struct buf out;
	struct json json;
	size_t n_rows;
};

static int flush(struct printer *p)
{
	int r = buf_error(&p->out);

	if (r == 0)
		r = io_write_all(STDOUT_FILENO, p->out.data, p->out.len);
	buf_reset(&p->out);
	return r;
}

static void add_json(struct printer *p, const struct history_row *row)
{
	json_begin_object(&p->json);
	json_key_f64(&p->json, "timestamp", clock_ns_to_seconds(row->wall_ns));
	json_key_i64(&p->json, "attempt", row->attempt_num);
	proc_sample_write_fields(&p->json, &row->sample);
	json_end_object(&p->json);
}

/* CSV: quoted where it must be; unknown is an empty field. */
static void add_csv_text(struct buf *out, const char *text)
{
	buf_add_char(out, '"');
	for (; text && *text; text++) {
		if (*text == '"')
			buf_add_char(out, '"');
		buf_add_char(out, *text);
	}
	buf_add_char(out, '"');
}

static void add_csv_u64(struct buf *out, uint64_t v)
{
	buf_add_char(out, ',');
	if (u64_known(v))
		buf_printf(out, "%llu", (unsigned long long)v);
}

static void add_csv(struct buf *out, const struct history_row *row)
{
	const struct proc_sample *s = &row->sample;

	buf_printf(out, "%.6f,", clock_ns_to_seconds(row->wall_ns));
	add_csv_text(out, s->job_id);
	buf_printf(out, ",%d", row->attempt_num);
	add_csv_u64(out, s->sheet_num < 0 ? U64_UNKNOWN : (uint64_t)s->sheet_num);
	buf_printf(out, ",%d,%d,%c,", (int)s->key.pid, (int)s->ppid, s->state);
	if (f64_known(s->cpu_percent))
		buf_printf(out, "%.2f", s->cpu_percent);
	add_csv_u64(out, s->rss_bytes);
	add_csv_u64(out, s->vms_bytes);
	add_csv_u64(out, s->threads);
	add_csv_u64(out, s->open_fds);
	add_csv_u64(out, s->read_bytes);
	add_csv_u64(out, s->write_bytes);
	buf_add_char(out, ',');
	add_csv_text(out, s->command);
	buf_add_char(out, '\n');
}

static void add_text_cell(struct buf *out, struct buf *cell, size_t width)
{
	for (size_t n = cell->len; n < width; n++)
		buf_add_char(out, ' ');
	buf_add(out, cell->data, cell->len);
	buf_add_str(out, "  ");
	buf_reset(cell);
}

static void add_table_row(struct buf *out, const struct history_row *row)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const struct proc_sample *s = &row->sample;
	char when[32];

	clock_format_local(row->wall_ns, when, sizeof(when));
	buf_printf(out, "%s.%03u  %7d  %c  ", when, (unsigned)(row->wall_ns / 1000000u % 1000u),
		   (int)s->key.pid, s->state);
	if (f64_known(s->cpu_percent))
		buf_printf(&cell, "%.1f", s->cpu_percent);
	else
		buf_add_char(&cell, '-');
	add_text_cell(out, &cell, 6);
	report_add_bytes(&cell, s->rss_bytes);
	add_text_cell(out, &cell, 8);
	if (u64_known(s->open_fds))
		buf_printf(&cell, "%llu", (unsigned long long)s->open_fds);
	else
		buf_add_char(&cell, '-');
	add_text_cell(out, &cell, 5);
	cli_add_text(out, s->command ? s->command : "-", 60);
	buf_add_char(out, '\n');
}

static int on_row(void *ctx, const struct history_row *row)
{
	struct printer *p = ctx;

	p->n_rows++;
	if (p->args->json)
		add_json(p, row);
	else if (p->args->csv)
		add_csv(&p->out, row);
	else
		add_table_row(&p->out, row);
	return p->out.len > FLUSH_BYTES ? flush(p) : 0;
}

static void begin(struct printer *p)
{
	json_init(&p->json, &p->out);
	if (p->args->json)
		json_begin_array(&p->json);
	else if (p->args->csv)
		buf_add_str(
			&p->out,
			"timestamp,job_id,attempt,sheet_num,pid,ppid,state,cpu_percent,rss_bytes,"
			"vms_bytes,threads,open_fds,read_bytes,write_bytes,command\n");
	else
		buf_add_str(
			&p->out,
			"TIME                         PID  S    CPU%       RSS    FDS  COMMAND\n");
}

static void end(struct printer *p)
{
	if (!p->args->json)
		return;
	json_end_array(&p->json);
	buf_add_char(&p->out, '\n');
}

static int print_history(struct store *store, const struct history_args *args, struct err *err)
{
	struct printer printer = { .args = args, .out = BUF_INIT };
	int r;

	begin(&printer);
	r = store_read_history(store, &args->filter, on_row, &printer, err);
	if (r == 0) {
		end(&printer);
		r = flush(&printer);
	}
	if (r == 0 && printer.n_rows == 0 && !args->json && !args->csv)
		r = err_set(err, -ENOENT, "no samples of that were recorded");
	if (r < 0 && !err->code)
		err_set(err, r, "cannot write the output: %s", strerror(-r));
	buf_release(&printer.out);
	return r;
}

int cli_history(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct history_args args = { 0 };
	struct err err = ERR_INIT;
	struct paths paths;
	int r;

	cli_parse(&history_argp, argc, argv, 0, &args);
	r = paths_find(&paths, &err);
	if (r == 0)
		r = cli_open_store(&paths, &store, &err);
	if (r == 0)
		r = print_history(store, &args, &err);
	return r < 0 ? cli_fail(CLI_FAILED, &err) : CLI_DONE;
}
