#include "cli/job_question.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/unknown.h"
#include "cli/remote.h"
#include "daemon/daemon.h"

void job_question_parse(const struct argp *argp, int argc, char **argv, struct job_question *args)
{
	const struct argp_state state = { .name = argv[0] };

	cli_parse(argp, argc, argv, 0, args);
	if (args->user)
		args->uid = cli_parse_user(&state, "--user", args->user);
	if (args->only_queued && args->attempt > 0)
		cli_reject(argv, "--attempt or --queued, not both: what waits has no number yet");
}

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

/*
 * "jobs" and "report" count by our own database, the daemon by its own: it is asked by its number.
 * A database that cannot be read is no reason not to wait for a job, or not to end it: whoever
 * waits is warned that the number may be another's. An attempt is ended only where the daemon knows
 * but that one of this user, as what is ended by mistake is lost.
 */
static int translate(const struct job_question *args, int *ret, struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list own = { 0 }, theirs = { 0 };
	uint64_t uid = u64_known(args->uid) ? args->uid : geteuid();
	struct err why = ERR_INIT;
	size_t n = 0, n_meant = 0;
	int r = job_question_read_own(args->job_id, &own, &why);

	if (r == -ENOMEM) {
		*err = why;
		return r;
	}
	r = remote_add_all(&(struct remote_question){ .job_id = args->job_id }, &theirs, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < theirs.n; i++) {
		n += theirs.items[i].uid == uid;
		n_meant +=
			theirs.items[i].uid == uid && theirs.items[i].attempt_num == args->attempt;
	}
	if (why.code && args->must_be_sure && (n != 1 || n_meant != 1)) {
		log_warning("%s", why.text);
		return err_set(
			err, -EINVAL,
			"attempt %d of %s may be another as the daemon counts, which knows of %zu",
			args->attempt, args->job_id, n);
	}
	if (why.code)
		log_warning("%s; attempt %d is taken as the daemon counts", why.text,
			    args->attempt);
	*ret = remote_match_number(&own, &theirs, args->attempt);
	return *ret > 0 ? 0
			: err_set(err, -ENOENT, "the daemon knows of no attempt %d of a job %s",
				  args->attempt, args->job_id);
}

int job_question_ask(const char *method, const struct job_question *args, struct rpc_value **ret,
		     struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	const struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	int attempt = 0, r = rpc_client_open(&options, &client, err);
	struct json j;

	if (r < 0)
		return r == -ENOENT ? -ENODEV : r;
	if (args->attempt > 0)
		r = translate(args, &attempt, err);
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", args->job_id);
	if (attempt > 0)
		json_key_i64(&j, "attempt", attempt);
	if (u64_known(args->uid))
		json_key_u64(&j, "uid", args->uid);
	if (args->only_queued)
		json_key_bool(&j, "queued", true);
	json_end_object(&j);
	rpc_client_set_timeout(client, RPC_FOREVER);
	if (r == 0)
		r = rpc_client_call(client, method, params.data, ret, err);
	rpc_client_close(client);
	return r;
}

static bool has_begun(const struct queued *job, const struct attempt_list *recorded)
{
	if (!job->is_started || !recorded)
		return job->is_started;
	for (size_t i = 0; u64_known(job->submission) && i < recorded->n; i++)
		if (recorded->items[i].submission == job->submission)
			return true;
	return false;
}

size_t job_question_count_queued(const struct paths *paths, const char *job_id, uint64_t uid,
				 const struct attempt_list *recorded)
{
	char folder[PATH_BYTES + 16];
	struct queue *queue = NULL;
	const struct queued *job;
	size_t n = 0;

	snprintf(folder, sizeof(folder), "%s/queue", paths->state_dir);
	if (queue_open_to_read(folder, &queue, NULL) < 0)
		return 0;
	for (size_t i = 0; (job = queue_at(queue, i)); i++)
		n += strcmp(job->job_id, job_id) == 0 && (!u64_known(uid) || job->uid == uid) &&
		     !has_begun(job, recorded);
	queue_close(queue);
	return n;
}
