#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/output.h"

struct anomalies_args {
	bool json;
	struct anomaly_filter filter;
};

static const struct argp_option anomalies_options[] = {
	CLI_OPTION("job", anomalies_args, filter.job_id, "ID", "Only those of this job"),
	CLI_OPTION("since", anomalies_args, filter.since_wall_ns, "TIME",
		   "Only what began in the last 30s, 5m, 2h, 7d"),
	CLI_OPTION("until", anomalies_args, filter.until_wall_ns, "TIME",
		   "Only what began up to 30s, 5m, 2h, 7d ago"),
	CLI_OPTION("json", anomalies_args, json, NULL, "Print a JSON array"),
	{ 0 },
};

static const struct argp anomalies_argp = {
	.options = anomalies_options,
	.parser = cli_parse_option,
	.doc = "Prints what was out of the ordinary, oldest first: when it began, how long it lasted, how "
	       "bad it was at its worst, and whose it was. What lasts has the numbers of the time that "
	       "stands behind it; \">\" stands before a time where nobody saw the end.",
};

struct printer {
	bool json;
	struct output out;
	struct json j;
	size_t n_rows;
};

static int on_anomaly(void *ctx, const struct anomaly_row *row)
{
	struct printer *p = ctx;

	if (p->json)
		show_anomaly_json(&p->j, &row->episode, row->attempt_num);
	else if (p->n_rows == 0)
		show_anomaly_titles(&p->out.buf);
	if (!p->json)
		show_anomaly(&p->out.buf, &row->episode);
	p->n_rows++;
	return output_pass(&p->out);
}

/* store NULL: nothing was ever recorded. */
static int print_anomalies(struct store *store, const struct anomalies_args *args, struct err *err)
{
	struct printer p = { .json = args->json, .out = OUTPUT_INIT };
	int r = output_open(&p.out, NULL, err);

	json_init(&p.j, &p.out.buf);
	if (args->json)
		json_begin_array(&p.j);
	if (r == 0 && store)
		r = store_read_anomalies(store, &args->filter, on_anomaly, &p, err);
	if (r == 0 && args->json) {
		json_end_array(&p.j);
		buf_add_char(&p.out.buf, '\n');
	} else if (r == 0 && p.n_rows == 0) {
		log_error("no anomalies were recorded in that time");
	}
	return output_end(&p.out, r, err);
}

/* ---- what a daemon has recorded ---- */

static void add_remote(struct buf *out, const struct rpc_value *row)
{
	const char *text = remote_text(row, "description");
	const char *type = remote_text(row, "anomaly_type");
	const char *severity = remote_text(row, "severity");
	struct episode e;

	episode_init(&e);
	e.began_wall_ns = remote_time(row, "began");
	e.ended_wall_ns = remote_time(row, "ended");
	e.seen_wall_ns = remote_time(row, "as_of");
	e.count = rpc_value_u64(rpc_value_get(row, "count"));
	e.worst.job_id = remote_text(row, "job_id");
	snprintf(e.worst.text, sizeof(e.worst.text), "%s", text ? text : "-");
	if (type)
		(void)anomaly_type_from_name(type, &e.worst.type);
	if (severity)
		(void)severity_from_name(severity, &e.worst.severity);
	show_anomaly(out, &e);
}

static int print_remote(const struct anomalies_args *args)
{
	const struct remote_question question = { .job_id = args->filter.job_id,
						  .since_wall_ns = args->filter.since_wall_ns,
						  .until_wall_ns = args->filter.until_wall_ns };
	const struct remote_shape shape = { .json = args->json,
					    .is_list = true,
					    .add_titles = show_anomaly_titles,
					    .add_line = add_remote,
					    .none = "no anomalies were recorded in that time" };

	return remote_print(REMOTE_ANOMALIES, &question, &shape);
}

int cli_anomalies(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct anomalies_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&anomalies_argp, argc, argv, 0, &args);
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r == -ENOENT || (r == 0 && !store)) {
		int printed = print_remote(&args);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store && !args.json)
		return cli_fail(CLI_DONE, &err);
	return print_anomalies(store, &args, &err);
}
