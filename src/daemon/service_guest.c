#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "daemon/service_internal.h"

struct hello_params {
	const char *job_id;
	uint64_t attempt;
	uint64_t device, inode; /* of the database that the runner writes to */
	double interval_seconds;
};

static const struct rpc_field hello_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct hello_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct hello_params, attempt), .is_required = true },
	{ "device", RPC_U64, offsetof(struct hello_params, device), .is_required = true },
	{ "inode", RPC_U64, offsetof(struct hello_params, inode), .is_required = true },
	{ "interval_seconds", RPC_F64, offsetof(struct hello_params, interval_seconds),
	  .is_required = true },
};

/* The runner's own: a job may run twice at once. */
static struct watched *find_guest(struct service *s, const struct rpc_peer *peer,
				  const struct hello_params *params)
{
	size_t n;
	struct watched **jobs = watch_jobs(s->watch, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(jobs[i]->job_id, params->job_id) == 0 &&
		    (uint64_t)jobs[i]->a.attempt_num == params->attempt &&
		    jobs[i]->a.runner.pid == peer->pid)
			return jobs[i];
	return NULL;
}

static bool is_own_database(const struct service *s, const struct hello_params *params)
{
	struct stat st;

	return s->store && stat(s->options->paths->db, &st) == 0 &&
	       (uint64_t)st.st_dev == params->device && (uint64_t)st.st_ino == params->inode;
}

/* The ticks of a job are ours for as long as its runner holds the line. */
struct guest {
	struct service *service;
	struct rpc_subscriber *line;
	int64_t attempt_id;
};

static void on_runner_gone(void *ctx)
{
	struct guest *guest = ctx;
	struct watched *job = watch_find_attempt(guest->service->watch, guest->attempt_id);

	if (job)
		job->is_ours = false;
	free(guest);
}

static int take_over(struct service *s, struct rpc_call *call, struct watched *job, struct err *err)
{
	struct guest *guest = calloc(1, sizeof(*guest));
	int r;

	if (!guest)
		return err_set(err, -ENOMEM, "no memory left to record the job");
	*guest = (struct guest){ .service = s, .attempt_id = job->a.id };
	r = rpc_call_subscribe(call, on_runner_gone, guest, &guest->line, err);
	if (r < 0)
		free(guest);
	job->is_ours = r == 0;
	return r;
}

/*
 * A runner says that it is there, and is told whether its ticks are written by
 * us: if it writes to the same database, and wants them no more often.
 */
static int runner_hello(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct hello_params params = { 0 };
	struct watched *job;
	struct json *j;
	bool is_ours;
	int r = rpc_call_read(call, hello_fields, ARRAY_SIZE(hello_fields), &params, err);

	if (r < 0)
		return r;
	service_look(s);
	job = find_guest(s, rpc_call_peer(call), &params);
	is_ours = job && is_own_database(s, &params) &&
		  params.interval_seconds >= s->interval_seconds;
	if (is_ours)
		r = take_over(s, call, job, err);
	if (r < 0)
		return r;
	j = rpc_call_result(call);
	json_begin_object(j);
	json_key_bool(j, "records", is_ours);
	json_key_f64(j, "interval_seconds", s->interval_seconds);
	json_end_object(j);
	return 0;
}

/* Something about a job has changed in the database. */
static int runner_changed(void *ctx, struct rpc_call *call, struct err *err)
{
	(void)call;
	(void)err;
	service_look(ctx);
	return 0;
}

const struct rpc_method service_guest_methods[] = {
	{ "runner.hello", runner_hello, RPC_FOR_ALL },
	{ "runner.changed", runner_changed, RPC_FOR_ALL },
	{ 0 },
};
