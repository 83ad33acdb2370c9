#include <errno.h>

#include "base/clock.h"
#include "base/csv.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/elsewhere_print.h"
#include "cli/history_minutes.h"
#include "cli/output.h"
#include "cli/show.h"
#include "report/report.h"

enum history_key { KEY_JSON = 256, KEY_CSV, KEY_SINCE, KEY_UNTIL, KEY_PID, KEY_JOB, KEY_MINUTES };

struct history_args {
	bool json, csv, minutes;
	struct history_filter filter;
};

static const struct argp_option history_options[] = {
	{ "job", KEY_JOB, "ID", 0, "Samples of this job's processes", 0 },
	{ "pid", KEY_PID, "PID", 0, "Samples of this process", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only of the last 30s, 5m, 2h, 7d", 0 },
	{ "until", KEY_UNTIL, "TIME", 0, "Only up to 30s, 5m, 2h, 7d ago", 0 },
	{ "minutes", KEY_MINUTES, NULL, 0,
	  "A minute at a time, with average, least and largest; also of what is older than a day",
	  0 },
	{ "json", KEY_JSON, NULL, 0, "Print a JSON array", 0 },
	{ "csv", KEY_CSV, NULL, 0, "Print comma-separated values with a heading", 0 },
	{ 0 },
};

static error_t parse_history_option(int key, char *arg, struct argp_state *state)
{
	struct history_args *args = state->input;

	switch (key) {
	case KEY_JOB:
		args->filter.job_id = cli_parse_job_id(state, arg);
		return 0;
	case KEY_PID:
		args->filter.pid = cli_parse_int(state, "--pid", arg, 1, INT32_MAX);
		return 0;
	case KEY_SINCE:
		args->filter.since_wall_ns = cli_parse_ago(state, "--since", arg);
		return 0;
	case KEY_UNTIL:
		args->filter.until_wall_ns = cli_parse_ago(state, "--until", arg);
		return 0;
	case KEY_MINUTES:
		args->minutes = true;
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
		if (args->minutes && args->csv)
			cli_usage_error(state, "--minutes goes with --json, not with --csv");
		if (args->json && args->csv)
			cli_usage_error(state, "either --json or --csv");
		cli_check_period(state, args->filter.since_wall_ns, args->filter.until_wall_ns);
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
	struct output out;
	struct json json;
	struct csv csv;
	size_t n_rows;
	uint64_t first_wall_ns; /* of the first of them */
};

static void add_json(struct printer *p, const struct history_row *row)
{
	json_begin_object(&p->json);
	json_key_f64(&p->json, "timestamp", clock_ns_to_seconds(row->wall_ns));
	json_key_i64(&p->json, "attempt", row->attempt_num);
	proc_sample_write_fields(&p->json, &row->sample);
	json_end_object(&p->json);
}

static void add_csv(struct printer *p, const struct history_row *row)
{
	report_csv_sample(&p->csv, row->wall_ns, row->resolution_seconds, row->n_samples,
			  row->attempt_num, &row->sample);
}

static void add_titles(struct buf *out)
{
	buf_add_str(out, "TIME                     ATTEMPT      PID  S    CPU%       RSS    FDS"
			 "  COMMAND\n");
}

static void add_line(struct buf *out, const struct history_row *row)
{
	CLEANUP(buf_release) struct buf cell = BUF_INIT;
	const struct proc_sample *s = &row->sample;

	show_moment(out, row->wall_ns);
	buf_printf(out, "  %7d  %7d  %c  ", row->attempt_num, (int)s->key.pid, s->state);
	if (f64_known(s->cpu_percent))
		buf_printf(&cell, "%.1f", s->cpu_percent);
	else
		buf_add_char(&cell, '-');
	show_cell(out, &cell, 6);
	report_add_bytes(&cell, s->rss_bytes);
	show_cell(out, &cell, 8);
	if (u64_known(s->open_fds))
		buf_printf(&cell, "%llu", (unsigned long long)s->open_fds);
	else
		buf_add_char(&cell, '-');
	show_cell(out, &cell, 5);
	cli_add_text(out, s->command ? s->command : "-", 60);
	buf_add_char(out, '\n');
}

static int on_row(void *ctx, const struct history_row *row)
{
	struct printer *p = ctx;

	if (p->n_rows == 0)
		p->first_wall_ns = row->wall_ns;
	if (p->n_rows++ == 0 && !p->args->json && !p->args->csv)
		add_titles(&p->out.buf);
	if (p->args->json)
		add_json(p, row);
	else if (p->args->csv)
		add_csv(p, row);
	else
		add_line(&p->out.buf, row);
	return output_pass(&p->out);
}

static void begin(struct printer *p)
{
	json_init(&p->json, &p->out.buf);
	csv_init(&p->csv, &p->out.buf);
	p->csv.is_shown = output_is_terminal(&p->out);
	if (p->args->json)
		json_begin_array(&p->json);
	else if (p->args->csv)
		report_csv_heading(&p->csv, REPORT_SAMPLES);
}

static void end(struct printer *p)
{
	if (!p->args->json)
		return;
	json_end_array(&p->json);
	buf_add_char(&p->out.buf, '\n');
}

static int print_history(struct store *store, const struct history_args *args, struct err *err)
{
	struct printer printer = { .args = args, .out = OUTPUT_INIT };
	int r = output_open(&printer.out, NULL, err);

	begin(&printer);
	if (r == 0)
		r = store_read_history(store, &args->filter, on_row, &printer, err);
	end(&printer);
	r = output_end(&printer.out, r, err);
	output_release(&printer.out);
	if (r == CLI_DONE && printer.n_rows > 0)
		history_tell_older(store, &args->filter, printer.first_wall_ns);
	if (r != CLI_DONE || printer.n_rows > 0)
		return r;
	return history_tell_none(store, &args->filter);
}

/* ---- what a daemon has recorded ---- */

static void add_elsewhere(struct buf *out, const struct rpc_value *row)
{
	const char *state = rpc_value_string(rpc_value_get(row, "state"));
	double rss_mb = rpc_value_f64(rpc_value_get(row, "rss_mb"));
	struct history_row sample = { .wall_ns = elsewhere_time(row, "timestamp"),
				      .attempt_num = elsewhere_int(row, "attempt", 0) };

	proc_sample_init(&sample.sample);
	sample.sample.key.pid = elsewhere_int(row, "pid", 0);
	sample.sample.state = state && state[0] ? state[0] : '-';
	sample.sample.cpu_percent = rpc_value_f64(rpc_value_get(row, "cpu_percent"));
	if (rss_mb >= 0 && rss_mb < 1e12)
		sample.sample.rss_bytes = (uint64_t)(rss_mb * 1048576.0);
	sample.sample.open_fds = rpc_value_u64(rpc_value_get(row, "open_fds"));
	sample.sample.command = rpc_value_string(rpc_value_get(row, "command"));
	add_line(out, &sample);
}

static int skip_row(void *ctx, const struct rpc_value *row)
{
	(void)ctx;
	(void)row;
	return 0;
}

static bool is_elsewhere(const char *job_id)
{
	const struct elsewhere_question question = { .job_id = job_id, .limit = 1 };

	return elsewhere_read(ELSEWHERE_ATTEMPTS, &question, skip_row, NULL, NULL) == 0;
}

static int print_elsewhere(const struct history_args *args)
{
	const struct elsewhere_question question = { .job_id = args->filter.job_id,
						     .pid = args->filter.pid,
						     .since_wall_ns = args->filter.since_wall_ns,
						     .until_wall_ns = args->filter.until_wall_ns };
	const struct elsewhere_shape shape = { .json = args->json,
					       .is_list = true,
					       .add_titles = add_titles,
					       .add_line = add_elsewhere,
					       .none = "no samples were recorded in that time" };
	struct err err = ERR_INIT;

	if (!args->filter.job_id)
		return -ENOENT;
	if (!args->minutes && !args->csv)
		return elsewhere_print(ELSEWHERE_SAMPLES, &question, &shape);
	if (!is_elsewhere(args->filter.job_id))
		return -ENOENT;
	err_set(&err, -EOPNOTSUPP,
		"no job %s is in your own record: of one that a daemon has recorded there are "
		"samples alone, as a table or with --json",
		args->filter.job_id);
	return cli_fail(CLI_FAILED, &err);
}

int cli_history(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct history_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&history_argp, argc, argv, 0, &args);
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r == -ENOENT) {
		int printed = print_elsewhere(&args);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0 || !store)
		return cli_fail(CLI_FAILED, &err);
	return args.minutes ? history_print_minutes(store, &args.filter, args.json, &err)
			    : print_history(store, &args, &err);
}
