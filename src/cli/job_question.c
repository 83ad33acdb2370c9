#include "cli/job_question.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "cli/jobs_merge.h"
#include "cli/users.h"

error_t job_question_parse(int key, char *arg, struct argp_state *state)
{
	struct job_question *args = state->input;

	switch (key) {
	case JOB_QUESTION_JSON:
		args->json = true;
		return 0;
	case JOB_QUESTION_ATTEMPT:
		args->attempt = cli_parse_int(state, "--attempt", arg, 1, INT32_MAX);
		return 0;
	case JOB_QUESTION_QUEUED:
		args->only_queued = true;
		return 0;
	case JOB_QUESTION_USER:
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

/* ---- which attempt ---- */

int job_question_read_own(const char *job_id, struct attempt_list *ret, struct err *err)
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
static int take_as_theirs(const struct job_question *args, struct err *err)
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
static int translate(const struct job_question *args, int *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 };
	int r = 0;

	*ret = 0;
	if (args->attempt > 0)
		r = job_question_read_own(args->job_id, &own, err);
	if (r < 0 && r != -ENOMEM)
		r = take_as_theirs(args, err);
	if (r == 0 && args->attempt > 0)
		r = jobs_find_elsewhere(args->job_id, &own, args->attempt, ret, err);
	return r;
}

/* ---- asking ---- */

static void write_question(struct buf *out, const struct job_question *args, int attempt)
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

int job_question_ask(struct rpc_client *client, const char *method, const struct job_question *args,
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
