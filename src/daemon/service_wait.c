#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "daemon/service_internal.h"

struct waiter {
	struct service *service;
	struct rpc_call *call;
	char *job_id;
	uid_t uid;	    /* whose */
	int64_t attempt_id; /* 0: the next that begins */
	struct waiter *next;
};

static void forget_waiter(void *ctx)
{
	struct waiter *waiter = ctx;
	struct waiter **at = &waiter->service->waiters;

	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
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

void service_answer_waiters(struct service *s, const struct watched *job)
{
	struct waiter *next;

	for (struct waiter *waiter = s->waiters; waiter; waiter = next) {
		struct rpc_call *call = waiter->call;

		next = waiter->next;
		if (waiter->uid != job->a.uid || strcmp(waiter->job_id, job->job_id) != 0 ||
		    (waiter->attempt_id && job->a.id && waiter->attempt_id != job->a.id))
			continue;
		write_end(call, &job->a);
		forget_waiter(waiter);
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

static int wait_for(struct service *s, struct rpc_call *call, const char *job_id, uid_t uid,
		    int64_t attempt_id, struct err *err)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));

	if (waiter)
		waiter->job_id = strdup(job_id);
	if (!waiter || !waiter->job_id) {
		free(waiter);
		return err_set(err, -ENOMEM, "no memory left to wait");
	}
	waiter->service = s;
	waiter->call = call;
	waiter->uid = uid;
	waiter->attempt_id = attempt_id;
	waiter->next = s->waiters;
	s->waiters = waiter;
	rpc_call_defer(call, forget_waiter, waiter);
	return 0;
}

static int answer_from_store(struct service *s, struct rpc_call *call,
			     const struct job_params *params, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	int num = 0, r;

	attempt_init(&a);
	r = service_find_attempt(s, rpc_call_peer(call), params->job_id, params->attempt, &num,
				 err);
	if (r == 0)
		r = store_read_progress(s->store, params->job_id, num, &a, err);
	if (r == 0 && a.is_lost && service_expects_word(s, &a))
		r = err_set(err, -EBUSY, "how %s ended may be told in some seconds",
			    params->job_id);
	if (r == 0)
		write_end(call, &a);
	return r;
}

/* Of a job that is over the answer comes at once. */
static int job_wait(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct job_params params;
	struct found_job job;
	int r = service_read_job(call, &params, err);

	if (r < 0)
		return r;
	service_look(s);
	service_find_job(s, rpc_call_peer(call), &params, SERVICE_READ, &job);
	if (job.watched)
		return wait_for(s, call, params.job_id, (uid_t)job.watched->a.uid,
				job.watched->a.id, err);
	if (job.queued && !service_has_run(s, job.queued))
		return wait_for(s, call, params.job_id, job.queued->uid, 0, err);
	return answer_from_store(s, call, &params, err);
}

const struct rpc_method service_wait_methods[] = {
	{ "job.wait", job_wait, RPC_FOR_ALL },
	{ 0 },
};
