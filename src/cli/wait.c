#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/cancel_alone.h"
#include "cli/cli.h"
#include "cli/jobs_merge.h"
#include "cli/users.h"
#include "rpc/rpc.h"

/* "wait" and "cancel": a verb, a job, an answer. */

#define PATIENCE_NS UINT64_C(30000000000)

enum job_key { KEY_JSON = 256, KEY_ATTEMPT, KEY_QUEUED, KEY_USER };

struct job_args {
	const char *job_id;
	int attempt;  /* 0: the last, or to cancel: all that run */
	uint64_t uid; /* whose; U64_UNKNOWN: one's own, or the only one */
	bool only_queued;
	bool must_be_sure; /* of the number: the attempt is ended */
	bool json;
};

#define JOB_ARGS_INIT              \
	{                          \
		.uid = U64_UNKNOWN \
	}

static const struct argp_option wait_options[] = {
	{ "attempt", KEY_ATTEMPT, "N", 0,
	  "This attempt of it, as \"jobs\" numbers them, instead of the last", 0 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 0 },
	{ 0 },
};

static const struct argp_option cancel_options[] = {
	{ "attempt", KEY_ATTEMPT, "N", 0,
	  "Only this attempt of it, as \"jobs\" numbers them, and not all that run", 0 },
	{ "queued", KEY_QUEUED, NULL, 0, "Only what waits of it, and nothing that runs", 0 },
	{ "user", KEY_USER, "USER", 0, "The job of this user, where several have one of that name",
	  0 },
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
	case KEY_ATTEMPT:
		args->attempt = cli_parse_int(state, "--attempt", arg, 1, INT32_MAX);
		return 0;
	case KEY_QUEUED:
		args->only_queued = true;
		return 0;
	case KEY_USER:
		args->uid = users_parse(state, "--user", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (args->job_id)
			cli_usage_error(state, "one job at a time, not also '%s'", arg);
		args->job_id = cli_parse_job_id(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->job_id)
			cli_usage_error(state, "which job? \"proctor jobs\" lists them");
		if (args->only_queued && args->attempt > 0)
			cli_usage_error(state, "--attempt or --queued, not both: what waits has "
					       "no number yet");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp wait_argp = {
	.options = wait_options,
	.parser = parse_job_option,
	.args_doc = "JOB",
	.doc = "Waits until a job is over, and tells how it ended.\v"
	       "Exits with 0 if that was success, else with 1; with 3 if the daemon went away "
	       "meanwhile, and none came back within 30 seconds: then nobody can tell.",
};

static const struct argp cancel_argp = {
	.options = cancel_options,
	.parser = parse_job_option,
	.args_doc = "JOB",
	.doc = "Ends a job: its processes get SIGTERM, and what is left of them SIGKILL.\v"
	       "All attempts of it that run are ended, and what waits of it never begins; more "
	       "than one that runs, and it says how many. "
	       "Without a daemon what waits is left, and said to be. "
	       "Who may end the jobs of others, and has none of that name, says whose if several "
	       "users have one: by --user, or by --attempt.",
};

/* ---- which attempt ---- */

/* What our own database has of the job, which may be nothing. */
static int read_own(const char *job_id, struct attempt_list *ret, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	const struct attempt_filter filter = { .job_id = job_id };
	struct paths paths;
	int r = cli_find_paths_to_ask(&paths, err);

	if (r < 0 && r != -EINVAL) /* a bad configuration is no reason not to end a job */
		return r;
	r = cli_open_store(&paths, &store, err);
	if (r == 0)
		r = store_list_attempts(store, &filter, ret, err);
	return r == -ENOENT ? 0 : r;
}

/* Who waits is warned that the number may be another's; what is ended by mistake is lost. */
static int take_as_theirs(const struct job_args *args, struct err *err)
{
	struct err why = ERR_INIT;
	int r = 0;

	if (args->must_be_sure)
		r = jobs_check_only(args->job_id, u64_known(args->uid) ? args->uid : geteuid(),
				    args->attempt, &why);
	if (r < 0) {
		log_warning("%s", err->text);
		*err = why;
		return r;
	}
	log_warning("%s; attempt %d is taken as the daemon counts", err->text, args->attempt);
	*err = (struct err)ERR_INIT;
	return 0;
}

/*
 * "jobs" and "report" count by our own database, the daemon by its own: it is asked by its number.
 * One that cannot be read is no reason either not to wait for a job, or to end it.
 */
static int translate(const struct job_args *args, int *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 };
	int r = 0;

	*ret = 0;
	if (args->attempt > 0)
		r = read_own(args->job_id, &own, err);
	if (r < 0 && r != -ENOMEM)
		r = take_as_theirs(args, err);
	if (r == 0 && args->attempt > 0)
		r = jobs_find_elsewhere(args->job_id, &own, args->attempt, ret, err);
	return r;
}

/* ---- asking ---- */

static void write_question(struct buf *out, const struct job_args *args, int attempt)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "job_id", args->job_id);
	if (attempt > 0)
		json_key_i64(&j, "attempt", attempt);
	if (u64_known(args->uid))
		json_key_u64(&j, "uid", args->uid);
	if (args->only_queued)
		json_key_bool(&j, "queued", true);
	json_end_object(&j);
}

/* However long it takes. */
static int ask_daemon(struct rpc_client *client, const char *method, const struct job_args *args,
		      struct rpc_value **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	int attempt, r = translate(args, &attempt, err);

	if (r < 0)
		return r;
	write_question(&params, args, attempt);
	rpc_client_set_timeout(client, RPC_FOREVER);
	return rpc_client_call(client, method, params.data, ret, err);
}

static int ask(const char *method, const struct job_args *args, struct rpc_value **ret,
	       struct err *err)
{
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == 0)
		r = ask_daemon(client, method, args, ret, err);
	rpc_client_close(client);
	return r;
}

/* The daemon that was asked is there no more. */
static bool is_gone(int error)
{
	return error == -ECONNRESET || error == -ENOTCONN || error == -EPIPE || error == -ESHUTDOWN;
}

/*
 * A daemon may be killed or upgraded while we wait: its jobs go on, and the next one knows them.
 * Until it is there, and until it knows how those ended that are not its own (-EBUSY), it is asked
 * again. A job that was never there, or no daemon from the beginning, is an error at once.
 */
static enum cli_exit wait_for(const struct job_args *args, struct rpc_value **ret, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 500000000 };
	uint64_t until_ns = 0;
	int r;

	for (;;) {
		r = ask("job.wait", args, ret, err);
		if (r == 0)
			return CLI_DONE;
		if (is_gone(r) || (r == -EBUSY && until_ns == 0))
			until_ns = clock_boot_ns() + PATIENCE_NS;
		else if (until_ns == 0 || (r != -ENOENT && r != -EBUSY))
			return CLI_FAILED;
		if (clock_boot_ns() >= until_ns)
			return is_gone(r) || r == -ENOENT ? CLI_UNKNOWN : CLI_FAILED;
		nanosleep(&pause, NULL);
	}
}

static void write_json(const struct rpc_value *answer, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	rpc_value_write(answer, &j);
	buf_add_char(out, '\n');
}

/* ---- how it ended ---- */

static bool find_end(const struct attempt_list *own, int num, struct attempt *ret)
{
	for (size_t i = 0; i < own->n; i++)
		if (own->items[i].attempt_num == num && u64_known(own->items[i].ended_wall_ns)) {
			*ret = own->items[i];
			return true;
		}
	return false;
}

/* The number in it is that of our own database. */
static enum cli_exit ask_end(const struct job_args *args, struct arena *arena, struct attempt *ret,
			     struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 };
	enum cli_exit status = wait_for(args, &answer, err);

	if (status != CLI_DONE)
		return status;
	if (live_read_attempt(answer, arena, ret) < 0) {
		err_set(err, -EBADMSG, "what the daemon says of %s cannot be read", args->job_id);
		return CLI_FAILED;
	}
	if (read_own(args->job_id, &own, NULL) == 0)
		ret->attempt_num = jobs_number_here(&own, ret);
	return CLI_DONE;
}

static void write_end(const struct attempt *a, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	attempt_write_fields(&j, a, attempt_status_name(a));
	json_end_object(&j);
	buf_add_char(out, '\n');
}

/* Where there is no outcome its runner has vanished, or nobody told how it ended. */
static const char *end_name(const struct attempt *a)
{
	if (a->outcome != OUTCOME_NONE)
		return outcome_name(a->outcome);
	return a->is_lost ? "lost" : "unknown";
}

/* What our own database knows the end of needs no daemon, who may not have heard of it. */
int cli_wait(int argc, char **argv)
{
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct job_args args = JOB_ARGS_INIT;
	enum cli_exit status = CLI_DONE;
	struct err err = ERR_INIT;
	struct attempt a;

	cli_parse(&wait_argp, argc, argv, 0, &args);
	if (args.attempt == 0 || read_own(args.job_id, &own, NULL) < 0 ||
	    !find_end(&own, args.attempt, &a))
		status = ask_end(&args, &own.arena, &a, &err);
	if (status != CLI_DONE)
		return cli_fail(status, &err);
	if (args.json)
		write_end(&a, &out);
	else
		buf_printf(&out, "%s %s\n", args.job_id, end_name(&a));
	status = cli_print(&out);
	return status != CLI_DONE || a.outcome != OUTCOME_SUCCESS ? CLI_FAILED : CLI_DONE;
}

/* ---- ending it ---- */

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

static int cancel_without(const struct job_args *args, uint64_t *ret_n, struct buf *json,
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

/* How many attempts are being ended, and the same in JSON. */
static int cancel(const struct job_args *args, uint64_t *ret_n, struct buf *json, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int r = rpc_client_open(&options, &client, err);

	if (r == -ENOENT)
		return cancel_without(args, ret_n, json, err);
	if (r == 0)
		r = ask_daemon(client, "job.cancel", args, &answer, err);
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
	struct job_args args = JOB_ARGS_INIT;
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
