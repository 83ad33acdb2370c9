#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/process_handle.h"
#include "daemon/follow/follow.h"
#include "daemon/methods/methods.h"
#include "report/report.h"

static void write_job(struct json *j, const struct watched *job)
{
	const struct attempt *a = &job->a;
	const struct sheet_record *last = a->n_sheets ? &a->sheets[a->n_sheets - 1] : NULL;
	bool is_it = last && last->num == a->current_sheet;

	json_begin_object(j);
	attempt_write_fields(j, a, attempt_status_name(a));
	/* The sheet that runs: which it is stands in current_sheet. */
	json_key_string(j, "current_sheet_name", is_it ? last->name : NULL);
	json_key_f64(j, "current_sheet_started",
		     is_it ? u64_to_seconds(last->started_wall_ns) : F64_UNKNOWN);
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
	a.uid = job->uid;
	a.command = job->name;
	a.workdir = job->workdir;
	json_begin_object(j);
	attempt_write_fields(j, &a, "queued");
	json_key_f64(j, "submitted", clock_ns_to_seconds(job->submitted_wall_ns));
	json_key_u64(j, "submission", job->submission);
	json_key_string(j, "why_queued",
			job->is_started	 ? "its runner is starting"
			: job->reason[0] ? job->reason
					 : NULL);
	json_end_object(j);
	attempt_release(&a);
}

int method_job_list(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct queued *queued;
	struct service *s = ctx;
	struct json *j = rpc_call_result(call);
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	(void)err;
	json_begin_array(j);
	for (size_t i = 0; i < n; i++)
		if (!jobs[i]->is_awaited &&
		    service_may_read(s, rpc_call_peer(call), jobs[i]->a.uid))
			write_job(j, jobs[i]);
	for (size_t i = 0; (queued = queue_at(s->queue, i)); i++)
		if (service_may_read(s, rpc_call_peer(call), queued->uid) &&
		    !service_has_begun(s, queued))
			write_queued(j, queued);
	json_end_array(j);
	return 0;
}

static const struct rpc_field job_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct job_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct job_params, attempt), .max = INT32_MAX },
	{ "uid", RPC_U64, offsetof(struct job_params, uid), .max = UINT32_MAX },
	{ "queued", RPC_BOOL, offsetof(struct job_params, only_queued), .is_required = false },
};

int service_read_job(const struct rpc_call *call, struct job_params *ret, struct err *err)
{
	int r;

	*ret = (struct job_params)JOB_PARAMS_INIT;
	r = rpc_call_read(call, job_fields, ARRAY_SIZE(job_fields), ret, err);
	if (r == 0 && ret->only_queued && ret->attempt > 0)
		r = err_set(err, -EINVAL, "one that is 'queued' has no 'attempt' yet");
	return r;
}

/* ---- reports ---- */

struct report_params {
	struct job_params job;
	const char *format; /* NULL: JSON */
};

static const struct rpc_field report_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct report_params, job.job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct report_params, job.attempt), .max = INT32_MAX },
	{ "format", RPC_STRING, offsetof(struct report_params, format), .is_required = false },
};

struct report_task {
	char job_id[JOB_ID_MAX + 1];
	int num;
	enum report_format format;
	bool only_own; /* runs of its user are what it is compared with */
	bool sees_all;
};

static int read_report(void *ctx, struct store *store, struct buf *ret_json, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	const struct report_task *task = ctx;
	struct json j;
	int r;

	attempt_init(&a);
	r = store_read_attempt(store, task->job_id, task->num, &a, err);
	for (size_t i = 0; !task->sees_all && i < a.details.n_anomalies; i++)
		recorded_hide_host(&a.details.anomalies[i]);
	if (r == 0)
		r = recorded_ranks_judge(store, &a, err);
	if (r == 0)
		r = learning_judge_standing(store, &a, task->only_own, err);
	if (r < 0)
		return r;
	if (report_write(&a, task->format, task->format == REPORT_JSON ? ret_json : &text) < 0)
		return err_set(err, -ENOMEM, "no memory left for the report");
	if (task->format != REPORT_JSON) {
		json_init(&j, ret_json);
		json_str(&j, text.data);
	} else if (ret_json->len > 0 && ret_json->data[ret_json->len - 1] == '\n') {
		buf_truncate(ret_json, ret_json->len - 1); /* an answer is one line */
	}
	return 0;
}

/* Of a job that ran for a day it takes a third of a second. */
static const struct aside_answer answer_report = { .work = read_report, .release = free };

int method_job_report(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct report_task *task;
	struct report_params params = { 0 };
	enum report_format format = REPORT_JSON;
	int num = 0,
	    r = rpc_call_read(call, report_fields, ARRAY_SIZE(report_fields), &params, err);

	if (r == 0 && params.format && report_format_from_name(params.format, &format) < 0)
		r = err_set(err, -EINVAL, "'format' wants text, json, md or html");
	if (r == 0)
		r = service_find_attempt(s, rpc_call_peer(call), params.job.job_id,
					 params.job.attempt, &num, err);
	if (r < 0)
		return r;
	task = malloc(sizeof(*task));
	if (!task)
		return err_set(err, -ENOMEM, "no memory left for the report");
	*task = (struct report_task){
		.num = num,
		.format = format,
		.only_own = !service_is_owner(rpc_call_peer(call)),
		.sees_all = service_reads_all(s, rpc_call_peer(call)),
	};
	snprintf(task->job_id, sizeof(task->job_id), "%s", params.job.job_id);
	return service_answer_aside(s, call, &answer_report, task, err);
}

/* ---- outcomes, as a person judges them ---- */

#define NOTE_MAX_BYTES 1000

struct outcome_params {
	const char *job_id, *outcome, *note;
	uint64_t attempt;
};

static const struct rpc_field outcome_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct outcome_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct outcome_params, attempt), .is_required = true,
	  .min = 1, .max = INT32_MAX },
	{ "outcome", RPC_STRING, offsetof(struct outcome_params, outcome), .is_required = true },
	{ "note", RPC_STRING, offsetof(struct outcome_params, note), .is_required = false },
};

int method_job_outcome(void *ctx, struct rpc_call *call, struct err *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	CLEANUP(attempt_release) struct attempt a;
	struct outcome_params params = { 0 };
	struct store_verdict verdict = { .uid = peer->uid, .wall_ns = clock_wall_ns() };
	struct service *s = ctx;
	struct json *j;
	int num = 0,
	    r = rpc_call_read(call, outcome_fields, ARRAY_SIZE(outcome_fields), &params, err);

	attempt_init(&a);
	if (r < 0)
		return r;
	verdict.note = params.note;
	if (strcmp(params.outcome, "measured") != 0)
		verdict.outcome = outcome_from_name(params.outcome);
	if (strcmp(params.outcome, "measured") != 0 && verdict.outcome != OUTCOME_SUCCESS &&
	    verdict.outcome != OUTCOME_FAILURE)
		return err_set(err, -EINVAL, "'outcome' wants success, failure or measured");
	if (params.note && strlen(params.note) > NOTE_MAX_BYTES)
		return err_set(err, -EINVAL, "'note' has at most %d bytes", NOTE_MAX_BYTES);
	r = service_find_attempt(s, peer, params.job_id, params.attempt, &num, err);
	if (r == 0)
		r = store_read_progress(s->store, params.job_id, num, &a, err);
	if (r == 0 && !service_may_control(peer, a.uid))
		r = err_set(err, -EPERM, "job %s is not yours to judge", params.job_id);
	if (r == 0)
		r = verdict.outcome == OUTCOME_NONE
			    ? store_restore_outcome(s->store, params.job_id, num, err)
			    : store_set_outcome(s->store, params.job_id, num, &verdict, err);
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "job_id", params.job_id);
	json_key_int(j, "attempt", num);
	json_key_string(j, "outcome", params.outcome);
	json_end_object(j);
	return 0;
}

/* ---- what was recorded of jobs, for those who may not read the database itself ---- */

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

static const struct rpc_field recorded_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct recorded_params, job_id), .is_required = false },
	{ "since_ns", RPC_U64, offsetof(struct recorded_params, since_ns), .max = MAX_NS },
	{ "until_ns", RPC_U64, offsetof(struct recorded_params, until_ns), .max = MAX_NS },
	{ "pid", RPC_U64, offsetof(struct recorded_params, pid), .max = 4194304 },
	{ "limit", RPC_U64, offsetof(struct recorded_params, limit), .max = 1000000000 },
	{ "latest", RPC_BOOL, offsetof(struct recorded_params, latest), .is_required = false },
};

static int read_recorded(void *ctx, struct store *store, struct buf *ret_json, struct err *err)
{
	struct recorded_task *task = ctx;
	struct recorded *recorded = &task->recorded;
	int r = task->read(recorded, store, err);
	struct json j;

	if (r == 0) {
		json_init_object(&j, ret_json);
		json_key(&j, task->name);
		json_raw(&j, recorded->list.data, recorded->list.len);
		json_key_u64(&j, "next_ns", recorded->next_wall_ns);
		json_end_object(&j);
	}
	recorded_release(recorded);
	return r;
}

static const struct aside_answer answer_recorded = { .work = read_recorded, .release = free };

static int answer_with(struct service *s, struct rpc_call *call, read_fn *read, const char *name,
		       bool needs_job, struct err *err)
{
	struct recorded_params params = { 0 };
	struct recorded_task *task;
	int r = rpc_call_read(call, recorded_fields, ARRAY_SIZE(recorded_fields), &params, err);

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
	return answer_with(ctx, call, recorded_read_attempts, "attempts", false, err);
}

int method_job_samples(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer_with(ctx, call, recorded_read_samples, "samples", true, err);
}

/* ---- what processes used over time, for a picture ---- */

#define SERIES_POINTS 600
#define SERIES_MAX_POINTS 4000

struct series_params {
	const char *job_id, *metric;
	uint64_t attempt, since_ns, until_ns, points;
};

static const struct rpc_field series_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct series_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct series_params, attempt), .max = INT32_MAX },
	{ "metric", RPC_STRING, offsetof(struct series_params, metric), .is_required = true },
	{ "since_ns", RPC_U64, offsetof(struct series_params, since_ns), .max = MAX_NS },
	{ "until_ns", RPC_U64, offsetof(struct series_params, until_ns), .max = MAX_NS },
	{ "points", RPC_U64, offsetof(struct series_params, points), .min = 1,
	  .max = SERIES_MAX_POINTS },
};

struct series_task {
	struct recorded_series series;
	char job_id[JOB_ID_MAX + 1];
};

static int read_series(void *ctx, struct store *store, struct buf *ret_json, struct err *err)
{
	CLEANUP(attempt_release) struct attempt a;
	struct series_task *task = ctx;
	struct recorded_series *series = &task->series;
	int r;

	attempt_init(&a);
	r = store_read_progress(store, task->job_id, series->attempt_num, &a, err);
	if (r < 0)
		return r;
	series->job_id = task->job_id;
	if (series->since_wall_ns == 0)
		series->since_wall_ns = a.started_wall_ns;
	if (series->until_wall_ns == 0)
		series->until_wall_ns =
			u64_known(a.ended_wall_ns) ? a.ended_wall_ns : clock_wall_ns();
	return recorded_series_read(series, store, ret_json, err);
}

static const struct aside_answer answer_series = { .work = read_series, .release = free };

int method_job_series(void *ctx, struct rpc_call *call, struct err *err)
{
	struct series_params params = { .points = SERIES_POINTS };
	struct series_task *task;
	struct service *s = ctx;
	int num = 0, metric,
	    r = rpc_call_read(call, series_fields, ARRAY_SIZE(series_fields), &params, err);

	if (r < 0)
		return r;
	metric = recorded_series_metric(params.metric);
	if (metric < 0)
		return err_set(
			err, -EINVAL,
			"'metric' wants rss, swap, cpu, io, gpu_memory, gpu, threads or fds");
	r = service_find_attempt(s, rpc_call_peer(call), params.job_id, params.attempt, &num, err);
	if (r < 0)
		return r;
	task = calloc(1, sizeof(*task));
	if (!task)
		return err_set(err, -ENOMEM, "no memory left for the series");
	task->series = (struct recorded_series){ .attempt_num = num,
						 .since_wall_ns = params.since_ns,
						 .until_wall_ns = params.until_ns,
						 .n_buckets = params.points,
						 .metric = metric };
	snprintf(task->job_id, sizeof(task->job_id), "%s", params.job_id);
	return service_answer_aside(s, call, &answer_series, task, err);
}

int method_job_events(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer_with(ctx, call, recorded_read_events, "events", true, err);
}

int method_job_anomalies(void *ctx, struct rpc_call *call, struct err *err)
{
	return answer_with(ctx, call, recorded_read_anomalies, "anomalies", false, err);
}

/* ---- cancelling ---- */

/*
 * The runner ends the whole tree: SIGTERM, and SIGKILL to what is left. A pid
 * that was given away since is not signalled: the kernel's handle is for the
 * process whose start time was looked at. What is no longer its owner's (by way of
 * a program that is set-uid) the owner could not signal, so we do not for them.
 */
static int cancel_running(struct service *s, const struct rpc_peer *peer, struct watched *job,
			  struct err *err)
{
	int r;

	if (job->a.is_attached)
		return service_cancel_attached(s, job, err);
	if (job->is_awaited)
		return err_set(err, -EBUSY, "%s is over: how it ended waits to be recorded",
			       job->job_id);
	if (!service_is_owner(peer) && !caller_is_process_of(job->a.runner.pid, peer->uid))
		return err_set(err, -EPERM, "the runner of %s is not yours any more", job->job_id);
	r = signal_process(&job->a.runner, SIGTERM, RUNNER_CANCEL);
	if (r < 0)
		return err_set(err, r, "cannot end the runner of %s: %s", job->job_id,
			       strerror(-r));
	return 0;
}

/*
 * Of one that is starting its runner has not told of it yet, and may never: so it is ended by the
 * pid that we know from starting it. If it has begun nothing it dies of the signal, else it ends
 * what it has begun.
 */
static int cancel_queued(struct service *s, const struct rpc_peer *peer, struct queued *job,
			 struct err *err)
{
	int r = -EAGAIN;

	if (!job->is_started) {
		service_cancel_queued(s, job, peer);
		return 0;
	}
	if (job->was_executed && u64_known(job->runner.start_ticks) &&
	    (service_is_owner(peer) || caller_is_process_of(job->runner.pid, peer->uid)))
		r = signal_process(&job->runner, SIGTERM, RUNNER_CANCEL);
	if (r < 0)
		return err_set(err, -EAGAIN, "job %s is just starting: try again", job->job_id);
	job->is_cancelled = true;
	return 0;
}

/*
 * A name without a number means all that runs of it, and what waits: of the user whose the first is
 * that was found. One that cannot be ended does not keep the others alive.
 */
static int cancel_all(struct service *s, const struct rpc_peer *peer, const char *job_id,
		      uint64_t uid, size_t *n_attempts, struct err *err)
{
	struct queued *queued = queue_find(s->queue, job_id, (uid_t)uid);
	size_t n, n_found = 0;
	struct watched **jobs = watch_jobs(s->watch, &n);
	int r = 0, failed = 0;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(jobs[i]->job_id, job_id) != 0 || jobs[i]->a.uid != uid)
			continue;
		r = cancel_running(s, peer, jobs[i], failed ? NULL : err);
		*n_attempts += r == 0;
		failed = failed ? failed : r;
		n_found++;
	}
	if (queued && (n_found == 0 || !service_has_begun(s, queued))) /* else it is one of those */
		r = cancel_queued(s, peer, queued, failed ? NULL : err);
	return failed ? failed : r;
}

/* It is over, or was never there: which of the two is said to who may know, and names no user. */
static int refuse_unknown(struct service *s, const struct rpc_peer *peer,
			  const struct job_params *params, struct err *err)
{
	int num = 0;

	if (params->only_queued)
		return err_set(err, -ENOENT, "no job %s waits", params->job_id);
	if (u64_known(params->uid) && params->uid != peer->uid)
		return err_set(err, -ENOENT, "no job %s of user %llu is there to be ended",
			       params->job_id, (unsigned long long)params->uid);
	if (s->store &&
	    service_find_attempt(s, peer, params->job_id, params->attempt, &num, NULL) == 0)
		return err_set(err, -ENOENT, "job %s is over, and nothing of it is left",
			       params->job_id);
	return err_set(err, -ENOENT, "there is no job %s", params->job_id);
}

int method_job_cancel(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct job_params params;
	struct found_job job;
	struct json *j;
	size_t n_attempts = 0;
	int r = service_read_job(call, &params, err);

	if (r < 0)
		return r;
	service_look(s);
	r = service_check_meant(s, peer, &params, SERVICE_CONTROL, err);
	if (r < 0)
		return r;
	if (!service_find_job(s, peer, &params, SERVICE_CONTROL, &job)) {
		if (service_find_job(s, peer, &params, SERVICE_READ, &job))
			r = err_set(err, -EPERM, "job %s is not yours to cancel", params.job_id);
		else if (params.only_queued ||
			 (r = service_cancel_orphans(s, peer, &params)) == -ENOENT)
			r = refuse_unknown(s, peer, &params, err);
	} else if (params.only_queued) {
		/* Who means only what waits does not mean the attempt that it becomes. Its runner
		 * may have begun the command and not be known yet. */
		if (job.queued->start_fd >= 0)
			r = err_set(err, -EAGAIN, "job %s is just starting: try again",
				    params.job_id);
		else if (job.queued->is_started)
			r = err_set(err, -ENOENT, "job %s waits no more: it has begun",
				    params.job_id);
		else
			service_cancel_queued(s, job.queued, peer);
	} else if (params.attempt == 0) {
		r = cancel_all(s, peer, params.job_id,
			       job.watched ? job.watched->a.uid : job.queued->uid, &n_attempts,
			       err);
	} else {
		n_attempts = 1;
		r = cancel_running(s, peer, job.watched, err);
	}
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "job_id", params.job_id);
	json_key_bool(j, "cancelling", true);
	json_key_u64(j, "attempts", n_attempts);
	json_end_object(j);
	return 0;
}
