#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/process_handle.h"
#include "daemon/methods/methods.h"

bool service_is_owner(const struct rpc_peer *peer)
{
	return peer->uid == 0 || peer->uid == geteuid();
}

bool service_reads_all(const struct service *s, const struct rpc_peer *peer)
{
	return service_is_owner(peer) || (u64_known(s->settings.read_gid) &&
					  rpc_peer_is_in(peer, (gid_t)s->settings.read_gid));
}

static bool is_own(const struct rpc_peer *peer, uint64_t uid)
{
	return u64_known(uid) && uid == peer->uid;
}

bool service_may_read(const struct service *s, const struct rpc_peer *peer, uint64_t uid)
{
	return is_own(peer, uid) || service_reads_all(s, peer);
}

bool service_may_control(const struct rpc_peer *peer, uint64_t uid)
{
	return is_own(peer, uid) || service_is_owner(peer);
}

static bool has_right(const struct service *s, const struct rpc_peer *peer, uint64_t uid,
		      enum service_right right)
{
	return right == SERVICE_READ ? service_may_read(s, peer, uid)
				     : service_may_control(peer, uid);
}

/* ---- the peer's own first ---- */

/* attempt 0: it has none yet. */
static bool is_meant(const struct job_params *params, const char *job_id, uint64_t uid,
		     uint64_t attempt)
{
	return strcmp(job_id, params->job_id) == 0 &&
	       (params->attempt == 0 || params->attempt == attempt) &&
	       (!u64_known(params->uid) || params->uid == uid);
}

bool service_find_job(struct service *s, const struct rpc_peer *peer,
		      const struct job_params *params, enum service_right right,
		      struct found_job *ret)
{
	struct watched *watched = NULL;
	struct queued *queued = NULL, *waiting;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);
	bool is_own_job = false, is_own_queued = false;

	for (size_t i = 0; !params->only_queued && !is_own_job && i < n; i++) {
		const struct attempt *a = &jobs[i]->a;

		if (!is_meant(params, jobs[i]->job_id, a->uid, (uint64_t)a->attempt_num))
			continue;
		is_own_job = is_own(peer, a->uid);
		if (is_own_job || (!watched && has_right(s, peer, a->uid, right)))
			watched = jobs[i];
	}
	/* One that waits has no number yet. */
	for (size_t i = 0; !is_own_queued && (waiting = queue_at(s->queue, i)); i++) {
		if (!is_meant(params, waiting->job_id, waiting->uid, 0))
			continue;
		is_own_queued = is_own(peer, waiting->uid);
		if (is_own_queued || (!queued && has_right(s, peer, waiting->uid, right)))
			queued = waiting;
	}
	*ret = (struct found_job){ 0 };
	if (watched && (is_own_job || !is_own_queued))
		ret->watched = watched;
	else
		ret->queued = queued;
	return ret->watched || ret->queued;
}

struct watched *service_find_own_job(struct service *s, const struct rpc_peer *peer,
				     const char *job_id)
{
	struct proc_key key;
	struct watched *job = caller_find_process(peer, &key, NULL) == 0
				      ? watch_find_runner(s->watch, &key)
				      : NULL;

	return job && !job->a.is_attached && is_own(peer, job->a.uid) &&
			       (!job_id || strcmp(job->job_id, job_id) == 0)
		       ? job
		       : NULL;
}

/* ---- more than one ---- */

struct candidates {
	const struct rpc_peer *peer;
	uint64_t uid; /* of the first; U64_UNKNOWN: there is none */
	bool has_own, is_unclear;
	struct buf *names;
};

#define MAX_NAMES_BYTES 200

static void add_candidate(struct candidates *c, uint64_t uid, int attempt)
{
	c->has_own = c->has_own || is_own(c->peer, uid);
	c->is_unclear = c->is_unclear || (u64_known(c->uid) && c->uid != uid);
	c->uid = uid;
	if (c->names->len > MAX_NAMES_BYTES)
		return;
	buf_printf(c->names, "%suser %llu, ", c->names->len > 0 ? "; " : "",
		   (unsigned long long)uid);
	if (attempt > 0)
		buf_printf(c->names, "attempt %d", attempt);
	else
		buf_add_str(c->names, "not begun");
}

int service_check_meant(struct service *s, const struct rpc_peer *peer,
			const struct job_params *params, enum service_right right, struct err *err)
{
	CLEANUP(buf_release) struct buf names = BUF_INIT;
	struct candidates c = { .peer = peer, .uid = U64_UNKNOWN, .names = &names };
	const struct queued *job;
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; !params->only_queued && i < n; i++) {
		const struct attempt *a = &jobs[i]->a;

		if (is_meant(params, jobs[i]->job_id, a->uid, (uint64_t)a->attempt_num) &&
		    has_right(s, peer, a->uid, right))
			add_candidate(&c, a->uid, a->attempt_num);
	}
	for (size_t i = 0; (job = queue_at(s->queue, i)); i++)
		if (is_meant(params, job->job_id, job->uid, 0) &&
		    (params->only_queued || !watch_find_of(s->watch, job->job_id, job->uid)) &&
		    has_right(s, peer, job->uid, right))
			add_candidate(&c, job->uid, 0);
	if (!c.is_unclear || c.has_own)
		return 0;
	return err_set(err, -EINVAL, "several users have a job %s: say whose (%s)", params->job_id,
		       names.data);
}

/* ---- in the database ---- */

/* The last of this user, or (NULL) of anybody. 0: there is none. */
static int read_last_num(struct service *s, const char *job_id, const uint64_t *uid, int *ret,
			 struct err *err)
{
	CLEANUP(attempt_list_release) struct attempt_list list = { 0 };
	const struct attempt_filter filter = { .job_id = job_id, .uid = uid, .limit = 1 };
	int r = store_list_attempts(s->store, &filter, &list, err);

	*ret = r == 0 && list.n > 0 ? list.items[0].attempt_num : 0;
	return r;
}

int service_find_attempt(struct service *s, const struct rpc_peer *peer, const char *job_id,
			 uint64_t num, int *ret_num, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	const uint64_t own = peer->uid;
	int found = (int)num, r = service_need_store(s, err);

	attempt_init(&a);
	if (r == 0 && num > 0) {
		r = store_read_progress(s->store, job_id, (int)num, &a, err);
		if (r == 0 && !service_may_read(s, peer, a.uid))
			r = -ENOENT;
		if (r == -ENOENT) /* in the same words, whether it is there or not */
			err_set(err, r, "no attempt %d of a job %s was recorded", (int)num, job_id);
	} else if (r == 0) {
		r = read_last_num(s, job_id, &own, &found, err);
	}
	if (r == 0 && found == 0 && service_reads_all(s, peer))
		r = read_last_num(s, job_id, NULL, &found, err);
	if (r == 0 && found == 0)
		r = err_set(err, -ENOENT, "no job %s was recorded", job_id);
	if (r == 0)
		*ret_num = found;
	return r;
}

bool service_has_begun(struct service *s, const struct queued *job)
{
	return job->is_started && watch_find_submission(s->watch, job->submission);
}
