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
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/methods/methods.h"
#include "daemon/queue/user.h"

struct submit_task {
	struct service *service;
	struct rpc_call *call; /* NULL: nobody waits for it any more */
	struct queued *job;
	uid_t uid;
	struct estimate_task *ask; /* has the job file, and what it will need */
	size_t len;		   /* of the file */
	bool is_written;	   /* the job has its file… */
	bool is_taken;		   /* …and is the queue's */
	int log_error;		   /* -errno: why what it prints will be lost; 0 */
	bool is_unnamed;	   /* its id is made, unless the file has one */
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

static int check_pressure(const struct service *s, struct err *err)
{
	if (!pressure_refuses_jobs(s->pressure.level))
		return 0;
	return err_set(err, -EBUSY, "no new jobs: the pressure is %s (%s)",
		       pressure_name(s->pressure.level), s->pressure.reason);
}

/* ---- the task ---- */

static void forget(struct submit_task *task)
{
	LIST_REMOVE(task->service->starting.submits, task, next);
	estimate_task_free(task->ask);
	if (!task->is_taken)
		queued_free(&task->job);
	free(task);
}

/* ---- on the other thread ---- */

/* What nothing is known of is let in: whether that is enough is seen later. */
static int do_work(void *ctx, struct store *store, struct err *err)
{
	struct submit_task *task = ctx;
	struct estimate_task *ask = task->ask;
	struct queued *job = task->job;
	int r = estimate_task_parse(ask, job->name ? job->name : "the job file", err);

	if (r < 0)
		return r;
	/* As "proctor run" makes one: from when it came, and a bit that nobody else has. */
	if (task->is_unnamed && ask->spec.job_id)
		job->job_id = strdup(ask->spec.job_id);
	else if (task->is_unnamed &&
		 asprintf(&job->job_id, "job-%llx-%04x",
			  (unsigned long long)(job->submitted_wall_ns / 1000000000),
			  (unsigned)(job->submitted_wall_ns / 1000 % 65536)) < 0)
		job->job_id = NULL;
	if (job->job_id && !job->name)
		job->name = strdup(job->job_id);
	if (!job->job_id || !job->name)
		return err_set(err, -ENOMEM, "no memory left to queue the job");
	if (!job_id_is_valid(job->job_id))
		return err_set(err, -EINVAL, "'%s' cannot be the id of a job", job->job_id);
	r = workdir_check(job->workdir, job->uid, err);
	if (r < 0)
		return r;
	task->log_error = workdir_make_logs(job->uid);
	if (store && learning_estimate(store, &ask->question, &ask->answer, NULL) < 0)
		learning_answer_init(&ask->answer);
	r = queue_write(job, ask->file, task->len, err);
	task->is_written = r == 0;
	return r;
}

/* ---- in the loop again ---- */

/* Into the queue. What is not let in leaves no file behind. */
static int take_in(struct service *s, struct submit_task *task, struct err *err)
{
	struct queued *job = task->job;
	char path[QUEUE_PATH_BYTES];
	struct admit_answer room;
	int r = s->queue ? check_pressure(s, err)
			 : err_set(err, -ESHUTDOWN, "the daemon is ending");

	if (r == 0 && watch_find_of(s->watch, job->job_id, job->uid))
		r = err_set(err, -EEXIST, "a job %s runs already", job->job_id);
	/* One that would wait for ever is not let in. */
	if (r == 0 && service_judge_room(s, &task->ask->answer.estimate, &room) == 0 &&
	    room.is_for_good)
		r = err_set(err, -EOPNOTSUPP, "no such job here: %s", room.reason);
	if (r < 0) {
		queued_path(job, path);
		unlink(path);
		return r;
	}
	service_keep_estimate(job, &task->ask->answer.estimate);
	task->is_taken = true;
	r = queue_take(s->queue, job, err);
	if (r == 0)
		service_tell_queued(s, job);
	return r;
}

static void answer(struct submit_task *task, int r, const struct err *err)
{
	CLEANUP(buf_release) struct buf warning = BUF_INIT;
	struct service *s = task->service;
	struct rpc_call *call = TAKE_PTR(task->call);
	unsigned delay = pressure_delay_seconds(s->pressure.level);
	struct admit_answer room;
	struct json *j;

	if (!call)
		return;
	if (r < 0) {
		rpc_call_fail(call, r, err);
		return;
	}
	/* Why it will not begin although it may be its turn: nothing, if it will. */
	if (!s->store)
		buf_printf(&warning, "it waits for the database: %.400s",
			   s->database.err.code < 0 ? s->database.err.text
						    : "that is not open yet");
	else if (delay > 0)
		buf_printf(&warning, "it waits %u s, as do its sheets: the pressure is %s (%s)",
			   delay, pressure_name(s->pressure.level), s->pressure.reason);
	else if (service_judge_room(s, &task->ask->answer.estimate, &room) == 0 &&
		 room.decision != ADMIT)
		buf_printf(&warning, "it waits for room: %s", room.reason);
	if (task->log_error != 0) {
		log_warning(
			"what job %s of user %u prints is lost: no folder for it can be made in "
			"their home: %s",
			task->job->job_id, (unsigned)task->uid, strerror(-task->log_error));
		buf_printf(
			&warning,
			"%swhat it prints is lost: no folder for it can be made in the home of the "
			"account: %s",
			warning.len > 0 ? "; " : "", strerror(-task->log_error));
	}
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_string(j, "job_id", task->job->job_id);
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
int method_job_submit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct submit_params params = { .input_bytes = U64_UNKNOWN };
	bool is_owner = service_is_owner(rpc_call_peer(call));
	/* Who the job runs as: its submitter, where we can make that come true. */
	uid_t uid = is_owner ? geteuid() : rpc_call_peer(call)->uid;
	struct estimate_params about = { 0 };
	struct submit_task *task;
	size_t n_bytes;
	int r = rpc_call_read(call, submit_fields, ARRAY_SIZE(submit_fields), &params, err);

	if (r < 0)
		return r;
	if (!is_owner && geteuid() != 0)
		return err_set(err, -EPERM,
			       "this daemon is not root's: it runs jobs for its own user only");
	if (strlen(params.workdir) >= PATH_BYTES ||
	    (params.name && strlen(params.name) > NAME_MAX_BYTES))
		return err_set(err, -EINVAL, "'workdir' or 'name' is too long");
	if (params.workdir[0] != '/')
		return err_set(err, -EINVAL, "'workdir' must begin with /, not '%s'",
			       params.workdir);
	if (params.job_id && !job_id_is_valid(params.job_id))
		return err_set(err, -EINVAL, "'%s' cannot be the id of a job", params.job_id);
	/* What cannot be recorded cannot be followed. A database that is only locked most likely
	 * will be: then the job is queued. */
	if (!service_may_have_store(s))
		return err_set(err, -EBUSY, "no new jobs: %s", s->database.err.text);
	r = check_pressure(s, err);
	if (r < 0)
		return r;
	/* What is on its way is bounded as what waits is. */
	about = (struct estimate_params){ .file = params.file, .input_bytes = params.input_bytes };
	n_bytes = strlen(params.file);
	for (task = s->starting.submits; task; task = task->next)
		n_bytes += task->uid == uid ? task->len : 0;
	if (n_bytes > QUEUE_USER_MAX_BYTES)
		return err_set(err, -EBUSY,
			       "%d MB of job files are on their way already: try again",
			       QUEUE_USER_MAX_BYTES >> 20);
	task = calloc(1, sizeof(*task));
	if (!task)
		return err_set(err, -ENOMEM, "no memory left to queue the job");
	*task = (struct submit_task){ .service = s,
				      .uid = uid,
				      .len = strlen(params.file),
				      .is_unnamed = !params.job_id,
				      .next = s->starting.submits };
	s->starting.submits = task;
	task->job = queue_reserve(s->queue, err);
	if (task->job) {
		task->job->uid = uid;
		task->job->input_bytes = params.input_bytes;
		task->job->workdir = strdup(params.workdir);
		task->job->job_id = params.job_id ? strdup(params.job_id) : NULL;
		task->job->name = params.name ? strdup(params.name) : NULL;
	} else {
		r = err->code;
	}
	if (r == 0 && (!task->job->workdir || !task->job->job_id != !params.job_id ||
		       !task->job->name != !params.name))
		r = err_set(err, -ENOMEM, "no memory left to queue the job");
	if (r == 0)
		r = service_estimate_task(s, rpc_call_peer(call), &about, &task->ask, err);
	if (r == 0)
		r = aside_add(s->starting.submitter,
			      &(struct aside_task){ .uid = uid,
						    .work = do_work,
						    .done = on_done,
						    .ctx = task,
						    .is_store_optional = true },
			      err);
	if (r < 0) {
		forget(task);
		return r;
	}
	task->call = call;
	rpc_call_defer(call, call_gone, task);
	rpc_call_hold(call);
	return 0;
}
