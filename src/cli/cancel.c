#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unknown.h"
#include "cli/remote.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"

#define START_PATIENCE_NS UINT64_C(5000000000) /* a runner begins within this */

static const struct argp_option cancel_options[] = {
	CLI_WORD(job_question, job_id, "which job? \"proctor jobs\" lists them"),
	CLI_OPTION("attempt", job_question, attempt, "N",
		   "Only this attempt of it, as \"jobs\" numbers them, and not all that run"),
	CLI_OPTION("queued", job_question, only_queued, NULL,
		   "Only what waits of it, and nothing that runs"),
	CLI_OPTION("user", job_question, user, "USER",
		   "The job of this user, where several have one of that name"),
	CLI_OPTION("json", job_question, json, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp cancel_argp = {
	.options = cancel_options,
	.parser = cli_parse_option,
	.args_doc = "JOB",
	.doc = "Ends a job: its processes get SIGTERM, and what is left of them SIGKILL.\v"
	       "All attempts of it that run are ended, and what waits of it never begins; more "
	       "than one that runs, and it says how many. "
	       "Without a daemon what waits is left, and said to be. "
	       "Who may end the jobs of others, and has none of that name, says whose if several "
	       "users have one: by --user, or by --attempt.",
};

/* ---- without a daemon ---- */

static bool is_meant(const struct attempt *a, int attempt_num, uint64_t uid)
{
	return a->is_running && (attempt_num == 0 || a->attempt_num == attempt_num) &&
	       (!u64_known(uid) || a->uid == uid);
}

#define MAX_NAMES_BYTES 200

/*
 * As a daemon takes a name: one's own, or else that of the only user who has one. Where nobody is
 * meant, whose was asked for stays.
 */
static int choose_user(const struct attempt_list *list, const struct job_question *q, uint64_t *uid,
		       struct err *err)
{
	CLEANUP(buf_release) struct buf names = BUF_INIT;
	uint64_t chosen = U64_UNKNOWN;
	bool is_unclear = false;

	for (size_t i = 0; i < list->n; i++) {
		const struct attempt *a = &list->items[i];

		if (!is_meant(a, q->attempt, *uid))
			continue;
		is_unclear |= u64_known(chosen) && chosen != a->uid;
		if (chosen != geteuid())
			chosen = a->uid;
		if (names.len <= MAX_NAMES_BYTES)
			buf_printf(&names, "%suser %llu, attempt %d", names.len > 0 ? "; " : "",
				   (unsigned long long)a->uid, a->attempt_num);
	}
	if (is_unclear && chosen != geteuid())
		return err_set(err, -EINVAL, "several users have a job %s: say whose (%s)",
			       q->job_id, names.data);
	if (u64_known(chosen))
		*uid = chosen;
	return 0;
}

/* Who can write what the database says, if that is not root. */
static uint64_t find_keeper(const char *db)
{
	char folder[PATH_BYTES];
	struct stat st;

	if (stat(db, &st) < 0)
		return U64_UNKNOWN;
	if (st.st_uid != 0)
		return st.st_uid;
	snprintf(folder, sizeof(folder), "%s", db);
	return stat(dirname(folder), &st) < 0 ? U64_UNKNOWN : st.st_uid;
}

/*
 * The runner of an attached one is what was attached: it would end, and nothing below it. Root can
 * signal any process, so whoever keeps the database could name one that is not theirs.
 */
static int tell_runner(const struct attempt *a, uint64_t keeper, struct err *err)
{
	uint64_t uid = keeper == 0 ? a->uid : keeper;
	int r;

	if (a->is_attached)
		return err_set(err, -EOPNOTSUPP, "job %s was attached: only a daemon can end it",
			       a->job_id);
	if (!u64_known(uid) || !caller_is_process_of(a->runner.pid, (uid_t)uid))
		return err_set(err, -EPERM,
			       "pid %d, which is recorded as the runner of %s, is not of the user "
			       "whose record that is: it is left alone",
			       (int)a->runner.pid, a->job_id);
	r = signal_process(&a->runner, SIGTERM, RUNNER_CANCEL);
	return r < 0 ? err_set(err, r, "cannot cancel %s: %s", a->job_id, strerror(-r)) : 0;
}

/* *uid is whose are meant, in the end. */
static int end_running(const struct paths *paths, const struct job_question *q, uint64_t *uid,
		       size_t *ret_n, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = q->job_id };
	int r = cli_open_store(paths, &store, err), failed = 0;

	if (r == 0)
		r = store_list_attempts(store, &filter, &list, err);
	if (r == 0 && list.n == 0)
		r = err_set(err, -ENOENT,
			    "no job %s was recorded: \"proctor jobs\" lists those there are",
			    q->job_id);
	if (r == 0)
		r = choose_user(&list, q, uid, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		if (!is_meant(&list.items[i], q->attempt, *uid))
			continue;
		r = tell_runner(&list.items[i], find_keeper(paths->db), failed ? NULL : err);
		*ret_n += r == 0;
		failed = failed ? failed : r;
	}
	if (!failed && *ret_n == 0)
		return err_set(err, -ESRCH, "job %s does not run any more", q->job_id);
	return failed;
}

/* The queue is a daemon's to change: so what waits is not cancelled, and nobody is to think so. */
int cancel_without_daemon(const struct job_question *q, size_t *ret_n, struct err *err)
{
	uint64_t uid = q->uid;
	struct paths paths;
	size_t n_waiting;
	int r = cli_find_paths_to_read(&paths, err);

	*ret_n = 0;
	if (r < 0)
		return r;
	if (q->only_queued)
		r = err_set(err, -ENOENT, "no job %s waits, and no daemon is running", q->job_id);
	else
		r = end_running(&paths, q, &uid, ret_n, err);
	if (q->attempt > 0 || (r < 0 && r != -ENOENT && r != -ESRCH))
		return r;
	n_waiting =
		job_question_count_queued(&paths, q->job_id, u64_known(uid) ? uid : q->uid, NULL);
	if (n_waiting == 0)
		return r;
	return err_set(err, -EBUSY,
		       "%zu of job %s in the queue cannot be cancelled without a daemon, and would "
		       "begin with the next one: \"proctor start\", and cancel again (%zu that ran "
		       "%s being ended)",
		       n_waiting, q->job_id, *ret_n, *ret_n == 1 ? "is" : "are");
}

/* ---- the verb ---- */

/*
 * How many attempts are being ended, and the same in JSON. A job that was submitted just now has no
 * runner yet that could be told: it will.
 */
static int cancel(const struct job_question *args, uint64_t *ret_n, struct json *j, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	const struct timespec pause = { .tv_nsec = 50000000 };
	uint64_t until_ns = clock_boot_ns() + START_PATIENCE_NS;
	int r;

	while ((r = job_question_ask("job.cancel", args, &answer, err)) == -EBUSY &&
	       clock_boot_ns() < until_ns)
		nanosleep(&pause, NULL);
	if (r == -ENODEV) { /* as a daemon answers */
		size_t n = 0;

		r = cancel_without_daemon(args, &n, err);
		*ret_n = n;
		json_begin_object(j);
		json_key_string(j, "job_id", args->job_id);
		json_key_bool(j, "cancelling", true);
		json_key_u64(j, "attempts", n);
		json_end_object(j);
		return r;
	}
	if (r < 0)
		return r;
	*ret_n = rpc_value_u64(rpc_value_get(answer, "attempts"));
	rpc_value_write(answer, j);
	return 0;
}

int cli_cancel(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf json = BUF_INIT, out = BUF_INIT;
	struct job_question args = JOB_QUESTION_INIT;
	struct err err = ERR_INIT;
	uint64_t n = U64_UNKNOWN;
	struct json j;

	args.must_be_sure = true;
	job_question_parse(&cancel_argp, argc, argv, &args);
	json_init(&j, &json);
	if (cancel(&args, &n, &j, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	buf_add_char(&json, '\n');
	if (args.json)
		return cli_print(&json);
	if (u64_known(n) && n > 1) /* more than who has one job in mind thinks of */
		buf_printf(&out, "%llu attempts of %s are being ended\n", (unsigned long long)n,
			   args.job_id);
	return out.len > 0 ? cli_print(&out) : CLI_DONE;
}
