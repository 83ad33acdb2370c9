/*
 * service_wait - calls that wait: for the end of a job, or for an analysis of all that has ended.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"

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
	char job_id[JOB_ID_MAX + 1]; /* "": it waits for an analysis: */
	uint64_t analysis;	     /* of this number */
	uid_t uid;		     /* whose job */
	int64_t attempt_id;	     /* 0: the next that begins */
	struct loop_timer *timer;    /* NULL: for ever */
	struct waiter *next;
};

static void forget_waiter(void *ctx)
{
	struct waiter *waiter = ctx;

	LIST_REMOVE(waiter->service->clients.waiters, waiter, next);
	if (waiter->timer)
		loop_timer_close(waiter->timer);
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
		if (!waiter->job_id[0] || waiter->uid != job->a.uid ||
		    strcmp(waiter->job_id, job->job_id) != 0 ||
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
			.uid = uid,
			.attempt_id = attempt_id,
			.timer = is_timed ? loop_timer_new(s->loop, on_timeout, waiter) : NULL,
			.next = s->clients.waiters,
		};
	if (!waiter || (is_timed && !waiter->timer)) {
		free(waiter);
		return err_set(err, -ENOMEM, "no memory left to wait");
	}
	snprintf(waiter->job_id, sizeof(waiter->job_id), "%s", params->job.job_id);
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

/* ---- an analysis ---- */

static void on_analysis(void *ctx, uint64_t num, const struct learning *l, const struct err *err)
{
	struct service *s = ctx;
	struct waiter *next;

	for (struct waiter *waiter = s->clients.waiters; waiter; waiter = next) {
		struct rpc_call *call = waiter->call;

		next = waiter->next;
		if (waiter->job_id[0] || waiter->analysis > num)
			continue;
		forget_waiter(waiter);
		if (!l) {
			rpc_call_fail(call, -EIO, err);
			continue;
		}
		learning_write_json(rpc_call_result(call), l);
		rpc_call_answer(call);
	}
}

/* What is about jobs of all users is for those who see all of them. */
static void on_news(void *ctx, const struct pattern *pattern, uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct service *s = ctx;
	struct json j;

	json_init(&j, &out);
	belief_write_json(&j, pattern);
	service_publish(s, TOPIC_PATTERN, clock_wall_ns(), uid, &out);
}

int service_begin_learning(struct service *s, struct err *err)
{
	const struct config_correlation *c = &s->settings.config->correlation;
	const struct learner_options options = {
		.loop = s->loop,
		.db = s->database.path,
		.on_news = on_news,
		.on_analysis = on_analysis,
		.ctx = s,
		.interval_minutes = (unsigned)c->interval_minutes,
		.min_jobs = (size_t)c->min_sample_size,
	};

	s->learner = learner_new(&options);
	s->aside = aside_new(s->loop, s->database.path, service_check_alive);
	s->starting.submitter = aside_new(s->loop, s->database.path, service_check_alive);
	return s->learner && s->aside && s->starting.submitter
		       ? 0
		       : err_set(err, -ENOMEM, "no memory left to begin");
}

static int read_patterns(void *ctx, struct store *store, struct buf *ret_json, struct err *err)
{
	CLEANUP(pattern_list_release) struct pattern_list list = { .arena = ARENA_INIT };
	int r = store_list_patterns(store, &list, err);
	struct json j;

	(void)ctx;
	if (r < 0)
		return r;
	json_init(&j, ret_json);
	json_begin_array(&j);
	for (size_t i = 0; i < list.n; i++)
		belief_write_json(&j, &list.items[i]);
	json_end_array(&j);
	return 0;
}

static void release_nothing(void *ctx)
{
	(void)ctx;
}

/* A pattern does not name whose runs it was found on. */
int method_learn_patterns(void *ctx, struct rpc_call *call, struct err *err)
{
	static const struct aside_answer answer = { .work = read_patterns,
						    .release = release_nothing };

	if (!service_reads_all(ctx, rpc_call_peer(call)))
		return err_set(
			err, -EPERM,
			"patterns are found on the jobs of all users, and are for who sees all "
			"jobs");
	return service_answer_aside(ctx, call, &answer, NULL, err);
}

int method_correlate(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct waiter *waiter = malloc(sizeof(*waiter));

	if (!waiter)
		return err_set(err, -ENOMEM, "no memory left to wait");
	*waiter = (struct waiter){
		.service = s, .call = call, .analysis = UINT64_MAX, .next = s->clients.waiters
	};
	s->clients.waiters = waiter;
	rpc_call_defer(call, forget_waiter, waiter);
	waiter->analysis = learner_analyze_now(s->learner);
	return 0;
}
