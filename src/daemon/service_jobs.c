#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"
#include "daemon/signal_process.h"
#include "report/report.h"

static void write_job(struct json *j, const struct watched *job)
{
	const struct attempt *a = &job->a;

	json_begin_object(j);
	attempt_write_fields(j, a, attempt_status_name(a));
	json_key_u64(j, "processes", job->n_processes);
	json_key_f64(j, "rss_mb", u64_to_mb(job->point.rss_bytes));
	json_key_f64(j, "cpu_pct", job->point.cpu_percent);
	json_key_string(j, "why_held", service_why_held(job));
	json_end_object(j);
}

/* One that waits for its turn has no attempt yet. */
static void write_queued(struct json *j, const struct queued *job)
{
	struct attempt a;

	attempt_init(&a);
	a.job_id = job->job_id;
	json_begin_object(j);
	attempt_write_fields(j, &a, "queued");
	json_key_f64(j, "submitted", clock_ns_to_seconds(job->submitted_wall_ns));
	json_key_string(j, "why_queued", job->reason[0] ? job->reason : NULL);
	json_end_object(j);
	attempt_release(&a);
}

static int job_list(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct queued *queued;
	struct service *s = ctx;
	struct json *j = rpc_call_result(call);
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	(void)err;
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		if (service_may_see(rpc_call_peer(call), jobs[i]->a.uid))
			write_job(j, jobs[i]);
	for (size_t i = 0;
	     service_sees_all(rpc_call_peer(call)) && (queued = queue_at(s->queue, i)); i++)
		if (!queued->is_started)
			write_queued(j, queued);
	json_end_array(j);
	return 0;
}

static const struct rpc_field job_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct job_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct job_params, attempt), .max = INT32_MAX },
};

int service_read_job(const struct rpc_call *call, struct job_params *ret, struct err *err)
{
	*ret = (struct job_params){ 0 };
	return rpc_call_read(call, job_fields, ARRAY_SIZE(job_fields), ret, err);
}

static int job_report(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct service *s = ctx;
	struct job_params params;
	int r = service_read_job(call, &params, err);

	attempt_init(&a);
	if (r == 0)
		r = service_need_store(s, err);
	if (r == 0)
		r = store_read_attempt(s->store, params.job_id, (int)params.attempt, &a, err);
	if (r < 0)
		return r;
	if (!service_may_see(rpc_call_peer(call), a.uid))
		return err_set(err, -ENOENT, "no job %s was recorded", params.job_id);
	if (report_write(&a, REPORT_JSON, &out) < 0)
		return err_set(err, -ENOMEM, "no memory left for the report");
	if (out.len > 0 && out.data[out.len - 1] == '\n')
		buf_truncate(&out, out.len - 1); /* an answer is one line */
	json_raw(rpc_call_result(call), out.data, out.len);
	return 0;
}

/* One that has not begun is only forgotten. */
static bool cancel_queued(struct service *s, struct rpc_call *call, const char *job_id)
{
	struct queued *job = queue_find(s->queue, job_id);
	struct json *j = rpc_call_result(call);

	if (!job || job->is_started || !service_sees_all(rpc_call_peer(call)))
		return false;
	queue_drop(s->queue, job);
	json_begin_object(j);
	json_key_string(j, "job_id", job_id);
	json_key_bool(j, "cancelling", true);
	json_end_object(j);
	return true;
}

/*
 * The runner ends the whole tree: SIGTERM, and SIGKILL to what is left. A pid
 * that was given away since is not signalled: the kernel's handle is for the
 * process whose start time was looked at.
 */
static int job_cancel(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct job_params params;
	struct watched *job = NULL;
	struct json *j;
	int r = service_read_job(call, &params, err);

	if (r < 0)
		return r;
	if (cancel_queued(s, call, params.job_id))
		return 0;
	service_look(s);
	r = service_find_job(s, rpc_call_peer(call), params.job_id, &job, err);
	if (r < 0 && queue_find(s->queue, params.job_id))
		return err_set(err, -EAGAIN, "job %s is just starting: try again", params.job_id);
	if (r == 0)
		r = signal_process(&job->a.runner, SIGTERM, RUNNER_CANCEL);
	if (r < 0)
		return err->code ? r
				 : err_set(err, r, "cannot end the runner of %s: %s", params.job_id,
					   strerror(-r));
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "job_id", job->job_id);
	json_key_bool(j, "cancelling", true);
	json_end_object(j);
	return 0;
}

struct submit_params {
	const char *file, *name, *workdir, *job_id;
};

static const struct rpc_field submit_fields[] = {
	{ "file", RPC_STRING, offsetof(struct submit_params, file), .is_required = true },
	{ "workdir", RPC_STRING, offsetof(struct submit_params, workdir), .is_required = true },
	{ "job_id", RPC_STRING, offsetof(struct submit_params, job_id), .is_required = false },
	{ "name", RPC_STRING, offsetof(struct submit_params, name), .is_required = false },
};

/* As "proctor run" makes one: from what it is, when it came, and a bit that nobody else has. */
static const char *make_job_id(const struct submit_params *params, const struct job_spec *spec,
			       char *room, size_t size)
{
	uint64_t now = clock_wall_ns();

	if (params->job_id)
		return params->job_id;
	if (spec->job_id)
		return spec->job_id;
	snprintf(room, size, "job-%llx-%04x", (unsigned long long)(now / 1000000000),
		 (unsigned)(now / 1000 % 65536));
	return room;
}

static int check_submission(struct service *s, const struct submit_params *params,
			    const char *job_id, struct err *err)
{
	if (params->workdir[0] != '/')
		return err_set(err, -EINVAL, "'workdir' must begin with /, not '%s'",
			       params->workdir);
	if (!job_id_is_valid(job_id))
		return err_set(err, -EINVAL, "'%s' cannot be the id of a job", job_id);
	if (pressure_refuses_jobs(s->pressure.level))
		return err_set(err, -EBUSY, "no new jobs: the pressure is %s (%s)",
			       pressure_name(s->pressure.level), s->pressure.reason);
	if (watch_find(s->watch, job_id))
		return err_set(err, -EEXIST, "a job %s runs already", job_id);
	return 0;
}

static int submit(struct service *s, const struct submit_params *params, const char *job_id,
		  struct rpc_call *call, struct err *err)
{
	const struct submission job = { job_id, params->file, strlen(params->file),
					params->workdir };
	struct json *j = rpc_call_result(call);
	int r = check_submission(s, params, job_id, err);

	if (r == 0)
		r = queue_add(s->queue, &job, err);
	if (r < 0)
		return r;
	json_begin_object(j);
	json_key_string(j, "job_id", job_id);
	json_end_object(j);
	service_run_queue(s);
	return 0;
}

/* Runs as who the daemon is: so only for who may be that. */
static int job_submit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct submit_params params = { 0 };
	struct job_spec spec;
	char room[64];
	int r = rpc_call_read(call, submit_fields, ARRAY_SIZE(submit_fields), &params, err);

	if (r == 0)
		r = job_file_parse(params.file, strlen(params.file),
				   params.name ? params.name : "the job file", &spec, err);
	if (r < 0)
		return r;
	r = submit(ctx, &params, make_job_id(&params, &spec, room, sizeof(room)), call, err);
	job_spec_release(&spec);
	return r;
}

const struct rpc_method service_job_methods[] = {
	{ "job.list", job_list, RPC_FOR_ALL },
	{ "job.submit", job_submit, RPC_FOR_OWNER },
	{ "job.report", job_report, RPC_FOR_ALL },
	{ "job.cancel", job_cancel, RPC_FOR_ALL },
	{ 0 },
};
