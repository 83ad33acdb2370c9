#include "cli/alone.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/unknown.h"
#include "daemon/daemon.h"

/* ---- what waits ---- */

static bool is_recorded(const struct attempt_list *recorded, const struct queued *job)
{
	for (size_t i = 0; i < recorded->n; i++)
		if (u64_known(job->submission) && recorded->items[i].submission == job->submission)
			return true;
	return false;
}

static bool has_begun(const struct queued *job, const struct attempt_list *recorded)
{
	return job->is_started && (!recorded || is_recorded(recorded, job));
}

size_t alone_count_waiting(const struct paths *paths, const char *job_id, uint64_t uid,
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

/* ---- how it ended ---- */

static bool is_better(const struct attempt *a, const struct attempt *than)
{
	bool is_own = a->uid == geteuid(), was_own = than && than->uid == geteuid();

	if (!than || is_own != was_own)
		return !than || is_own;
	return a->attempt_num > than->attempt_num;
}

static const struct attempt *choose(const struct attempt_list *recorded, int num)
{
	const struct attempt *best = NULL;

	for (size_t i = 0; i < recorded->n; i++) {
		const struct attempt *a = &recorded->items[i];

		if ((num == 0 || a->attempt_num == num) && is_better(a, best))
			best = a;
	}
	return best;
}

int alone_find_end(const struct attempt_list *recorded, const char *job_id, int num,
		   struct attempt *ret, struct err *err)
{
	const struct attempt *a = choose(recorded, num);

	if (!a)
		return err_set(err, -ENOENT,
			       "no daemon is running, and %s of job %s is recorded here",
			       num > 0 ? "no such attempt" : "nothing", job_id);
	if (!u64_known(a->ended_wall_ns) && a->is_attached)
		return err_set(err, -EOPNOTSUPP,
			       "job %s was attached, and no daemon is running that would hear how "
			       "it ends",
			       job_id);
	if (a->is_running)
		return -EINPROGRESS;
	*ret = *a;
	return 0;
}
