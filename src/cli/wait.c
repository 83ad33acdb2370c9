#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

/* "wait" and "cancel": a verb, a job, an answer. */

enum job_key { KEY_JSON = 256 };

struct job_args {
	const char *job_id;
	bool json;
};

static const struct argp_option job_options[] = {
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static error_t parse_job_option(int key, char *arg, struct argp_state *state)
{
	struct job_args *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (args->job_id)
			cli_usage_error(state, "one job at a time, not also '%s'", arg);
		args->job_id = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->job_id)
			cli_usage_error(state, "which job? \"proctor jobs\" lists them");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp wait_argp = {
	.options = job_options,
	.parser = parse_job_option,
	.args_doc = "JOB",
	.doc = "Waits until a job is over, and tells how it ended.\v"
	       "Exits with 0 if that was success, else with 1.",
};

static const struct argp cancel_argp = {
	.options = job_options,
	.parser = parse_job_option,
	.args_doc = "JOB",
	.doc = "Ends a job: its processes get SIGTERM, and what is left of them SIGKILL.",
};

/* However long it takes. */
static int ask(const char *method, const char *job_id, struct rpc_value **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	struct json j;
	int r = rpc_client_open(&options, &client, err);

	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job_id);
	json_end_object(&j);
	if (r == 0) {
		rpc_client_set_timeout(client, RPC_FOREVER);
		r = rpc_client_call(client, method, params.data, ret, err);
	}
	rpc_client_close(client);
	return r;
}

static void write_json(const struct rpc_value *answer, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	rpc_value_write(answer, &j);
	buf_add_char(out, '\n');
}

/* Its runner vanished, or nobody told how it ended. */
static const char *name_of_no_outcome(const struct rpc_value *answer)
{
	return rpc_value_bool(rpc_value_get(answer, "lost"), false) ? "lost" : "unknown";
}

int cli_wait(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct job_args args = { 0 };
	struct err err = ERR_INIT;
	const char *outcome;
	int status;

	cli_parse(&wait_argp, argc, argv, 0, &args);
	if (ask("job.wait", args.job_id, &answer, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	outcome = rpc_value_string(rpc_value_get(answer, "outcome"));
	if (args.json)
		write_json(answer, &out);
	else
		buf_printf(&out, "%s %s\n", args.job_id,
			   outcome ? outcome : name_of_no_outcome(answer));
	status = cli_print(&out);
	return status != CLI_DONE || !outcome || strcmp(outcome, "success") != 0 ? CLI_FAILED
										 : CLI_DONE;
}

int cli_cancel(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct job_args args = { 0 };
	struct err err = ERR_INIT;

	cli_parse(&cancel_argp, argc, argv, 0, &args);
	if (ask("job.cancel", args.job_id, &answer, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!args.json)
		return CLI_DONE;
	write_json(answer, &out);
	return cli_print(&out);
}
