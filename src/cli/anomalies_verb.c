#include <errno.h>
#include <stdio.h>

#include "base/json.h"
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
	.doc = "Prints what was out of the ordinary, oldest first: when it began, how long it lasted, how "
	       "bad it was at its worst, and whose it was. What lasts has the numbers of the time that "
	       "stands behind it; \">\" stands before a time where nobody saw the end.",
};

#define NONE "no anomalies were recorded in that time"

static int on_anomaly(void *ctx, const struct anomaly_row *row)
{
	return lister_add_anomaly(ctx, &row->episode, row->attempt_num);
}

/* One that a daemon has recorded. */
static int add_remote(struct lister *l, const struct rpc_value *row)
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
	return lister_add_anomaly(l, &e, 0);
}

int cli_anomalies(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	struct lister l = LISTER_INIT(LISTER_TABLE, anomaly_list_columns);
	struct anomalies_args args = { 0 };
	struct err err = ERR_INIT;
	int r;

	cli_parse(&anomalies_argp, argc, argv, 0, &args);
	l.form = args.json ? LISTER_ARRAY : LISTER_TABLE;
	r = cli_open_record(args.filter.job_id, &store, &err);
	if (r == -ENOENT || (r == 0 && !store)) {
		const struct remote_question question = { .job_id = args.filter.job_id,
							  .since_wall_ns =
								  args.filter.since_wall_ns,
							  .until_wall_ns =
								  args.filter.until_wall_ns };
		int printed = remote_print(REMOTE_ANOMALIES, &question, &l, add_remote, NONE);

		if (printed != -ENOENT)
			return printed;
	}
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!store && !args.json)
		return cli_fail(CLI_DONE, &err);
	r = lister_open(&l, &err);
	if (r == 0 && store)
		r = store_read_anomalies(store, &args.filter, on_anomaly, &l, &err);
	return lister_end(&l, r, NONE, &err);
}
