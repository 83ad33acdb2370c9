#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

/*
 * What was recorded of jobs, for those who may not read the database itself.
 */

typedef int read_fn(struct recorded *r, struct store *store, struct err *err);

struct recorded_task {
	struct recorded recorded;
	read_fn *read;
	const char *name; /* of the list in the answer */
};

struct recorded_params {
	const char *job_id;
	uint64_t since_ns, until_ns, pid, limit;
	bool latest;
};

#define MAX_NS UINT64_C(9000000000000000000)

static const struct rpc_field fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct recorded_params, job_id), .is_required = false },
	{ "since_ns", RPC_U64, offsetof(struct recorded_params, since_ns), .max = MAX_NS },
	{ "until_ns", RPC_U64, offsetof(struct recorded_params, until_ns), .max = MAX_NS },
	{ "pid", RPC_U64, offsetof(struct recorded_params, pid), .max = 4194304 },
	{ "limit", RPC_U64, offsetof(struct recorded_params, limit), .max = 1000000000 },
	{ "latest", RPC_BOOL, offsetof(struct recorded_params, latest), .is_required = false },
};

static int do_read(void *ctx, struct store *store, struct buf *ret_json, struct err *err)
{
	struct recorded_task *task = ctx;
	struct recorded *recorded = &task->recorded;
	int r = task->read(recorded, store, err);
	struct json j;

	if (r == 0) {
		json_init(&j, ret_json);
		json_begin_object(&j);
		json_key(&j, task->name);
		json_raw(&j, recorded->list.data, recorded->list.len);
		json_key_u64(&j, "next_ns", recorded->next_wall_ns);
		json_end_object(&j);
	}
	recorded_release(recorded);
	return r;
}

static const struct aside_answer answer_recorded = { .work = do_read, .release = free };

static int answer(struct service *s, struct rpc_call *call, read_fn *read, const char *name,
		  bool needs_job, struct err *err)
{
	struct recorded_params params = { 0 };
	struct recorded_task *task;
	int r = rpc_call_read(call, fields, ARRAY_SIZE(fields), &params, err);

	if (r == 0 && (params.job_id || needs_job) &&
	    !(params.job_id && job_id_is_valid(params.job_id)))
		r = err_set(err, -EINVAL, "'job_id' is not the id of a job");
	if (r < 0)
		return r;
	task = malloc(sizeof(*task));
	if (!task)
		return err_set(err, -ENOMEM, "no memory left for what was recorded");
	*task = (struct recorded_task){ RECORDED_INIT, read, name };
	snprintf(task->recorded.job_id, sizeof(task->recorded.job_id), "%s",
		 params.job_id ? params.job_id : "");
	task->recorded.uid =
		service_reads_all(s, rpc_call_peer(call)) ? U64_UNKNOWN : rpc_call_peer(call)->uid;
	task->recorded.since_wall_ns = params.since_ns;
	task->recorded.until_wall_ns = params.until_ns;
	task->recorded.pid = (pid_t)params.pid;
	task->recorded.limit = params.limit;
	task->recorded.latest_only = params.latest;
	return service_answer_aside(s, call, &answer_recorded, task, err);
}

int method_job_attempts(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer(ctx, call, recorded_read_attempts, "attempts", false, err);
}

int method_job_samples(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer(ctx, call, recorded_read_samples, "samples", true, err);
}

int method_job_events(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer(ctx, call, recorded_read_events, "events", true, err);
}

int method_job_anomalies(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer(ctx, call, recorded_read_anomalies, "anomalies", false, err);
}
