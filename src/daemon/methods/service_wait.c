#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

struct wait_params {
	struct job_params job;
	double timeout_seconds; /* NaN: for ever */
};

#define MAX_TIMEOUT_SECONDS 1e9

static const struct rpc_field wait_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct wait_params, job.job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct wait_params, job.attempt), .max = INT32_MAX },
	{ "timeout_seconds", RPC_F64, offsetof(struct wait_params, timeout_seconds), .min = 0,
	  .max = MAX_TIMEOUT_SECONDS },
};

struct waiter {
	struct service *service;
	struct rpc_call *call;
	char *job_id;
	uid_t uid;		  /* whose */
	int64_t attempt_id;	  /* 0: the next that begins */
	struct loop_timer *timer; /* NULL: for ever */
	struct waiter *next;
};

static void forget_waiter(void *ctx)
{
	struct waiter *waiter = ctx;

	LIST_REMOVE(waiter->service->clients.waiters, waiter, next);
	if (waiter->timer)
		loop_timer_close(waiter->timer);
	free(waiter->job_id);
	free(waiter);
}

static void write_end(struct rpc_call *call, const struct attempt *a)
{
	struct json *j = rpc_call_result(call);

	json_begin_object(j);
	attempt_write_fields(j, a, attempt_status_name(a));
	json_end_object(j);
}

static int say_it_comes(const char *job_id, struct err *err)
{
	return err_set(err, -EBUSY, "how %s ended may be told in some seconds", job_id);
}

void service_answer_waiters(struct service *s, const struct watched *job)
{
	bool comes = job->a.is_lost && service_expects_word(s, &job->a);
	struct err err = ERR_INIT;
	struct waiter *next;

	for (struct waiter *waiter = s->clients.waiters; waiter; waiter = next) {
		struct rpc_call *call = waiter->call;

		next = waiter->next;
		if (waiter->uid != job->a.uid || strcmp(waiter->job_id, job->job_id) != 0 ||
		    (waiter->attempt_id && job->a.id && waiter->attempt_id != job->a.id))
			continue;
		forget_waiter(waiter);
		if (comes) {
			rpc_call_fail(call, say_it_comes(job->job_id, &err), &err);
			continue;
		}
		write_end(call, &job->a);
		rpc_call_answer(call);
	}
}

/* One that never began has nothing but its name. */
void service_answer_dropped(struct service *s, const struct queued *job)
{
	CLEANUP(attempt_release) struct attempt a;
	struct watched dropped = { .job_id = job->job_id };

	attempt_init(&a);
	a.job_id = job->job_id;
	a.uid = job->uid;
	a.outcome = OUTCOME_CANCELLED;
	dropped.a = a;
	service_answer_waiters(s, &dropped);
}

static void on_timeout(void *ctx)
{
	struct waiter *waiter = ctx;
	struct rpc_call *call = waiter->call;
	struct err err = ERR_INIT;

	err_set(&err, -ETIMEDOUT, "job %s is not over yet", waiter->job_id);
	forget_waiter(waiter);
	rpc_call_fail(call, -ETIMEDOUT, &err);
}

static int wait_for(struct service *s, struct rpc_call *call, const struct wait_params *params,
		    uid_t uid, int64_t attempt_id, struct err *err)
{
	bool is_timed = f64_known(params->timeout_seconds);
	struct waiter *waiter = calloc(1, sizeof(*waiter));

	if (waiter)
		*waiter = (struct waiter){
			.service = s,
			.call = call,
			.job_id = strdup(params->job.job_id),
			.uid = uid,
			.attempt_id = attempt_id,
			.timer = is_timed ? loop_timer_new(s->loop, on_timeout, waiter) : NULL,
			.next = s->clients.waiters,
		};
	if (!waiter || !waiter->job_id || (is_timed && !waiter->timer)) {
		if (waiter)
			free(waiter->job_id);
		free(waiter);
		return err_set(err, -ENOMEM, "no memory left to wait");
	}
	if (is_timed)
		loop_timer_set(waiter->timer, (uint64_t)(params->timeout_seconds * 1000), 0);
	s->clients.waiters = waiter;
	rpc_call_defer(call, forget_waiter, waiter);
	return 0;
}

/* Of a job that is over the answer comes at once. */
int method_job_wait(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct service *s = ctx;
	struct wait_params params = { JOB_PARAMS_INIT, .timeout_seconds = F64_UNKNOWN };
	struct found_job job;
	int num = 0, r = rpc_call_read(call, wait_fields, ARRAY_SIZE(wait_fields), &params, err);

	attempt_init(&a);
	if (r < 0)
		return r;
	service_look(s);
	service_find_job(s, rpc_call_peer(call), &params.job, SERVICE_READ, &job);
	if (job.watched)
		return wait_for(s, call, &params, (uid_t)job.watched->a.uid, job.watched->a.id,
				err);
	if (job.queued && !service_has_begun(s, job.queued))
		return wait_for(s, call, &params, job.queued->uid, 0, err);
	r = service_find_attempt(s, rpc_call_peer(call), params.job.job_id, params.job.attempt,
				 &num, err);
	if (r == 0)
		r = store_read_progress(s->store, params.job.job_id, num, &a, err);
	if (r == 0 && a.is_lost && service_expects_word(s, &a))
		r = say_it_comes(params.job.job_id, err);
	if (r == 0 && a.is_running)
		r = err_set(err, -EBUSY, "job %s runs, and cannot be followed now: try again",
			    params.job.job_id);
	if (r == 0)
		write_end(call, &a);
	return r;
}
