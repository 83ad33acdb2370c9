#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "daemon/service_internal.h"

struct waiter {
	struct service *service;
	struct rpc_call *call;
	char *job_id;
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
		if (strcmp(waiter->job_id, job->job_id) != 0 ||
		    !service_may_see(rpc_call_peer(call), job->a.uid))
			continue;
		write_end(call, &job->a);
		forget_waiter(waiter);
		rpc_call_answer(call);
	}
}

static int wait_for(struct service *s, struct rpc_call *call, const char *job_id, struct err *err)
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
	waiter->next = s->waiters;
	s->waiters = waiter;
	rpc_call_defer(call, forget_waiter, waiter);
	return 0;
}

/* Of a job that is over the answer comes at once. */
static int job_wait(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct service *s = ctx;
	struct job_params params;
	const struct watched *job;
	const struct queued *queued;
	int r = service_read_job(call, &params, err);

	attempt_init(&a);
	if (r < 0)
		return r;
	service_look(s);
	job = watch_find(s->watch, params.job_id);
	queued = service_sees_all(rpc_call_peer(call)) ? queue_find(s->queue, params.job_id) : NULL;
	if ((job && service_may_see(rpc_call_peer(call), job->a.uid)) ||
	    (!job && queued && !service_has_run(s, queued)))
		return wait_for(s, call, params.job_id, err);
	r = service_need_store(s, err);
	if (r == 0)
		r = store_read_progress(s->store, params.job_id, 0, &a, err);
	if (r == 0 && !service_may_see(rpc_call_peer(call), a.uid))
		r = err_set(err, -ENOENT, "no job %s was recorded", params.job_id);
	if (r == 0)
		write_end(call, &a);
	return r;
}

const struct rpc_method service_wait_methods[] = {
	{ "job.wait", job_wait, RPC_FOR_ALL },
	{ 0 },
};
