/*
 * service_submit - jobs that are handed to the daemon.
 *
 * A job file is parsed, its needs are looked up and it is written to the disk on another thread: a
 * disk may take a second for that, and ticks do not wait. The client's next request does, so that
 * it finds the job in the queue.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"
#include "daemon/queue/user.h"

struct submit_task {
	struct service *service;
	struct rpc_call *call; /* NULL: nobody waits for it any more */
	struct submission job; /* its strings are owned */
	struct queue_place place;
	bool is_written; /* there is a file at that place */
	int log_error;	 /* -errno: why what it prints will be lost; 0 */
	bool is_unnamed; /* its id is made, unless the file has one */
	struct job_spec spec;
	struct mask *mask; /* of the question; a reference */
	struct learning_question question;
	struct learning_answer answer;
	struct submit_task *next;
};

/* ---- what is asked for ---- */

struct submit_params {
	const char *file, *name, *workdir, *job_id;
	uint64_t input_bytes; /* as the submitter says, who may read them; U64_UNKNOWN */
};

static const struct rpc_field submit_fields[] = {
	{ "file", RPC_STRING, offsetof(struct submit_params, file), .is_required = true },
	{ "workdir", RPC_STRING, offsetof(struct submit_params, workdir), .is_required = true },
	{ "job_id", RPC_STRING, offsetof(struct submit_params, job_id), .is_required = false },
	{ "name", RPC_STRING, offsetof(struct submit_params, name), .is_required = false },
	{ "input_bytes", RPC_U64, offsetof(struct submit_params, input_bytes),
	  .is_required = false },
};

#define NAME_MAX_BYTES 1024

static int check_params(const struct submit_params *params, struct err *err)
{
	if (strlen(params->workdir) >= PATH_BYTES ||
	    (params->name && strlen(params->name) > NAME_MAX_BYTES))
		return err_set(err, -EINVAL, "'workdir' or 'name' is too long");
	if (params->workdir[0] != '/')
		return err_set(err, -EINVAL, "'workdir' must begin with /, not '%s'",
			       params->workdir);
	if (params->job_id && !job_id_is_valid(params->job_id))
		return err_set(err, -EINVAL, "'%s' cannot be the id of a job", params->job_id);
	return 0;
}

/* Who the job runs as: its submitter, where we can make that come true. */
static int find_runner_uid(const struct rpc_peer *peer, uid_t *ret, struct err *err)
{
	if (!service_is_owner(peer) && geteuid() != 0)
		return err_set(err, -EPERM,
			       "this daemon is not root's: it runs jobs for its own user only");
	*ret = service_is_owner(peer) ? geteuid() : peer->uid;
	return 0;
}

/* What is on its way is bounded as what waits is. */
static int check_share(const struct service *s, uid_t uid, size_t len, struct err *err)
{
	size_t n_bytes = len;

	for (const struct submit_task *task = s->starting.submits; task; task = task->next)
		n_bytes += task->job.uid == uid ? task->job.len : 0;
	if (n_bytes <= QUEUE_USER_MAX_BYTES)
		return 0;
	return err_set(err, -EBUSY, "%d MB of job files are on their way already: try again",
		       QUEUE_USER_MAX_BYTES >> 20);
}

static int check_pressure(const struct service *s, struct err *err)
{
	if (!pressure_refuses_jobs(s->pressure.level))
		return 0;
	return err_set(err, -EBUSY, "no new jobs: the pressure is %s (%s)",
		       pressure_name(s->pressure.level), s->pressure.reason);
}

/* What cannot be recorded cannot be followed. A database that is only locked most likely will be:
 * then the job is queued. */
static int check_record(const struct service *s, struct err *err)
{
	if (service_may_have_store(s))
		return 0;
	return err_set(err, -EBUSY, "no new jobs: %s", s->database.err.text);
}

/* ---- the task ---- */

static void forget(struct submit_task *task)
{
	struct submit_task **at = &task->service->starting.submits;

	while (*at && *at != task)
		at = &(*at)->next;
	if (*at)
		*at = task->next;
	job_spec_release(&task->spec);
	mask_free(task->mask);
	free((char *)task->job.job_id);
	free((char *)task->job.text);
	free((char *)task->job.workdir);
	free((char *)task->job.name);
	free(task);
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static struct submit_task *task_new(struct service *s, const struct submit_params *params,
				    uid_t uid)
{
	struct submit_task *task = calloc(1, sizeof(*task));

	if (!task)
		return NULL;
	task->service = s;
	job_spec_init(&task->spec);
	learning_answer_init(&task->answer);
	task->is_unnamed = !params->job_id;
	task->job = (struct submission){
		.job_id = copy(params->job_id),
		.text = copy(params->file),
		.len = strlen(params->file),
		.workdir = copy(params->workdir),
		.name = copy(params->name),
		.uid = uid,
		.input_bytes = params->input_bytes,
	};
	task->mask = mask_ref(s->settings.mask);
	task->question = service_ask_about(s, &task->spec, uid, params->input_bytes);
	if (task->job.text && task->job.workdir && !task->job.job_id == !params->job_id &&
	    !task->job.name == !params->name)
		return task;
	forget(task);
	return NULL;
}

/* ---- on the other thread ---- */

/* As "proctor run" makes one: from when it came, and a bit that nobody else has. */
static char *make_job_id(const struct submit_task *task)
{
	uint64_t now = task->place.wall_ns;
	char *id = NULL;

	if (task->spec.job_id)
		return strdup(task->spec.job_id);
	if (asprintf(&id, "job-%llx-%04x", (unsigned long long)(now / 1000000000),
		     (unsigned)(now / 1000 % 65536)) < 0)
		return NULL;
	return id;
}

static int name_job(struct submit_task *task, struct err *err)
{
	struct submission *job = &task->job;

	if (task->is_unnamed)
		job->job_id = make_job_id(task);
	if (job->job_id && !job->name)
		job->name = strdup(job->job_id);
	if (!job->job_id || !job->name)
		return err_set(err, -ENOMEM, "no memory left to queue the job");
	if (!job_id_is_valid(job->job_id))
		return err_set(err, -EINVAL, "'%s' cannot be the id of a job", job->job_id);
	return 0;
}

static int parse(struct submit_task *task, struct err *err)
{
	int r = job_file_parse_for_others(task->job.text, task->job.len,
					  task->job.name ? task->job.name : "the job file",
					  &task->spec, err);

	if (r < 0)
		job_spec_init(&task->spec); /* the parser has released it */
	return r;
}

/* What nothing is known of is let in: whether that is enough is seen later. */
static int do_work(void *ctx, struct store *store, struct err *err)
{
	struct submit_task *task = ctx;
	int r = parse(task, err);

	if (r == 0)
		r = name_job(task, err);
	if (r == 0)
		r = workdir_check(task->job.workdir, task->job.uid, err);
	if (r == 0)
		task->log_error = workdir_make_logs(task->job.uid);
	if (r == 0 && store && learning_estimate(store, &task->question, &task->answer, NULL) < 0)
		learning_answer_init(&task->answer);
	if (r == 0)
		r = queue_write(&task->place, &task->job, err);
	task->is_written = r == 0;
	return r;
}

/* ---- in the loop again ---- */

/* One that would wait for ever is not let in. */
static int check_room(struct service *s, const struct submit_task *task, struct err *err)
{
	struct admit_answer answer;

	if (service_judge_room(s, &task->answer.estimate, &answer) == 0 && answer.is_for_good)
		return err_set(err, -EOPNOTSUPP, "no such job here: %s", answer.reason);
	return 0;
}

static int check_again(struct service *s, const struct submit_task *task, struct err *err)
{
	int r = check_pressure(s, err);

	if (r == 0 && watch_find_of(s->watch, task->job.job_id, task->job.uid))
		r = err_set(err, -EEXIST, "a job %s runs already", task->job.job_id);
	return r < 0 ? r : check_room(s, task, err);
}

/* Into the queue. What is not let in leaves no file behind. */
static int take_in(struct service *s, struct submit_task *task, struct err *err)
{
	struct queued *queued;
	int r = s->queue ? check_again(s, task, err)
			 : err_set(err, -ESHUTDOWN, "the daemon is ending");

	if (r < 0) {
		unlink(task->place.path);
		return r;
	}
	r = queue_take(s->queue, &task->place, &task->job, err);
	if (r < 0)
		return r;
	queued = queue_find(s->queue, task->job.job_id, task->job.uid);
	if (queued)
		service_keep_estimate(queued, &task->answer.estimate);
	if (queued)
		service_tell_queued(s, queued);
	return 0;
}

/* Why it will not begin although it may be its turn: nothing, if it will. */
static void warn_of_wait(struct service *s, const struct submit_task *task, struct buf *out)
{
	unsigned delay = pressure_delay_seconds(s->pressure.level);
	struct admit_answer room;

	if (!s->store)
		buf_printf(out, "it waits for the database: %.400s",
			   s->database.err.code < 0 ? s->database.err.text
						    : "that is not open yet");
	else if (delay > 0)
		buf_printf(out, "it waits %u s, as do its sheets: the pressure is %s (%s)", delay,
			   pressure_name(s->pressure.level), s->pressure.reason);
	else if (service_judge_room(s, &task->answer.estimate, &room) == 0 &&
		 room.decision != ADMIT)
		buf_printf(out, "it waits for room: %s", room.reason);
}

static void warn_of_loss(const struct submit_task *task, struct buf *out)
{
	if (task->log_error == 0)
		return;
	log_warning("what job %s of user %u prints is lost: no folder for it can be made in their "
		    "home: %s",
		    task->job.job_id, (unsigned)task->job.uid, strerror(-task->log_error));
	buf_printf(out,
		   "%swhat it prints is lost: no folder for it can be made in the home of the "
		   "account: %s",
		   out->len > 0 ? "; " : "", strerror(-task->log_error));
}

static void answer(struct submit_task *task, int r, const struct err *err)
{
	CLEANUP(buf_release) struct buf warning = BUF_INIT;
	struct rpc_call *call = TAKE_PTR(task->call);
	struct json *j;

	if (!call)
		return;
	if (r < 0) {
		rpc_call_fail(call, r, err);
		return;
	}
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "job_id", task->job.job_id);
	warn_of_wait(task->service, task, &warning);
	warn_of_loss(task, &warning);
	if (warning.len > 0)
		json_key_string(j, "warning", warning.data);
	json_end_object(j);
	rpc_call_answer(call);
}

static void on_done(void *ctx, int r, const struct err *why)
{
	struct submit_task *task = ctx;
	struct service *s = task->service;
	struct err err = *why;

	if (task->is_written)
		r = take_in(s, task, &err);
	answer(task, r, &err);
	forget(task);
	if (r == 0)
		service_run_queue(s);
}

/* ---- the method ---- */

static void call_gone(void *ctx)
{
	struct submit_task *task = ctx;

	task->call = NULL;
}

/* Whoever hangs up has submitted it all the same, as has who wants no answer. */
static int begin(struct service *s, struct rpc_call *call, struct submit_task *task,
		 struct err *err)
{
	const struct aside_task aside = {
		.uid = task->job.uid,
		.work = do_work,
		.done = on_done,
		.ctx = task,
		.is_store_optional = true,
	};
	int r = queue_reserve(s->queue, &task->place, err);

	task->call = call;
	task->next = s->starting.submits;
	s->starting.submits = task;
	rpc_call_defer(call, call_gone, task);
	rpc_call_hold(call);
	if (r == 0)
		r = aside_add(s->starting.submitter, &aside, err);
	if (r < 0)
		forget(task);
	return r;
}

static int job_submit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct submit_params params = { .input_bytes = U64_UNKNOWN };
	struct submit_task *task;
	uid_t uid = 0;
	int r = rpc_call_read(call, submit_fields, ARRAY_SIZE(submit_fields), &params, err);

	if (r == 0)
		r = find_runner_uid(rpc_call_peer(call), &uid, err);
	if (r == 0)
		r = check_params(&params, err);
	if (r == 0)
		r = check_record(s, err);
	if (r == 0)
		r = check_pressure(s, err);
	if (r == 0)
		r = check_share(s, uid, strlen(params.file), err);
	if (r < 0)
		return r;
	task = task_new(s, &params, uid);
	return task ? begin(s, call, task, err)
		    : err_set(err, -ENOMEM, "no memory left to queue the job");
}

const struct rpc_method service_submit_methods[] = {
	{ "job.submit", job_submit, RPC_FOR_ALL },
	{ 0 },
};
