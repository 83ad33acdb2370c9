#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "rpc/rpc.h"

struct stop_args {
	bool jobs;
};

static const struct argp_option stop_options[] = {
	CLI_OPTION("jobs", stop_args, jobs, NULL,
		   "First cancel all jobs, and wait until nothing is left of them"),
	{ 0 },
};

static const struct argp stop_argp = {
	.options = stop_options,
	.parser = cli_parse_option,
	.doc = "Stops the daemon. Jobs that run go on, and record themselves; those that wait for "
	       "their turn wait for the next daemon.",
};

/* ---- the jobs ---- */

/* A runner gives its job 5 s after SIGTERM unless it was told otherwise. */
#define JOBS_PATIENCE_NS UINT64_C(30000000000)
#define LOOK_AGAIN_NS 100000000

struct ending {
	struct rpc_client *client;
	struct map done; /* hashes of job, user and attempt that were cancelled */
	size_t n_cancelled, n_left;
	struct buf cancelled; /* ", " between their ids */
	struct buf left;      /* those that are still there, with why */
};

static void ending_release(struct ending *e)
{
	map_release(&e->done);
	buf_release(&e->cancelled);
	buf_release(&e->left);
}

/* Two users may have jobs of one name, and one user one that runs twice. attempt 0: it has not
 * begun. */
static uint64_t hash_job(const char *job_id, uint64_t uid, uint64_t attempt)
{
	const uint64_t parts[] = { uid, attempt };

	return hash_bytes(hash_bytes(HASH_INIT, job_id, strlen(job_id)), parts, sizeof(parts));
}

/* One that is just starting is tried again. What failed is said if it is still there at the end. */
static void cancel_one(struct ending *e, const struct rpc_value *job)
{
	CLEANUP(buf_release) struct buf params = BUF_INIT;
	const char *job_id = rpc_value_string(rpc_value_get(job, "job_id"));
	uint64_t uid = rpc_value_u64(rpc_value_get(job, "uid"));
	int64_t attempt = rpc_value_i64(rpc_value_get(job, "attempt"), 0);
	uint64_t key = hash_job(job_id, uid, (uint64_t)attempt), before;
	struct err err = ERR_INIT;
	struct json j;

	buf_printf(&e->left, "%s%s", e->n_left++ > 0 ? ", " : "", job_id);
	if (map_get(&e->done, key, &before))
		return;
	json_init(&j, &params);
	json_begin_object(&j);
	json_key_string(&j, "job_id", job_id);
	if (u64_known(uid)) /* an older daemon does not say */
		json_key_u64(&j, "uid", uid);
	if (attempt > 0)
		json_key_i64(&j, "attempt", attempt);
	json_end_object(&j);
	if (rpc_client_call(e->client, "job.cancel", params.data, NULL, &err) < 0) {
		buf_printf(&e->left, " (%s)", err.text);
		return;
	}
	/* It may have begun since it was cancelled: that is the same job. */
	if (!map_get(&e->done, hash_job(job_id, uid, 0), &before))
		buf_printf(&e->cancelled, "%s%s", e->n_cancelled++ > 0 ? ", " : "", job_id);
	map_put(&e->done, key, 1);
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
			const char *status = rpc_value_string(rpc_value_get(job, "status"));
			bool is_queued = status && strcmp(status, "queued") == 0;

			if (rpc_value_string(rpc_value_get(job, "job_id")) &&
			    is_queued == want_queued)
				cancel_one(e, job);
		}
	}
	return r;
}

/* A job is over when the last of its processes is gone. 1: some are left. */
static int end_jobs(struct rpc_client *client, struct err *err)
{
	CLEANUP(ending_release)
	struct ending e = { .client = client, .cancelled = BUF_INIT, .left = BUF_INIT };
	const struct timespec pause = { 0, LOOK_AGAIN_NS };
	uint64_t began = clock_boot_ns();
	int r;

	while ((r = cancel_round(&e, err)) == 0 && e.n_left > 0 &&
	       clock_boot_ns() - began < JOBS_PATIENCE_NS)
		nanosleep(&pause, NULL);
	if (r < 0)
		return r;
	if (e.n_cancelled > 0)
		log_error("cancelled %zu %s: %s", e.n_cancelled,
			  e.n_cancelled == 1 ? "job" : "jobs", e.cancelled.data);
	else
		log_error("there was no job to cancel");
	if (e.n_left > 0)
		log_error("still there after %d s: %s", (int)(JOBS_PATIENCE_NS / 1000000000),
			  e.left.data);
	return e.n_left > 0;
}

/* ---- the daemon ---- */

#define STOP_PATIENCE_MS 10000

/*
 * Until it has closed the connection, when its socket is free, and has ended, when all that it
 * knew is in its database.
 */
static int stop_and_wait(struct rpc_client *client, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL;
	CLEANUP(close_fd) int fd = -1; /* of its process, which may be in another pid namespace */
	struct pollfd ended = { .events = POLLIN };
	int64_t pid = -1;
	int r;

	if (rpc_client_call(client, "daemon.status", NULL, &status, NULL) == 0)
		pid = rpc_value_i64(rpc_value_get(status, "pid"), -1);
	if (pid > 0)
		ended.fd = fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	r = rpc_client_call(client, "daemon.stop", NULL, NULL, err);
	if (r == 0)
		r = rpc_client_listen(client, STOP_PATIENCE_MS, err);
	if (r != -ECONNRESET)
		return r;
	if (fd < 0 || poll(&ended, 1, STOP_PATIENCE_MS) != 0)
		return 0;
	return err_set(err, -ETIMEDOUT,
		       "the daemon (pid %lld) was told to stop, and has not ended after %d s: "
		       "its disk may be slow, its log says more",
		       (long long)pid, STOP_PATIENCE_MS / 1000);
}

int cli_stop(int argc, char **argv)
{
	struct rpc_client_options options = { 0 };
	struct rpc_client *client = NULL;
	struct err err = ERR_INIT;
	struct stop_args args = { 0 };
	struct socket_paths paths;
	int r, left = 0;

	cli_parse(&stop_argp, argc, argv, 0, &args);
	r = socket_paths_find(&paths, &err);
	/* Who asks falls back to the daemon of the user and of the system, but nobody who names a
	 * home wants to stop those. */
	if (r == 0 && getenv("PROCTOR_HOME") && getenv("PROCTOR_HOME")[0])
		options.path = paths.items[0];
	if (r == 0)
		r = rpc_client_open(&options, &client, &err);
	/* Before any job is touched: who may not stop it, but could cancel some, has not meant
	 * that. */
	if (r == 0 && args.jobs && geteuid() != 0 && geteuid() != rpc_client_daemon_uid(client))
		r = err_set(
			&err, -EPERM,
			"only root and the daemon's own user may stop it: no job was cancelled");
	if (r == 0 && args.jobs)
		r = left = end_jobs(client, &err);
	if (r >= 0)
		r = stop_and_wait(client, &err);
	rpc_client_close(client);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	return left > 0 ? CLI_FAILED : CLI_DONE;
}
