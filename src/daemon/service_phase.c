#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/phase_params.h"
#include "daemon/service_tell.h"

static int read_params(const struct rpc_call *call, struct phase_params *ret, struct err *err)
{
	int r;

	phase_params_init(ret);
	r = rpc_call_read(call, phase_fields, N_PHASE_FIELDS, ret, err);
	return r < 0 ? r : phase_params_check(ret, err);
}

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

static struct phase_mark make_mark(struct service *s, const struct watched *job,
				   const struct phase_params *params)
{
	pid_t pid = (pid_t)params->pid;
	uint64_t wall_ns = phase_params_wall_ns(params);

	return (struct phase_mark){
		.attempt_id = job->a.id,
		.is_exit = !params->enter,
		.phase = { .name = params->enter ? params->enter : params->exit,
			   .pid = pid,
			   .rank = sources_read_rank(s->root_fd, pid),
			   .entered_wall_ns = params->enter ? wall_ns : U64_UNKNOWN,
			   .left_wall_ns = params->enter ? U64_UNKNOWN : wall_ns },
		.are_kin = params->is_for_another ? phase_are_kin : NULL,
		.ctx = &s->root_fd,
	};
}

/* Only that markers were lost: there is no later one to say so. */
static int answer_lost(struct rpc_call *call, uint64_t n)
{
	struct json *j = rpc_call_result(call);

	json_begin_object(j);
	json_key_u64(j, "lost", n);
	json_end_object(j);
	return 0;
}

/* Whoever is answered knows that it was not taken. */
static void count_unplaced(struct service *s, const struct rpc_call *call,
			   const struct phase_params *params)
{
	if (!rpc_call_wants_answer(call))
		service_add_unplaced_marks(s, params->lost + (params->enter || params->exit));
}

static int mark_phase(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct phase_params params;
	struct phase_mark mark;
	struct watched *job = NULL;
	int r = read_params(call, &params, err);

	if (r < 0)
		return r;
	r = find_job(s, rpc_call_peer(call), &params, &job, err);
	if (r < 0) {
		count_unplaced(s, call, &params);
		return r;
	}
	service_add_lost_marks(s, job, params.lost);
	if (!params.enter && !params.exit)
		return answer_lost(call, params.lost);
	mark = make_mark(s, job, &params);
	return service_add_mark(s, call, job, &mark, err);
}

const struct rpc_method service_phase_methods[] = {
	{ "phase", mark_phase, RPC_FOR_ALL },
	{ 0 },
};
