#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

enum stop_key { KEY_JOBS = 256 };

static const struct argp_option stop_options[] = {
	{ "jobs", KEY_JOBS, NULL, 0,
	  "First cancel all jobs, and wait until nothing is left of them", 0 },
	{ 0 },
};

static error_t parse_stop_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case KEY_JOBS:
		*(bool *)state->input = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_usage_error(state, "'%s' is one word too many", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp stop_argp = {
	.options = stop_options,
	.parser = parse_stop_option,
	.doc = "Stops the daemon. Jobs that run go on, and record themselves; those that wait for "
	       "their turn wait for the next daemon.",
};

/* ---- the jobs ---- */

/* A runner gives its job 5 s after SIGTERM unless it was told otherwise. */
#define JOBS_PATIENCE_NS UINT64_C(30000000000)
#define LOOK_AGAIN_NS 100000000

struct ending {
	struct rpc_client *client;
	struct buf cancelled; /* ", " between their ids */
	struct buf done;      /* the same ones, as key_of() names them */
	size_t n_cancelled;
	struct buf left; /* those that are still there, with why */
	size_t n_left;
};

static void ending_release(struct ending *e)
{
	buf_release(&e->cancelled);
	buf_release(&e->done);
	buf_release(&e->left);
}

/* One of the list: two users may have jobs of one name, and one user one that runs twice. */
struct listed {
	const char *job_id;
	uint64_t uid;	 /* U64_UNKNOWN: an older daemon does not say */
	int64_t attempt; /* 0: it has not begun */
};

static struct listed read_listed(const struct rpc_value *job)
{
	return (struct listed){ rpc_value_string(rpc_value_get(job, "job_id")),
				rpc_value_u64(rpc_value_get(job, "uid")),
				rpc_value_i64(rpc_value_get(job, "attempt"), 0) };
}

static int call_cancel(struct rpc_client *client, const struct listed *job, struct err *err)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	struct json j;

	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job->job_id);
	if (u64_known(job->uid))
		json_key_u64(&j, "uid", job->uid);
	if (job->attempt > 0)
		json_key_i64(&j, "attempt", job->attempt);
	json_end_object(&j);
	return rpc_client_call(client, "job.cancel", params.data, NULL, err);
}

/* Whether ids, with ", " between them, has this one. */
static bool has_id(const struct buf *ids, const char *id)
{
	const char *at = ids->len > 0 ? ids->data : NULL;
	size_t len = strlen(id);

	while (at) {
		if (strncmp(at, id, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return false;
}

static void add_id(struct buf *ids, const char *id)
{
	buf_printf(ids, "%s%s", ids->len > 0 ? ", " : "", id);
}

/* No id has a blank or a comma in it. */
static void key_of(const struct listed *job, int64_t attempt, char *ret, size_t size)
{
	snprintf(ret, size, "%.150s:%llu:%lld", job->job_id, (unsigned long long)job->uid,
		 (long long)attempt);
}

/* It may have begun since it was cancelled: that is the same job. */
static void note_cancelled(struct ending *e, const struct listed *job, const char *key)
{
	char before[256];

	key_of(job, 0, before, sizeof(before));
	if (!has_id(&e->done, before)) {
		add_id(&e->cancelled, job->job_id);
		e->n_cancelled++;
	}
	add_id(&e->done, key);
}

/* One that is just starting is tried again. What failed is said if it is still there at the end. */
static void cancel_one(struct ending *e, const struct listed *job)
{
	struct err err = ERR_INIT;
	char key[256];

	e->n_left++;
	key_of(job, job->attempt, key, sizeof(key));
	if (has_id(&e->done, key)) {
		add_id(&e->left, job->job_id);
		return;
	}
	if (call_cancel(e->client, job, &err) < 0) {
		buf_printf(&e->left, "%s%s (%s)", e->left.len > 0 ? ", " : "", job->job_id,
			   err.text);
		return;
	}
	note_cancelled(e, job, key);
	add_id(&e->left, job->job_id);
}

/* Those that wait come first: else they would start in the places of the others. */
static int cancel_round(struct ending *e, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *jobs = NULL;
	int r = rpc_client_call(e->client, "job.list", NULL, &jobs, err);

	e->n_left = 0;
	buf_reset(&e->left);
	for (int want_queued = 1; r == 0 && want_queued >= 0; want_queued--) {
		for (size_t i = 0; i < rpc_value_len(jobs); i++) {
			const struct rpc_value *job = rpc_value_at(jobs, i);
			const struct listed listed = read_listed(job);
			const char *status = rpc_value_string(rpc_value_get(job, "status"));
			bool is_queued = status && strcmp(status, "queued") == 0;

			if (listed.job_id && is_queued == want_queued)
				cancel_one(e, &listed);
		}
	}
	return r;
}

static void tell(const struct ending *e)
{
	if (e->n_cancelled > 0)
		log_error("cancelled %zu %s: %s", e->n_cancelled,
			  e->n_cancelled == 1 ? "job" : "jobs", e->cancelled.data);
	else
		log_error("there was no job to cancel");
	if (e->n_left > 0)
		log_error("still there after %d s: %s", (int)(JOBS_PATIENCE_NS / 1000000000),
			  e->left.data);
}

/* A job is over when the last of its processes is gone. 1: some are left. */
static int end_jobs(struct rpc_client *client, struct err *err)
{
	CLEANUP(ending_release)
	struct ending e = {
		.client = client, .cancelled = BUF_INIT, .done = BUF_INIT, .left = BUF_INIT
	};
	const struct timespec pause = { 0, LOOK_AGAIN_NS };
	uint64_t began = clock_boot_ns();
	int r;

	while ((r = cancel_round(&e, err)) == 0 && e.n_left > 0 &&
	       clock_boot_ns() - began < JOBS_PATIENCE_NS)
		nanosleep(&pause, NULL);
	if (r == 0)
		tell(&e);
	return r < 0 ? r : e.n_left > 0;
}

/* ---- the daemon ---- */

#define STOP_PATIENCE_MS 10000

/* A handle of the daemon's process; -1: there is none, as it may be in another pid namespace. */
static int open_daemon(struct rpc_client *client, int64_t *ret_pid)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL;

	*ret_pid = -1;
	if (rpc_client_call(client, "daemon.status", NULL, &status, NULL) < 0)
		return -1;
	*ret_pid = rpc_value_i64(rpc_value_get(status, "pid"), -1);
	return *ret_pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)*ret_pid, 0) : -1;
}

static int wait_for_end(int pidfd, int64_t pid, struct err *err)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	if (pidfd < 0 || poll(&ended, 1, STOP_PATIENCE_MS) != 0)
		return 0;
	return err_set(err, -ETIMEDOUT,
		       "the daemon (pid %lld) was told to stop, and has not ended after %d s: "
		       "its disk may be slow, its log says more",
		       (long long)pid, STOP_PATIENCE_MS / 1000);
}

/*
 * Until it has closed the connection, when its socket is free, and has ended, when all that it
 * knew is in its database.
 */
static int stop_and_wait(struct rpc_client *client, struct err *err)
{
	int64_t pid;
	CLEANUP(close_fd) int fd = open_daemon(client, &pid);
	int r = rpc_client_call(client, "daemon.stop", NULL, NULL, err);

	if (r == 0)
		r = rpc_client_listen(client, STOP_PATIENCE_MS, err);
	return r == -ECONNRESET ? wait_for_end(fd, pid, err) : r;
}

/*
 * That of this place alone: who asks falls back to the daemon of the user and of the
 * system, but nobody who names a home wants to stop those.
 */
static int open_here(struct rpc_client **ret, struct err *err)
{
	struct rpc_client_options options = { 0 };
	struct socket_paths paths;
	int r = socket_paths_find(&paths, err);

	if (r < 0)
		return r;
	if (getenv("PROCTOR_HOME") && getenv("PROCTOR_HOME")[0])
		options.path = paths.items[0];
	return rpc_client_open(&options, ret, err);
}

/* Asked before any job is touched: who may not stop it, but could cancel some, has not meant that.
 */
static int check_right(struct rpc_client *client, struct err *err)
{
	if (geteuid() == 0 || geteuid() == rpc_client_daemon_uid(client))
		return 0;
	return err_set(err, -EPERM,
		       "only root and the daemon's own user may stop it: no job was cancelled");
}

int cli_stop(int argc, char **argv)
{
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;
	bool with_jobs = false;
	int r, left = 0;

	cli_parse(&stop_argp, argc, argv, 0, &with_jobs);
	r = open_here(&client, &err);
	if (r == 0 && with_jobs)
		r = check_right(client, &err);
	if (r == 0 && with_jobs)
		r = left = end_jobs(client, &err);
	if (r >= 0)
		r = stop_and_wait(client, &err);
	rpc_client_close(client);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	return left > 0 ? CLI_FAILED : CLI_DONE;
}
