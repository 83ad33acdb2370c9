#include "cli/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unknown.h"
#include "cli/elsewhere.h"
#include "daemon/daemon.h"
#include "rpc/rpc.h"

/* Who lists jobs does not wait long for a daemon that hangs. */
#define TIMEOUT_MS 1000

void live_jobs_release(struct live_jobs *live)
{
	free(live->items);
	arena_release(&live->arena);
	*live = (struct live_jobs){ 0 };
}

static int add(struct live_jobs *live, const struct live_job *job)
{
	struct live_job copy = *job;

	if (live->n == live->cap) {
		size_t cap = live->cap ? live->cap * 2 : 16;
		struct live_job *items = reallocarray(live->items, cap, sizeof(*items));

		if (!items)
			return -ENOMEM;
		live->items = items;
		live->cap = cap;
	}
	copy.job_id = arena_strdup(&live->arena, job->job_id);
	copy.command = arena_strdup(&live->arena, job->command);
	copy.why = arena_strdup(&live->arena, job->why);
	if (!copy.job_id)
		return -ENOMEM;
	live->items[live->n++] = copy;
	return 0;
}

/* ---- by the daemon's word ---- */

static const char *text_of(const struct rpc_value *job, const char *key)
{
	return rpc_value_string(rpc_value_get(job, key));
}

static int add_answer(struct live_jobs *live, const struct rpc_value *job)
{
	const char *status = text_of(job, "status");
	bool is_queued = status && strcmp(status, "queued") == 0;
	double submitted = rpc_value_f64(rpc_value_get(job, "submitted"));
	const struct live_job row = {
		.job_id = text_of(job, "job_id"),
		.uid = rpc_value_u64(rpc_value_get(job, "uid")),
		.is_queued = is_queued,
		.attempt = (int)rpc_value_i64(rpc_value_get(job, "attempt"), 0),
		.submitted_wall_ns =
			f64_known(submitted) ? (uint64_t)(submitted * 1e9) : U64_UNKNOWN,
		.submission = rpc_value_u64(rpc_value_get(job, "submission")),
		.command = text_of(job, "command"),
		.why = text_of(job, is_queued ? "why_queued" : "why_held"),
	};

	if (!row.job_id || (!is_queued && !row.why))
		return 0;
	return add(live, &row);
}

static struct exit_status status_of(const struct rpc_value *job)
{
	return (struct exit_status){ elsewhere_int(job, "exit_code", -1),
				     elsewhere_int(job, "signal", -1) };
}

static bool says(const struct rpc_value *job, const char *key, const char *text)
{
	const char *said = text_of(job, key);

	return said && strcmp(said, text) == 0;
}

int live_read_attempt(const struct rpc_value *job, struct arena *arena, struct attempt *ret)
{
	double wall_seconds = rpc_value_f64(rpc_value_get(job, "wall_seconds"));
	struct attempt *a = ret;

	attempt_init(a); /* its strings are in the arena */
	if (!text_of(job, "job_id"))
		return -EBADMSG;
	a->job_id = arena_strdup(arena, text_of(job, "job_id"));
	a->command = arena_strdup(arena, text_of(job, "command"));
	a->host = arena_strdup(arena, text_of(job, "host"));
	a->reason = arena_strdup(arena, text_of(job, "reason"));
	a->uid = rpc_value_u64(rpc_value_get(job, "uid"));
	a->attempt_num = elsewhere_int(job, "attempt", 0);
	a->is_running = says(job, "status", "running");
	a->is_lost = rpc_value_bool(rpc_value_get(job, "lost"), false);
	a->outcome = outcome_from_name(text_of(job, "outcome"));
	a->status = status_of(job);
	a->started_wall_ns = elsewhere_time(job, "started");
	a->ended_wall_ns = elsewhere_time(job, "ended");
	if (wall_seconds >= 0 && wall_seconds < 9e9)
		a->usage.wall_ns = (uint64_t)(wall_seconds * 1e9);
	a->total_sheets = elsewhere_int(job, "total_sheets", 0);
	a->last_completed_sheet = elsewhere_int(job, "last_completed_sheet", 0);
	a->current_sheet = elsewhere_int(job, "current_sheet", SHEET_NONE);
	return a->job_id ? 0 : -ENOMEM;
}

static int add_running(struct live_jobs *live, const struct rpc_value *job)
{
	int r = says(job, "status", "running")
			? live_read_attempt(job, &live->arena, &live->running[live->n_running])
			: -EBADMSG;

	live->n_running += r == 0;
	return r == -ENOMEM ? r : 0;
}

static int add_answers(struct live_jobs *live, const struct rpc_value *jobs)
{
	size_t n = rpc_value_len(jobs);
	int r = 0;

	live->running = arena_alloc(&live->arena, (n + 1) * sizeof(*live->running));
	if (!live->running)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = add_answer(live, rpc_value_at(jobs, i));
		if (r == 0)
			r = add_running(live, rpc_value_at(jobs, i));
	}
	return r;
}

/* What is listed may be old then. */
static void warn_if_not_recording(struct rpc_client *client)
{
	struct rpc_value *status = NULL;
	const char *why;

	if (rpc_client_call(client, "daemon.status", NULL, &status, NULL) < 0)
		return;
	why = text_of(status, "recording_error");
	if (why)
		log_warning("the daemon records nothing: %s", why);
	rpc_value_free(status);
}

/* -ENOENT: there is none. */
static int ask_daemon(struct live_jobs *live)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	struct rpc_client *client = NULL;
	struct rpc_value *jobs = NULL;
	int r = rpc_client_open(&options, &client, NULL);

	if (r == 0)
		r = rpc_client_call(client, "job.list", NULL, &jobs, NULL);
	if (r == 0)
		r = add_answers(live, jobs);
	if (r == 0)
		warn_if_not_recording(client);
	rpc_value_free(jobs);
	rpc_client_close(client);
	return r;
}

/* ---- without one ---- */

static int read_folder(const struct paths *paths, struct live_jobs *live)
{
	char folder[PATH_BYTES + 16];
	struct queue *queue = NULL;
	const struct queued *job;
	int r = 0;

	snprintf(folder, sizeof(folder), "%s/queue", paths->state_dir);
	if (access(folder, R_OK | X_OK) < 0 || queue_open_to_read(folder, &queue, NULL) < 0)
		return 0;
	for (size_t i = 0; r == 0 && (job = queue_at(queue, i)); i++) {
		const struct live_job row = {
			.job_id = job->job_id,
			.uid = job->uid,
			.is_queued = true,
			.submitted_wall_ns = job->submitted_wall_ns,
			.submission = job->submission,
			.command = job->name,
			.why = job->is_started ? "it was started, and its runner has not told of it"
					       : "no daemon is running",
		};

		r = add(live, &row); /* one that has begun is known by its submission */
	}
	queue_close(queue);
	return r;
}

int live_jobs_read(const struct paths *paths, struct live_jobs *ret)
{
	struct live_jobs live = { 0 };
	int r = ask_daemon(&live);

	if (r == -ENOENT)
		r = read_folder(paths, &live);
	*ret = live;
	return r == -ENOMEM ? r : 0;
}

const char *live_why_held(const struct live_jobs *live, const char *job_id, int attempt)
{
	for (size_t i = 0; i < live->n; i++)
		if (!live->items[i].is_queued && live->items[i].attempt == attempt &&
		    strcmp(live->items[i].job_id, job_id) == 0)
			return live->items[i].why;
	return NULL;
}

/* ---- where it records ---- */

/* The file is no older than the socket: else what it says is in force, and nobody need be asked. */
static bool may_have_changed(const char *config, const char *socket_path)
{
	struct stat file, socket;

	return stat(config, &file) == 0 && lstat(socket_path, &socket) == 0 &&
	       file.st_mtime >= socket.st_mtime;
}

static void take_db(struct paths *paths, const char *db, int mode)
{
	if (!db || strcmp(db, paths->db) == 0 || strlen(db) >= sizeof(paths->db) ||
	    access(db, mode) < 0)
		return;
	log_warning("the daemon records into %s until it is started again: that is used, and not "
		    "%s",
		    db, paths->db);
	snprintf(paths->db, sizeof(paths->db), "%s", db);
}

void live_follow_daemon(struct paths *paths, int mode)
{
	struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	struct rpc_client *client = NULL;
	struct rpc_value *status = NULL;
	struct socket_paths sockets;

	if (socket_paths_find(&sockets, NULL) < 0 ||
	    !may_have_changed(paths->config, sockets.items[0]))
		return;
	options.path = sockets.items[0]; /* another one is not of this place */
	if (rpc_client_open(&options, &client, NULL) == 0 &&
	    rpc_client_call(client, "daemon.status", NULL, &status, NULL) == 0)
		take_db(paths, text_of(status, "database"), mode);
	rpc_value_free(status);
	rpc_client_close(client);
}
