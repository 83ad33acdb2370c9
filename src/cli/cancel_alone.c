#include "cli/cancel_alone.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/unknown.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "jobs/jobs.h"

static bool is_meant(const struct attempt *a, int attempt_num, uint64_t uid)
{
	return a->is_running && (attempt_num == 0 || a->attempt_num == attempt_num) &&
	       (!u64_known(uid) || a->uid == uid);
}

/* The runner of an attached one is what was attached: it would end, and nothing below it. */
static int tell_runner(const struct attempt *a, struct err *err)
{
	int r;

	if (a->is_attached)
		return err_set(err, -EOPNOTSUPP, "job %s was attached: only a daemon can end it",
			       a->job_id);
	r = signal_process(&a->runner, SIGTERM, RUNNER_CANCEL);
	return r < 0 ? err_set(err, r, "cannot cancel %s: %s", a->job_id, strerror(-r)) : 0;
}

int cancel_alone(const char *job_id, int attempt_num, uint64_t uid, size_t *ret_n, struct err *err)
{
	CLEANUP(cli_store_cleanup) struct store *store = NULL;
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = job_id, .running_only = true };
	int r = cli_open_record(job_id, &store, err), failed = 0;

	*ret_n = 0;
	if (r == 0)
		r = store_list_attempts(store, &filter, &list, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		if (!is_meant(&list.items[i], attempt_num, uid))
			continue;
		r = tell_runner(&list.items[i], failed ? NULL : err);
		*ret_n += r == 0;
		failed = failed ? failed : r;
	}
	if (!failed && *ret_n == 0)
		return err_set(err, -ESRCH, "job %s does not run any more", job_id);
	return failed;
}
