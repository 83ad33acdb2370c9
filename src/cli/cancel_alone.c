#include "cli/cancel_alone.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/unknown.h"
#include "cli/alone.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"

/* ---- which are meant ---- */

static bool is_meant(const struct attempt *a, int attempt_num, uint64_t uid)
{
	return a->is_running && (attempt_num == 0 || a->attempt_num == attempt_num) &&
	       (!u64_known(uid) || a->uid == uid);
}

#define MAX_NAMES_BYTES 200

struct candidates {
	uint64_t uid; /* whose is meant; U64_UNKNOWN: there is none */
	bool is_unclear;
	struct buf names;
};

static void candidates_release(struct candidates *c)
{
	buf_release(&c->names);
}

static void add_candidate(struct candidates *c, const struct attempt *a)
{
	bool has_own = u64_known(c->uid) && c->uid == geteuid();

	c->is_unclear = c->is_unclear || (u64_known(c->uid) && c->uid != a->uid);
	if (!has_own)
		c->uid = a->uid;
	if (c->names.len <= MAX_NAMES_BYTES)
		buf_printf(&c->names, "%suser %llu, attempt %d", c->names.len > 0 ? "; " : "",
			   (unsigned long long)a->uid, a->attempt_num);
}

/* As a daemon takes a name: one's own, or else that of the only user who has one. */
static int choose_user(const struct attempt_list *list, const char *job_id, int attempt_num,
		       uint64_t *uid, struct err *err)
{
	CLEANUP(candidates_release)
	struct candidates c = { .uid = U64_UNKNOWN, .names = BUF_INIT };

	for (size_t i = 0; i < list->n; i++)
		if (is_meant(&list->items[i], attempt_num, *uid))
			add_candidate(&c, &list->items[i]);
	if (c.is_unclear && c.uid != geteuid())
		return err_set(err, -EINVAL, "several users have a job %s: say whose (%s)", job_id,
			       c.names.data);
	if (u64_known(c.uid)) /* else nobody is meant, and whose was asked for stays */
		*uid = c.uid;
	return 0;
}

/* ---- ending them ---- */

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
static int end_running(const struct paths *paths, const struct cancel_question *q, uint64_t *uid,
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
		r = choose_user(&list, q->job_id, q->attempt_num, uid, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		if (!is_meant(&list.items[i], q->attempt_num, *uid))
			continue;
		r = tell_runner(&list.items[i], find_keeper(paths->db), failed ? NULL : err);
		*ret_n += r == 0;
		failed = failed ? failed : r;
	}
	if (!failed && *ret_n == 0)
		return err_set(err, -ESRCH, "job %s does not run any more", q->job_id);
	return failed;
}

/* ---- what waits ---- */

/* The queue is a daemon's to change: so what waits is not cancelled, and nobody is to think so. */
static int refuse_waiting(const struct cancel_question *q, size_t n_waiting, size_t n_ended,
			  struct err *err)
{
	return err_set(err, -EBUSY,
		       "%zu of job %s in the queue cannot be cancelled without a daemon, and would "
		       "begin with the next one: \"proctor start\", and cancel again (%zu that ran "
		       "%s being ended)",
		       n_waiting, q->job_id, n_ended, n_ended == 1 ? "is" : "are");
}

int cancel_alone(const struct cancel_question *q, size_t *ret_n, struct err *err)
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
	if (q->attempt_num > 0 || (r < 0 && r != -ENOENT && r != -ESRCH))
		return r;
	n_waiting = alone_count_waiting(&paths, q->job_id, u64_known(uid) ? uid : q->uid, NULL);
	return n_waiting > 0 ? refuse_waiting(q, n_waiting, *ret_n, err) : r;
}
