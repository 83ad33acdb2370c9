#include <errno.h>
#include <limits.h>

#include "base/alive.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

struct attach_args {
	int pid;
	const char *job_id;
	bool json;
};

static const struct argp_option attach_options[] = {
	CLI_OPTION("pid", attach_args, pid, "PID",
		   "The process to attach, with all that it has started (required)"),
	CLI_OPTION("job", attach_args, job_id, "ID", "The job's id (required)"),
	CLI_OPTION("json", attach_args, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp attach_argp = {
	.options = attach_options,
	.parser = cli_parse_option,
	.args_doc = "--pid=PID --job=ID",
	.doc = "Makes a process that something else started, and all below it, a job.\v"
	       "The daemon records it from now on, and its end when the last of its processes is "
	       "gone. How it ended is known only where the kernel tells of it.",
};

int cli_attach(int argc, char **argv)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(buf_release) struct buf out = BUF_INIT, params = BUF_INIT;
	struct attach_args args = { 0 };
	struct err err = ERR_INIT;
	struct json j;
	int r;

	cli_parse(&attach_argp, argc, argv, 0, &args);
	if (!args.pid)
		cli_reject(argv, "which process? say --pid PID");
	if (!args.job_id)
		cli_reject(argv, "as which job? say --job ID");
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_i64(&j, "pid", args.pid);
	json_key_string(&j, "job_id", args.job_id);
	json_end_object(&j);
	r = cli_call("job.attach", params.data, &answer, &err);
	if (r < 0)
		return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
	/* It may be meant; but mostly somebody has looked for the wrong pid. */
	if (proc_is_ancestor(args.pid))
		log_warning("process %d has started this very command: all that it starts from now "
			    "on is of the job %s, and canceling that ends it",
			    args.pid, args.job_id);
	if (!args.json)
		return CLI_DONE;
	json_init(&j, &out);
	rpc_value_write(answer, &j);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}
