#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "cli/cancel_alone.h"
#include "cli/cli.h"
#include "cli/job_question.h"
#include "rpc/rpc.h"

#define START_PATIENCE_NS UINT64_C(5000000000) /* a runner begins within this */

static const struct argp_option cancel_options[] = {
	{ "attempt", JOB_QUESTION_ATTEMPT, "N", 0,
	  "Only this attempt of it, as \"jobs\" numbers them, and not all that run", 0 },
	{ "queued", JOB_QUESTION_QUEUED, NULL, 0, "Only what waits of it, and nothing that runs",
	  0 },
	{ "user", JOB_QUESTION_USER, "USER", 0,
	  "The job of this user, where several have one of that name", 0 },
	{ "json", JOB_QUESTION_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static const struct argp cancel_argp = {
	.options = cancel_options,
	.parser = job_question_parse,
	.args_doc = "JOB",
	.doc = "Ends a job: its processes get SIGTERM, and what is left of them SIGKILL.\v"
	       "All attempts of it that run are ended, and what waits of it never begins; more "
	       "than one that runs, and it says how many. "
	       "Without a daemon what waits is left, and said to be. "
	       "Who may end the jobs of others, and has none of that name, says whose if several "
	       "users have one: by --user, or by --attempt.",
};

static void write_json(const struct rpc_value *answer, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	rpc_value_write(answer, &j);
	buf_add_char(out, '\n');
}

/* As a daemon answers. */
static void write_cancelling(struct buf *out, const char *job_id, size_t n)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job_id);
	json_key_bool(&j, "cancelling", true);
	json_key_u64(&j, "attempts", n);
	json_end_object(&j);
	buf_add_char(out, '\n');
}

static int cancel_without(const struct job_question *args, uint64_t *ret_n, struct buf *json,
			  struct err *err)
{
	const struct cancel_question question = {
		.job_id = args->job_id,
		.attempt_num = args->attempt,
		.uid = args->uid,
		.only_queued = args->only_queued,
	};
	size_t n = 0;
	int r = cancel_alone(&question, &n, err);

	*ret_n = n;
	write_cancelling(json, args->job_id, n);
	return r;
}

/* A job that was submitted just now has no runner yet that could be told: it will. */
static int cancel_patiently(struct rpc_client *client, const struct job_question *args,
			    struct rpc_value **ret, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	uint64_t until_ns = clock_boot_ns() + START_PATIENCE_NS;
	int r;

	while ((r = job_question_ask(client, "job.cancel", args, ret, err)) == -EBUSY &&
	       clock_boot_ns() < until_ns)
		nanosleep(&pause, NULL);
	return r;
}

/* How many attempts are being ended, and the same in JSON. */
static int cancel(const struct job_question *args, uint64_t *ret_n, struct buf *json,
		  struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == -ENOENT)
		return cancel_without(args, ret_n, json, err);
	if (r == 0)
		r = cancel_patiently(client, args, &answer, err);
	if (r == 0) {
		*ret_n = rpc_value_u64(rpc_value_get(answer, "attempts"));
		write_json(answer, json);
	}
	rpc_client_close(client);
	return r;
}

int cli_cancel(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf json = BUF_INIT;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct job_question args = JOB_QUESTION_INIT;
	struct err err = ERR_INIT;
	uint64_t n = U64_UNKNOWN;

	args.must_be_sure = true;
	cli_parse(&cancel_argp, argc, argv, 0, &args);
	if (cancel(&args, &n, &json, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (args.json)
		return cli_print(&json);
	if (u64_known(n) && n > 1) /* more than who has one job in mind thinks of */
		buf_printf(&out, "%llu attempts of %s are being ended\n", (unsigned long long)n,
			   args.job_id);
	return out.len > 0 ? cli_print(&out) : CLI_DONE;
}
