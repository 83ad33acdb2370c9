#include <errno.h>
#include <limits.h>

#include "base/alive.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

enum attach_key { KEY_PID = 256, KEY_JOB, KEY_JSON };

struct attach_args {
	int pid;
	const char *job_id;
	bool json;
};

static const struct argp_option attach_options[] = {
	{ "pid", KEY_PID, "PID", 0,
	  "The process to attach, with all that it has started (required)", 0 },
	{ "job", KEY_JOB, "ID", 0, "The job's id (required)", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static error_t parse_attach_option(int key, char *arg, struct argp_state *state)
{
	struct attach_args *args = state->input;

	switch (key) {
	case KEY_PID:
		args->pid = cli_parse_int(state, "--pid", arg, 1, INT_MAX);
		return 0;
	case KEY_JOB:
		args->job_id = cli_parse_job_id(state, arg);
		return 0;
	case KEY_JSON:
		args->json = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many", arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->pid)
			cli_usage_error(state, "which process? say --pid PID");
		if (!args->job_id)
			cli_usage_error(state, "as which job? say --job ID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp attach_argp = {
	.options = attach_options,
	.parser = parse_attach_option,
	.args_doc = "--pid=PID --job=ID",
	.doc = "Makes a process that something else started, and all below it, a job.\v"
	       "The daemon records it from now on, and its end when the last of its processes is "
	       "gone. How it ended is known only where the kernel tells of it.",
};

static int ask(const struct attach_args *args, struct rpc_value **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;

	json_init(&j, &params);
	json_begin_object(&j);
	json_key_i64(&j, "pid", args->pid);
	json_key_string(&j, "job_id", args->job_id);
	json_end_object(&j);
	return cli_call("job.attach", params.data, ret, err);
}

/* It may be meant; but mostly somebody has looked for the wrong pid. */
static void warn_of_own(const struct attach_args *args)
{
	if (proc_is_ancestor(args->pid))
		log_warning("process %d has started this very command: all that it starts from now "
			    "on is of the job %s, and canceling that ends it",
			    args->pid, args->job_id);
}

int cli_attach(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct attach_args args = { 0 };
	struct err err = ERR_INIT;
	struct json j;
	int r;

	cli_parse(&attach_argp, argc, argv, 0, &args);
	r = ask(&args, &answer, &err);
	if (r < 0)
		return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
	warn_of_own(&args);
	if (!args.json)
		return CLI_DONE;
	json_init(&j, &out);
	rpc_value_write(answer, &j);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}
