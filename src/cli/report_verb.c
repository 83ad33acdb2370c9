#include <errno.h>

#include "cli/cli.h"
#include "query/query.h"
#include "report/report.h"
#include "rpc/rpc.h"

struct report_args {
	const char *job_id;
	int attempt_num; /* 0: the latest */
	enum report_format format;
	bool json;
};

static const struct argp_option report_options[] = {
	CLI_CHOICE("format", report_args, format, "FORMAT", "text, json, md or html (text)"),
	CLI_OPTION("json", report_args, json, NULL, "The same as --format json"),
	CLI_WORD(report_args, job_id, "which job? \"proctor jobs\" lists them"),
	CLI_OPTION("attempt", report_args, attempt_num, "N",
		   "The job's Nth attempt instead of its latest"),
	{ 0 },
};

static const struct argp report_argp = {
	.options = report_options,
	.args_doc = "JOB",
	.doc = "Prints what a job used, how it ended, on what evidence, and what could not be measured.",
};

/* So many that have ended since the last look, where no daemon does it: a report is no long work.
 */
#define MAX_CAUGHT_UP 256

/* For what it says of runs like this one. Who may not write goes without those. */
static void catch_up(const struct paths *paths)
{
	struct store *store = NULL;
	struct err err = ERR_INIT;

	if (cli_open_store(paths, STORE_WRITE, &store, &err) < 0)
		return;
	learning_catch_up(store, MAX_CAUGHT_UP, NULL, &err);
	store_close(store); /* what is damaged in it the report tells */
}

/* One that is not in our own record may be in a daemon's: what was attached is there alone. */
static int ask_daemon(const struct report_args *args, struct buf *out)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf question = BUF_INIT;
	struct json j;
	int r;

	json_init_object(&j, &question);
	json_key_string(&j, "job_id", args->job_id);
	json_key_i64(&j, "attempt", args->attempt_num);
	json_key_string(&j, "format", report_format_name(args->format));
	json_end_object(&j);
	r = cli_call("job.report", question.data, &answer, NULL);
	if (r < 0)
		return r;
	if (rpc_value_is_string(answer)) {
		buf_add_str(out, rpc_value_string(answer));
		return 0;
	}
	json_init(&j, out);
	rpc_value_write(answer, &j);
	buf_add_char(out, '\n');
	return 0;
}

int cli_read_judged(const char *job_id, int attempt_num, struct store **ret_store,
		    struct attempt *ret, struct err *err)
{
	struct paths paths;
	int r = cli_find_paths_to_read(&paths, err);

	if (r == 0)
		catch_up(&paths);
	if (r == 0)
		r = cli_open_store(&paths, STORE_READ, ret_store, err);
	if (r == 0)
		r = store_read_attempt(*ret_store, job_id, attempt_num, ret, err);
	if (r == 0)
		r = recorded_ranks_judge(*ret_store, ret, err);
	return r == 0 ? learning_judge_standing(*ret_store, ret, false, err) : r;
}

int cli_report(int argc, char **argv)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(attempt_release) struct attempt attempt;
	struct report_args args = { .format = REPORT_TEXT };
	struct err err = ERR_INIT;
	int r;

	attempt_init(&attempt);
	cli_parse(&report_argp, argc, argv, 0, &args);
	args.format = args.json ? REPORT_JSON : args.format;
	r = cli_read_judged(args.job_id, args.attempt_num, &store, &attempt, &err);
	if (r == 0)
		r = report_write(&attempt, args.format, &out);
	else if (r == -ENOENT && ask_daemon(&args, &out) == 0)
		r = 0;
	if (r == -ENOMEM)
		err_set(&err, r, "out of memory");
	return r < 0 ? cli_fail(CLI_FAILED, &err) : cli_print(&out);
}
