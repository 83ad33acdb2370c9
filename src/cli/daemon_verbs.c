#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "report/report.h"
#include "rpc/rpc.h"

/* How long the daemon may take until it serves clients. */
#define READY_TIMEOUT_MS 60000

#define LOG_MAX_BYTES (1024 * 1024)
#define LOG_PATH_BYTES (PATH_BYTES + 16)

static const struct argp_option start_options[] = {
	CLI_OPTION("foreground", cli_flag, is_set, NULL,
		   "Stay in the foreground (for a service manager)"),
	{ 0 },
};

static const struct argp start_argp = {
	.options = start_options,
	.doc = "Starts the daemon, which watches all jobs of this host.\v"
	       "It returns when the daemon serves clients. Jobs do not depend on it: it can be "
	       "stopped, killed and started again while they run.",
};

/* A system daemon is for all users of the host: whom it answers what, it decides by who asks. */
static mode_t socket_mode(const char *path)
{
	return strcmp(path, "/run/proctor/proctor.sock") == 0 ? 0666 : 0600;
}

static int serve(const struct settings *settings, int ready_fd, const char *log, struct err *err)
{
	struct socket_paths sockets;
	struct service_options options = {
		.paths = &settings->paths,
		.config = &settings->config,
		.mask = settings->mask,
		.ready_fd = ready_fd,
		.log_path = log,
	};
	int r = socket_paths_find(&sockets, err);

	if (log_get_level() < LOG_INFO)
		log_set_level(LOG_INFO);
	if (r == 0)
		r = service_make_socket_folder(sockets.items[0], socket_mode(sockets.items[0]),
					       err);
	if (r < 0)
		return r;
	options.socket_path = sockets.items[0];
	options.socket_mode = socket_mode(sockets.items[0]);
	return service_run(&options, err);
}

/* ---- in the background: the log ---- */

static void log_path(const struct paths *paths, char *ret)
{
	snprintf(ret, LOG_PATH_BYTES, "%s/daemon.log", paths->state_dir);
}

/* From here on messages of the daemon go there. A log that became too long is kept once. */
static int begin_log(const struct paths *paths, struct err *err)
{
	char path[LOG_PATH_BYTES], old[LOG_PATH_BYTES + 2];
	int r = path_make_dir(paths->state_dir, err);
	struct stat st;

	if (r < 0)
		return r;
	log_path(paths, path);
	snprintf(old, sizeof(old), "%s.1", path);
	if (lstat(path, &st) == 0 && st.st_size >= LOG_MAX_BYTES && rename(path, old) < 0)
		log_warning("cannot rename %s: %s", path, strerror(errno));
	r = log_open(path);
	if (r < 0)
		return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
	log_set_stamped(true);
	return 0;
}

/* ---- in the background: the daemon's side ---- */

/* The parent says why, if it is not too late for that. */
static int serve_as_orphan(const struct settings *settings, int ready_fd)
{
	const struct paths *paths = &settings->paths;
	struct err err = ERR_INIT;
	char log[LOG_PATH_BYTES];
	int r = 0, fd;
	pid_t pid = fork(); /* twice: the daemon is nobody's child, and gets no terminal again */

	if (pid != 0)
		_exit(pid < 0);
	log_path(paths, log);
	/* Files of whoever starts the daemon are none of its business, nor of the jobs that it
	 * runs. */
	fd = fcntl(ready_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd >= 0) {
		close_range((unsigned)STDERR_FILENO + 1, (unsigned)fd - 1, 0);
		close_range((unsigned)fd + 1, ~0U, 0);
		ready_fd = fd;
	}
	/* Nothing of the terminal is held. A relative PROCTOR_HOME has its meaning where we are. */
	setsid();
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		r = err_set(&err, -errno, "cannot use /dev/null: %s", strerror(errno));
	else if (paths->state_dir[0] == '/' && chdir("/") < 0)
		r = err_set(&err, -errno, "cannot go to /: %s", strerror(errno));
	close_fd(&fd);
	if (r == 0)
		r = begin_log(paths, &err);
	if (r == 0)
		r = serve(settings, ready_fd, log, &err);
	if (r == 0)
		return CLI_DONE;
	if (write(ready_fd, err.text, strlen(err.text)) < 0)
		log_error("%s", err.text);
	return CLI_FAILED;
}

/* ---- in the background: the parent's side ---- */

/* Up to its end, or to the byte that says "ready". Returns how much there is; -ETIMEDOUT. */
static ssize_t read_answer(int fd, char *text, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t until_ns = clock_boot_ns() + READY_TIMEOUT_MS * UINT64_C(1000000);
	size_t len = 0;

	while (len < size - 1 && (len == 0 || text[0] != SERVICE_READY)) {
		uint64_t now_ns = clock_boot_ns();
		ssize_t n;

		if (now_ns >= until_ns || poll(&p, 1, (int)((until_ns - now_ns) / 1000000)) == 0)
			return -ETIMEDOUT;
		n = read(fd, text + len, size - 1 - len);
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	text[len] = '\0';
	return (ssize_t)len;
}

static int start_in_background(const struct settings *settings, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	char text[sizeof(err->text)], log[LOG_PATH_BYTES];
	struct err why = ERR_INIT;
	int fds[2], status;
	const char *trouble;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return err_set(err, -errno, "cannot start the daemon: %s", strerror(errno));
	if (pid == 0) {
		close(fds[0]);
		_exit(serve_as_orphan(settings, fds[1]));
	}
	close(fds[1]);
	waitpid(pid, &status, 0);
	n = read_answer(fds[0], text, sizeof(text));
	close(fds[0]);
	log_path(&settings->paths, log);
	if (n == -ETIMEDOUT)
		return err_set(err, -ETIMEDOUT, "the daemon is not ready after %d s: see %s",
			       READY_TIMEOUT_MS / 1000, log);
	if (n == 0)
		return err_set(err, -ECHILD, "the daemon ended before it was ready: see %s", log);
	if (text[0] != SERVICE_READY)
		return err_set(err, -ECHILD, "%s", text);
	if (cli_call("daemon.status", NULL, &answer, &why) < 0)
		return 0;
	/* it runs all the same, and tries again at each tick */
	trouble = rpc_value_string(rpc_value_get(answer, "recording_error"));
	if (trouble)
		log_warning("the daemon runs, and records nothing: %s", trouble);
	return 0;
}

/* ---- the verb ---- */

int cli_start(int argc, char **argv)
{
	struct settings settings;
	struct err err = ERR_INIT;
	struct cli_flag foreground = { 0 };
	int r;

	cli_parse(&start_argp, argc, argv, 0, &foreground);
	r = settings_open(&settings, &err);
	if (r == 0 && !settings.config.enabled)
		r = err_set(&err, -EINVAL, "%s:%d: 'enabled' is false, so no daemon is started",
			    settings.paths.config, config_line(&settings.config, "enabled"));
	if (r == 0)
		r = foreground.is_set ? serve(&settings, -1, NULL, &err)
				      : start_in_background(&settings, &err);
	settings_close(&settings);
	if (r == 0)
		return CLI_DONE;
	return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
}

static const struct argp_option status_options[] = {
	CLI_OPTION("json", cli_flag, is_set, NULL, "Print JSON"),
	{ 0 },
};

static const struct argp status_argp = {
	.options = status_options,
	.doc = "Tells how the daemon is: how long it runs, what it costs, what it watches.\v"
	       "Exits with 1 if none runs.",
};

static double number(const struct rpc_value *status, const char *key)
{
	return rpc_value_f64(rpc_value_get(status, key));
}

static const char *text(const struct rpc_value *status, const char *key)
{
	const char *s = rpc_value_string(rpc_value_get(status, key));

	return s ? s : "-";
}

static void add_time(struct buf *out, const struct rpc_value *status, const char *key)
{
	double seconds = number(status, key);

	report_add_duration(out, f64_known(seconds) ? (uint64_t)(seconds * 1e9) : U64_UNKNOWN);
}

/* "before", text of the daemon's made safe, "after". */
static void add_said(struct buf *out, const char *before, const char *said, const char *after)
{
	buf_add_str(out, before);
	cli_add_text(out, said, 500);
	buf_add_str(out, after);
}

static void add_rung(void *ctx, const char *measurement, const struct rpc_value *rung)
{
	const char *name = rpc_value_string(rung);

	buf_printf(ctx, "  %-28s ", measurement);
	add_said(ctx, "", name ? name : "-", "\n");
}

/* A line for each of these that is not 0. */
static const struct {
	const char *key, *before, *after;
} losses[] = {
	{ "process_events_lost", "births    ",
	  "of the kernel's news of births and deaths were lost" },
	{ "process_accounts_missing", "ends      of ",
	  "processes the kernel did not say in time all that they had used: their CPU time is a "
	  "least time" },
	{ "phase_markers_lost", "phases    ", "markers of them were lost" },
	{ "log_lines_lost", "log       ", "snapshots could not be written to it, and are missing" },
};

static void add_config(struct buf *out, const struct rpc_value *config)
{
	const char *group = rpc_value_string(rpc_value_get(config, "missing_group"));
	char when[32];

	if (!f64_known(number(config, "loaded")))
		return;
	add_said(out, "config    ", text(config, "file"),
		 rpc_value_bool(rpc_value_get(config, "was_read"), true) ? "" : " (not there)");
	buf_printf(
		out, ", read %s\n",
		clock_format_local((uint64_t)(number(config, "loaded") * 1e9), when, sizeof(when)));
	if (group)
		add_said(out, "          nobody reads all jobs: there is no group '", group,
			 "' here (access.read_group)\n");
	if (!f64_known(number(config, "refused")))
		return;
	buf_printf(out, "          refused %s",
		   clock_format_local((uint64_t)(number(config, "refused") * 1e9), when,
				      sizeof(when)));
	add_said(out, ", so the one before holds: ", text(config, "error"), "\n");
}

static void add_database(struct buf *out, const struct rpc_value *s)
{
	buf_printf(out, "database  %s\n", text(s, "database"));
	if (number(s, "over_max_bytes") > 0) {
		buf_add_str(out, "          with what lies beside it ");
		report_add_bytes(out, (uint64_t)number(s, "over_max_bytes"));
		buf_add_str(out, " above max_bytes (see \"proctor gc\")\n");
	}
	if (number(s, "ticks_lost") > 0)
		buf_printf(out, "          %.0f records could not be stored, and are lost\n",
			   number(s, "ticks_lost"));
	if (rpc_value_bool(rpc_value_get(s, "recording"), false))
		return;
	buf_add_str(out, "          cannot be used, so nothing is recorded");
	if (number(s, "ticks_waiting") > 0)
		buf_printf(out, " and records of %.0f jobs wait", number(s, "ticks_waiting"));
	add_said(out, ": ", text(s, "recording_error"), "\n");
}

static void write_text(const struct rpc_value *s, const struct rpc_value *config, struct buf *out)
{
	double orphans = number(s, "orphans"), wanted = number(s, "configured_interval_seconds");

	buf_printf(out, "proctor %s, pid %.0f, up ", text(s, "version"), number(s, "pid"));
	add_time(out, s, "uptime_seconds");
	buf_printf(out, "\njobs      %.0f running, %.0f queued; a sheet waits in %.0f\n",
		   number(s, "running_jobs"), number(s, "queued_jobs"), number(s, "held_jobs"));
	buf_printf(out, "pressure  %s (%s)\n", text(s, "pressure_level"),
		   text(s, "pressure_reason"));
	if (orphans > 0)
		buf_printf(out, "orphans   %.0f process%s whose job%s over\n", orphans,
			   orphans == 1 ? " lives on" : "es live on",
			   orphans == 1 ? " is" : "s are");
	buf_add_str(out, "cost      ");
	if (f64_known(number(s, "cpu_percent"))) /* what it costs to begin is not what it costs */
		buf_printf(out, "%.2f %% of a core", number(s, "cpu_percent"));
	else
		buf_add_str(out, "not known yet");
	buf_printf(out, ", %.1f MB; the last tick took ", number(s, "rss_mb"));
	add_time(out, s, "tick_cpu_seconds");
	buf_add_str(out, " of CPU and came ");
	add_time(out, s, "tick_lag_seconds");
	buf_printf(out, " late\nticks     %.0f, every %g s", number(s, "ticks"),
		   number(s, "interval_seconds"));
	if (f64_known(wanted) && number(s, "interval_seconds") > wanted)
		buf_printf(out, " instead of %g s, which costs more than it may", wanted);
	buf_printf(out, ", %.0f left out\n", number(s, "ticks_skipped"));
	buf_printf(out, "clients   %.0f, %.0f of them subscribers; %.0f events lost\n",
		   number(s, "clients"), number(s, "subscribers"), number(s, "events_lost"));
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		if (number(s, losses[i].key) > 0)
			buf_printf(out, "%s%.0f %s\n", losses[i].before, number(s, losses[i].key),
				   losses[i].after);
	if (rpc_value_string(rpc_value_get(s, "web_address")))
		add_said(out, "page      http://", text(s, "web_address"),
			 ": see \"proctor web\"\n");
	else if (rpc_value_string(rpc_value_get(s, "web_error")))
		add_said(out, "page      none: ", text(s, "web_error"), "\n");
	add_database(out, s);
	add_config(out, config);
	if (rpc_value_string(rpc_value_get(s, "gpu_note"))) /* what is wrong with them */
		add_said(out, "GPUs      ", text(s, "gpu_note"), "\n");
	rpc_value_each(rpc_value_get(s, "rungs"), add_rung, out);
}

int cli_status(int argc, char **argv)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(cli_value_cleanup) struct rpc_value *status = NULL, *config = NULL;
	struct cli_flag json = { 0 };
	struct err err = ERR_INIT;
	struct json j;

	cli_parse(&status_argp, argc, argv, 0, &json);
	if (cli_call("daemon.status", NULL, &status, &err) < 0 ||
	    cli_call("daemon.config", NULL, &config, &err) < 0)
		return cli_fail(CLI_FAILED, &err);
	if (!json.is_set) {
		write_text(status, config, &out);
		return cli_print(&out);
	}
	json_init_object(&j, &out);
	cli_write_members(&j, status);
	json_key(&j, "config");
	rpc_value_write(config, &j);
	json_end_object(&j);
	buf_add_char(&out, '\n');
	return cli_print(&out);
}

static const struct argp_option stop_options[] = {
	CLI_OPTION("jobs", cli_flag, is_set, NULL,
		   "First cancel all jobs, and wait until nothing is left of them"),
	{ 0 },
};

static const struct argp stop_argp = {
	.options = stop_options,
	.doc = "Stops the daemon. Jobs that run go on, and record themselves; those that wait for "
	       "their turn wait for the next daemon.",
};

/* ---- the jobs ---- */

/* A runner gives its job 5 s after SIGTERM unless --kill-after says otherwise. */
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
	json_init_object(&j, &params);
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
	struct cli_flag jobs = { 0 };
	struct socket_paths paths;
	int r, left = 0;

	cli_parse(&stop_argp, argc, argv, 0, &jobs);
	r = socket_paths_find(&paths, &err);
	/* Who asks falls back to the daemon of the user and of the system, but nobody who names a
	 * home wants to stop those. */
	if (r == 0 && getenv("PROCTOR_HOME") && getenv("PROCTOR_HOME")[0])
		options.path = paths.items[0];
	if (r == 0)
		r = rpc_client_open(&options, &client, &err);
	/* Before any job is touched: who may not stop it, but could cancel some, has not meant
	 * that. */
	if (r == 0 && jobs.is_set && geteuid() != 0 && geteuid() != rpc_client_daemon_uid(client))
		r = err_set(
			&err, -EPERM,
			"only root and the daemon's own user may stop it: no job was cancelled");
	if (r == 0 && jobs.is_set)
		r = left = end_jobs(client, &err);
	if (r >= 0)
		r = stop_and_wait(client, &err);
	rpc_client_close(client);
	if (r < 0)
		return cli_fail(CLI_FAILED, &err);
	return left > 0 ? CLI_FAILED : CLI_DONE;
}
