#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/elsewhere_print.h"
#include "cli/output.h"
#include "cli/show_anomaly.h"

enum anomalies_key { KEY_JSON = 256, KEY_SINCE, KEY_UNTIL, KEY_JOB };

struct anomalies_args {
	bool json;
	struct anomaly_filter filter;
};

static const struct argp_option anomalies_options[] = {
	{ "job", KEY_JOB, "ID", 0, "Only those of this job", 0 },
	{ "since", KEY_SINCE, "TIME", 0, "Only what began in the last 30s, 5m, 2h, 7d", 0 },
	{ "until", KEY_UNTIL, "TIME", 0, "Only what began up to 30s, 5m, 2h, 7d ago", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print a JSON array", 0 },
	{ 0 },
};

static error_t parse_anomalies_option(int key, char *arg, struct argp_state *state)
{
	struct anomalies_args *args = state->input;

	switch (key) {
	case KEY_JOB:
		args->filter.job_id = cli_parse_job_id(state, arg);
		return 0;
	case KEY_SINCE:
		args->filter.since_wall_ns = cli_parse_ago(state, "--since", arg);
		return 0;
	case KEY_UNTIL:
		args->filter.until_wall_ns = cli_parse_ago(state, "--until", arg);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many; say --job %s", arg, arg);
		return 0;
	case ARGP_KEY_END:
		cli_check_period(state, args->filter.since_wall_ns, args->filter.until_wall_ns);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp anomalies_argp = {
	.options = anomalies_options,
	.parser = parse_anomalies_option,
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
	r = output_end(&p.out, r, err);
	output_release(&p.out);
	return r;
}

/* ---- what a daemon has recorded ---- */

static void read_episode(const struct rpc_value *row, struct episode *ret)
{
	const char *job_id = rpc_value_string(rpc_value_get(row, "job_id"));
	const char *text = rpc_value_string(rpc_value_get(row, "description"));
	const char *type = rpc_value_string(rpc_value_get(row, "anomaly_type"));
	const char *severity = rpc_value_string(rpc_value_get(row, "severity"));

	episode_init(ret);
	ret->began_wall_ns = elsewhere_time(row, "began");
	ret->ended_wall_ns = elsewhere_time(row, "ended");
	ret->seen_wall_ns = elsewhere_time(row, "as_of");
	ret->count = rpc_value_u64(rpc_value_get(row, "count"));
	ret->worst.job_id = job_id;
	snprintf(ret->worst.text, sizeof(ret->worst.text), "%s", text ? text : "-");
	if (type)
		(void)anomaly_type_from_name(type, &ret->worst.type);
	if (severity)
		(void)severity_from_name(severity, &ret->worst.severity);
}

static void add_elsewhere(struct buf *out, const struct rpc_value *row)
{
	struct episode e;

	read_episode(row, &e);
	show_anomaly(out, &e);
}

static int print_elsewhere(const struct anomalies_args *args)
{
	const struct elsewhere_question question = { .job_id = args->filter.job_id,
						     .since_wall_ns = args->filter.since_wall_ns,
						     .until_wall_ns = args->filter.until_wall_ns };
	const struct elsewhere_shape shape = { .json = args->json,
					       .is_list = true,
					       .add_titles = show_anomaly_titles,
					       .add_line = add_elsewhere,
					       .none = "no anomalies were recorded in that time" };

	return elsewhere_print(ELSEWHERE_ANOMALIES, &question, &shape);
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
		int printed = print_elsewhere(&args);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store && !args.json)
		return cli_fail(CLI_DONE, &err);
	return print_anomalies(store, &args, &err);
}
