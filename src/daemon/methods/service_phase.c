#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"

/* A database that cannot be written now is tried again after so long. */
#define RETRY_NS UINT64_C(1000000000)

/* ---- recording ---- */

/* A mark (NULL: none), and how many were lost, into the log that has the attempt's records. */
static bool log_mark(struct service *s, int64_t attempt_id, const struct phase_mark *mark,
		     uint64_t n_lost)
{
	CLEANUP(buf_release) struct buf record = BUF_INIT;
	struct phase_change change = { 0 };

	if (mark)
		change = (struct phase_change){ mark->is_exit, mark->phase };
	record_write_phases(&record, &change, mark != NULL);
	record_write_number(&record, n_lost);
	return service_log(s, attempt_id, RECORD_PHASES, &record);
}

static void count_lost(struct service *s, int64_t attempt_id, uint64_t n)
{
	if (n > 0)
		(void)log_mark(s, attempt_id, NULL, n);
	s->phases.n_lost += n;
}

/* The row of an attempt; 0: the database has none yet, or cannot be read now. */
static int64_t find_row(struct service *s, int64_t attempt_id)
{
	struct stored_log stored = { 0 };
	struct log_id log;
	uint64_t uid;

	if (!s->store || !watch_log_of(s->watch, attempt_id, &log, &uid))
		return 0;
	if (store_find_log(s->store, log.bytes, &stored, NULL) < 0) {
		service_take_in(s);
		if (s->store)
			(void)store_find_log(s->store, log.bytes, &stored, NULL);
	}
	return stored.attempt_id;
}

/*
 * The database decides whether a mark is refused, so it is stored at once. A mark that cannot be
 * stored now is logged, and so is each one after it until the log was ingested: they may be of the
 * same phases.
 */
static int record_mark(struct service *s, int64_t attempt_id, struct phase_mark *mark,
		       struct err *err)
{
	uint64_t now = clock_boot_ns();
	int r = -EBUSY;

	if (now >= s->phases.retry_boot_ns) {
		if (s->phases.retry_boot_ns)
			service_take_in(s);
		mark->attempt_id = find_row(s, attempt_id);
		if (mark->attempt_id && s->database.ingest_err.code == 0)
			r = store_mark_phases(s->store, mark, 1, err);
		s->phases.retry_boot_ns = r < 0 ? now + RETRY_NS : 0;
	}
	if (r == 0 || log_mark(s, attempt_id, mark, 0))
		return 0;
	return err_set(err, -EBUSY, "the job has no log to record the phase in: try again");
}

/* ---- the method ---- */

/*
 * That of who asks, by the kernel's word. Another process may be named for which it is done (a
 * shell, whose "proctor phase" is gone at once): one of the same job.
 */
static int find_job(struct service *s, const struct rpc_peer *peer, struct phase_params *params,
		    struct watched **ret, struct err *err)
{
	struct watched *job;

	if (peer->pid <= 0)
		return err_set(err, -ENOENT,
			       "the process is in a pid namespace that cannot be seen");
	job = service_job_of(s, peer->pid);
	if (!job) {
		service_look(s); /* it may have begun just now */
		job = service_job_of(s, peer->pid);
	}
	if (!job || !service_may_control(peer, job->a.uid))
		return err_set(err, -ENOENT, "pid %d is of no job that runs", (int)peer->pid);
	if (!u64_known(params->pid))
		params->pid = (uint64_t)peer->pid;
	else if (service_job_of(s, (pid_t)params->pid) != job)
		return err_set(err, -EINVAL, "pid %llu is not of the job %s",
			       (unsigned long long)params->pid, job->job_id);
	else
		params->is_for_another = true;
	if (params->is_for_another)
		params->pid = (uint64_t)phase_owner_find(s->root_fd, (pid_t)params->pid,
							 job->a.runner.pid);
	*ret = job;
	return 0;
}

static int mark_phase(struct service *s, struct rpc_call *call, const struct watched *job,
		      const struct phase_params *params, struct err *err)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const char *name = params->enter ? params->enter : params->exit;
	enum topic topic = params->enter ? TOPIC_PHASE_ENTER : TOPIC_PHASE_EXIT;
	uint64_t wall_ns = phase_params_wall_ns(params);
	pid_t pid = (pid_t)params->pid;
	struct phase_mark mark = {
		.is_exit = !params->enter,
		.phase = { .name = name,
			   .pid = pid,
			   .rank = sources_read_rank(s->root_fd, pid),
			   .entered_wall_ns = params->enter ? wall_ns : U64_UNKNOWN,
			   .left_wall_ns = params->enter ? U64_UNKNOWN : wall_ns },
		.are_kin = params->is_for_another ? phase_are_kin : NULL,
		.ctx = &s->root_fd,
	};
	int r = record_mark(s, job->a.id, &mark, err);
	struct json j;

	/* A sender that is not told of it relies on the record. */
	if (!rpc_call_wants_answer(call) && (r < 0 || mark.result == -ENOSPC))
		count_lost(s, job->a.id, 1);
	if (r == 0 && mark.result < 0)
		r = phase_refuse(&mark, job->job_id, name, err);
	if (r < 0)
		return r;
	json_init_object(&j, &out);
	json_key_string(&j, "event", topic_name(topic));
	json_key_f64(&j, "timestamp", u64_to_seconds(wall_ns));
	json_key_string(&j, "job_id", job->job_id);
	json_key_i64(&j, "attempt", job->a.attempt_num);
	json_key_string(&j, "name", name);
	json_key_i64(&j, "pid", pid);
	json_key_int(&j, "rank", mark.phase.rank);
	json_end_object(&j);
	service_publish(s, topic, wall_ns, job->a.uid, &out);
	if (buf_error(&out) < 0)
		return err_set(err, -ENOMEM, "no memory left for the phase");
	json_raw(rpc_call_result(call), out.data, out.len);
	return 0;
}

int method_mark_phase(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct phase_params params;
	struct watched *job = NULL;
	struct json *j;
	int r;

	phase_params_init(&params);
	r = rpc_call_read(call, phase_fields, N_PHASE_FIELDS, &params, err);
	if (r == 0)
		r = phase_params_check(&params, err);
	if (r < 0)
		return r;
	r = find_job(s, rpc_call_peer(call), &params, &job, err);
	if (r < 0) {
		if (!rpc_call_wants_answer(call)) /* who is answered knows that it was not taken */
			s->phases.n_unplaced += params.lost + (params.enter || params.exit);
		return r;
	}
	count_lost(s, job->a.id, params.lost);
	if (!params.enter && !params.exit) { /* only that some were lost: no later one says so */
		j = rpc_call_result(call);
		json_begin_object(j);
		json_key_u64(j, "lost", params.lost);
		json_end_object(j);
		return 0;
	}
	return mark_phase(s, call, job, &params, err);
}
