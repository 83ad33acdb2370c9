#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "daemon/service_internal.h"
#include "daemon/signal_process.h"
#include "report/report.h"

/* ---- who may see what ---- */

static bool sees_all(const struct rpc_peer *peer)
{
	return peer->uid == 0 || peer->uid == geteuid();
}

static bool may_see(const struct rpc_peer *peer, uint64_t uid)
{
	return sees_all(peer) || (u64_known(uid) && (uid_t)uid == peer->uid);
}

/* A job of somebody else is as if it were not there. */
static int find_job(struct service *s, const struct rpc_peer *peer, const char *job_id,
		    struct watched **ret, struct err *err)
{
	*ret = watch_find(s->watch, job_id);
	if (*ret && may_see(peer, (*ret)->a.uid))
		return 0;
	return err_set(err, -ENOENT, "no job %s is running", job_id);
}

static int need_store(struct service *s, struct err *err)
{
	if (s->store)
		return 0;
	return err_set(err, -EBUSY, "the database cannot be opened now: see daemon.status");
}

/* ---- the daemon ---- */

static void write_rungs(struct json *j, const struct service *s)
{
	json_key(j, "rungs");
	json_begin_object(j);
	for (size_t i = 0; i < s->n_rungs; i++)
		json_key_string(j, s->rungs[i].measurement, s->rungs[i].rung);
	json_end_object(j);
}

static void write_costs(struct json *j, const struct service *s)
{
	uint64_t up_ns = clock_boot_ns() - s->started_boot_ns;

	json_key_f64(j, "cpu_seconds", clock_ns_to_seconds(clock_cpu_ns()));
	json_key_f64(j, "cpu_percent", (double)clock_cpu_ns() * 100 / (double)(up_ns + 1));
	json_key_f64(j, "rss_mb", u64_to_mb(sources_read_rss(s->root_fd, getpid())));
	json_key_f64(j, "interval_seconds", s->interval_seconds);
	json_key_u64(j, "ticks", s->stats.n_ticks);
	json_key_u64(j, "ticks_skipped", s->stats.n_skipped);
	json_key_f64(j, "tick_lag_seconds", clock_ns_to_seconds(s->stats.lag_ns));
	json_key_f64(j, "tick_cpu_seconds", clock_ns_to_seconds(s->stats.cpu_ns));
	json_key_f64(j, "tick_cpu_percent", s->stats.load * 100);
}

static void write_clients(struct json *j, const struct service *s)
{
	struct rpc_stats stats;

	rpc_server_get_stats(s->server, &stats);
	json_key_u64(j, "clients", stats.n_clients);
	json_key_u64(j, "subscribers", stats.n_subscribers);
	json_key_u64(j, "requests", stats.n_requests);
	json_key_u64(j, "events_lost", stats.n_events_lost);
}

static int daemon_status(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct json *j = rpc_call_result(call);
	size_t n;

	(void)err;
	watch_jobs(s->watch, &n);
	json_begin_object(j);
	json_key_string(j, "version", PROCTOR_VERSION);
	json_key_i64(j, "pid", getpid());
	json_key_f64(j, "uptime_seconds",
		     clock_ns_to_seconds(clock_boot_ns() - s->started_boot_ns));
	json_key_u64(j, "running_jobs", n);
	json_key_string(j, "database", s->options->paths->db);
	json_key_bool(j, "recording", s->store != NULL);
	json_key_string(j, "pressure_level", pressure_name(s->pressure.level));
	json_key_string(j, "pressure_reason", s->pressure.reason);
	write_costs(j, s);
	write_clients(j, s);
	write_rungs(j, s);
	json_end_object(j);
	return 0;
}

static void on_stop_soon(void *ctx)
{
	loop_stop(((struct service *)ctx)->loop);
}

/* After the answer is on its way. */
static int daemon_stop(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct loop_timer *timer = loop_timer_new(s->loop, on_stop_soon, s);
	struct json *j = rpc_call_result(call);

	if (!timer)
		return err_set(err, -ENOMEM, "no memory left to stop");
	loop_timer_set(timer, 1, 0);
	json_begin_object(j);
	json_key_bool(j, "stopping", true);
	json_end_object(j);
	return 0;
}

/* ---- snapshots ---- */

/* Others see the host and their own jobs. */
static void hide_others(struct snapshot *snap, const struct service *s, const struct rpc_peer *peer)
{
	size_t n = 0, n_progress = 0;

	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct watched *job = watch_find(s->watch, snap->processes[i].job_id);

		if (job && may_see(peer, job->a.uid))
			snap->processes[n++] = snap->processes[i];
	}
	snap->n_processes = n;
	for (size_t i = 0; i < snap->n_progress; i++) {
		const struct watched *job = watch_find(s->watch, snap->progress[i].job_id);

		if (job && may_see(peer, job->a.uid))
			snap->progress[n_progress++] = snap->progress[i];
	}
	snap->n_progress = n_progress;
}

static int daemon_top(void *ctx, struct rpc_call *call, struct err *err)
{
	CLEANUP(snapshot_release) struct snapshot shown;
	struct service *s = ctx;

	snapshot_init(&shown);
	if (!s->has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (sees_all(rpc_call_peer(call))) {
		snapshot_write_json(rpc_call_result(call), &s->snap, SNAPSHOT_JOBS);
		return 0;
	}
	if (snapshot_copy(&shown, &s->snap, SNAPSHOT_JOBS) < 0)
		return err_set(err, -ENOMEM, "no memory left for a snapshot");
	hide_others(&shown, s, rpc_call_peer(call));
	snapshot_write_json(rpc_call_result(call), &shown, SNAPSHOT_JOBS);
	return 0;
}

/* ---- subscriptions ---- */

struct subscription {
	struct service *service;
	struct rpc_subscriber *subscriber;
	int bus_id;
};

static void on_subscriber_gone(void *ctx)
{
	struct subscription *sub = ctx;

	bus_unsubscribe(sub->service->bus, sub->bus_id);
	free(sub);
}

static void on_event(void *ctx, const struct event *ev)
{
	struct subscription *sub = ctx;
	const struct rpc_peer *peer = rpc_subscriber_peer(sub->subscriber);
	struct rpc_event *event;

	if (!event_is_visible(ev, peer->uid, sees_all(peer)))
		return;
	event = rpc_event_new(topic_name(ev->topic), ev->wall_ns, ev->json, ev->len);
	if (event)
		rpc_push(sub->subscriber, event);
	rpc_event_unref(event);
}

static int subscribe(struct service *s, struct rpc_call *call, unsigned topics, struct err *err)
{
	struct subscription *sub = calloc(1, sizeof(*sub));
	int r;

	if (!sub)
		return err_set(err, -ENOMEM, "no memory left for a subscription");
	sub->service = s;
	sub->bus_id = bus_subscribe(s->bus, topics, on_event, sub);
	if (sub->bus_id < 0) {
		r = err_set(err, sub->bus_id, "there are too many subscribers");
		free(sub);
		return r;
	}
	r = rpc_call_subscribe(call, on_subscriber_gone, sub, &sub->subscriber, err);
	if (r < 0)
		on_subscriber_gone(sub);
	return r;
}

static int daemon_top_stream(void *ctx, struct rpc_call *call, struct err *err)
{
	return subscribe(ctx, call, topic_bit(TOPIC_SNAPSHOT), err);
}

struct subscribe_params {
	const struct rpc_value *topics;
};

static const struct rpc_field subscribe_fields[] = {
	{ "topics", RPC_STRINGS, offsetof(struct subscribe_params, topics), .is_required = true },
};

static int events_subscribe(void *ctx, struct rpc_call *call, struct err *err)
{
	struct subscribe_params params = { 0 };
	unsigned topics = 0;
	int r = rpc_call_read(call, subscribe_fields, ARRAY_SIZE(subscribe_fields), &params, err);

	for (size_t i = 0; r == 0 && i < rpc_value_len(params.topics); i++)
		r = topics_add(rpc_value_string(rpc_value_at(params.topics, i)), &topics, err);
	if (r == 0 && topics == 0)
		r = err_set(err, -EINVAL, "'topics' names none: [\"*\"] is all of them");
	return r < 0 ? r : subscribe(ctx, call, topics, err);
}

/* ---- contexts ---- */

struct context_params {
	uint64_t pid;
};

static const struct rpc_field context_fields[] = {
	{ "pid", RPC_U64, offsetof(struct context_params, pid), .min = 1, .max = 4194304 },
};

static const struct proc_sample *find_process(const struct service *s, uint64_t pid)
{
	for (size_t i = 0; i < s->snap.n_processes; i++)
		if ((uint64_t)s->snap.processes[i].key.pid == pid)
			return &s->snap.processes[i];
	return NULL;
}

static int resource_context(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct context_params params = { .pid = U64_UNKNOWN };
	const struct proc_sample *p = NULL;
	const struct watched *job;
	int r = rpc_call_read(call, context_fields, ARRAY_SIZE(context_fields), &params, err);

	if (r < 0)
		return r;
	if (!s->has_snap)
		return err_set(err, -EBUSY, "the first tick is not over yet: ask again");
	if (u64_known(params.pid)) {
		p = find_process(s, params.pid);
		job = p && p->job_id ? watch_find(s->watch, p->job_id) : NULL;
		if (!job || !may_see(rpc_call_peer(call), job->a.uid))
			return err_set(err, -ENOENT, "pid %llu is of no job that runs",
				       (unsigned long long)params.pid);
	}
	service_write_context(rpc_call_result(call), s, NULL, p);
	return 0;
}

/* ---- jobs ---- */

static void write_job(struct json *j, const struct watched *job)
{
	const struct attempt *a = &job->a;

	json_begin_object(j);
	attempt_write_fields(j, a, attempt_status_name(a));
	json_key_u64(j, "processes", job->n_processes);
	json_key_f64(j, "rss_mb", u64_to_mb(job->point.rss_bytes));
	json_key_f64(j, "cpu_pct", job->point.cpu_percent);
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
		if (may_see(rpc_call_peer(call), jobs[i]->a.uid))
			write_job(j, jobs[i]);
	for (size_t i = 0; sees_all(rpc_call_peer(call)) && (queued = queue_at(s->queue, i)); i++)
		if (!queued->is_started)
			write_queued(j, queued);
	json_end_array(j);
	return 0;
}

struct job_params {
	const char *job_id;
	uint64_t attempt;
};

static const struct rpc_field job_fields[] = {
	{ "job_id", RPC_STRING, offsetof(struct job_params, job_id), .is_required = true },
	{ "attempt", RPC_U64, offsetof(struct job_params, attempt), .max = INT32_MAX },
};

static int read_job_params(const struct rpc_call *call, struct job_params *ret, struct err *err)
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
	int r = read_job_params(call, &params, err);

	attempt_init(&a);
	if (r == 0)
		r = need_store(s, err);
	if (r == 0)
		r = store_read_attempt(s->store, params.job_id, (int)params.attempt, &a, err);
	if (r < 0)
		return r;
	if (!may_see(rpc_call_peer(call), a.uid))
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

	if (!job || job->is_started || !sees_all(rpc_call_peer(call)))
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
	int r = read_job_params(call, &params, err);

	if (r < 0)
		return r;
	if (cancel_queued(s, call, params.job_id))
		return 0;
	service_look(s);
	r = find_job(s, rpc_call_peer(call), params.job_id, &job, err);
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

/* ---- waiting ---- */

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
		    !may_see(rpc_call_peer(call), job->a.uid))
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
	int r = read_job_params(call, &params, err);

	attempt_init(&a);
	if (r < 0)
		return r;
	service_look(s);
	job = watch_find(s->watch, params.job_id);
	queued = sees_all(rpc_call_peer(call)) ? queue_find(s->queue, params.job_id) : NULL;
	if ((job && may_see(rpc_call_peer(call), job->a.uid)) ||
	    (!job && queued && !service_has_run(s, queued)))
		return wait_for(s, call, params.job_id, err);
	r = need_store(s, err);
	if (r == 0)
		r = store_read_progress(s->store, params.job_id, 0, &a, err);
	if (r == 0 && !may_see(rpc_call_peer(call), a.uid))
		r = err_set(err, -ENOENT, "no job %s was recorded", params.job_id);
	if (r == 0)
		write_end(call, &a);
	return r;
}

/* ---- runners ---- */

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

/* ---- admission ---- */

static int admit(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct json *j = rpc_call_result(call);
	enum pressure_level level = s->pressure.level;
	unsigned delay = pressure_delay_seconds(level);
	bool is_refused = pressure_refuses_jobs(level);

	(void)err;
	json_begin_object(j);
	json_key_string(j, "answer", is_refused ? "reject" : delay ? "delay" : "admit");
	json_key_u64(j, "delay_seconds", delay);
	json_key_string(j, "pressure_level", pressure_name(level));
	json_key_string(j, "reason", s->pressure.reason);
	json_end_object(j);
	return 0;
}

const struct rpc_method service_methods[] = {
	{ "daemon.status", daemon_status, RPC_FOR_ALL },
	{ "daemon.stop", daemon_stop, RPC_FOR_OWNER },
	{ "daemon.top", daemon_top, RPC_FOR_ALL },
	{ "daemon.top.stream", daemon_top_stream, RPC_FOR_OWNER },
	{ "events.subscribe", events_subscribe, RPC_FOR_ALL },
	{ "resource.context", resource_context, RPC_FOR_ALL },
	{ "job.list", job_list, RPC_FOR_ALL },
	{ "job.submit", job_submit, RPC_FOR_OWNER },
	{ "job.wait", job_wait, RPC_FOR_ALL },
	{ "job.report", job_report, RPC_FOR_ALL },
	{ "job.cancel", job_cancel, RPC_FOR_ALL },
	{ "runner.hello", runner_hello, RPC_FOR_ALL },
	{ "runner.changed", runner_changed, RPC_FOR_ALL },
	{ "admit", admit, RPC_FOR_ALL },
};
const size_t service_n_methods = ARRAY_SIZE(service_methods);
