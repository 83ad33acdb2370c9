#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "rpc/rpc.h"

/* How long the daemon may take until it serves clients. */
#define READY_TIMEOUT_MS 60000

#define LOG_MAX_BYTES (1024 * 1024)
#define LOG_PATH_BYTES (PATH_BYTES + 16)

struct start_args {
	bool foreground;
};

static const struct argp_option start_options[] = {
	CLI_OPTION("foreground", start_args, foreground, NULL,
		   "Stay in the foreground (for a service manager)"),
	{ 0 },
};

static const struct argp start_argp = {
	.options = start_options,
	.parser = cli_parse_option,
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

static int wait_until_ready(int fd, const struct paths *paths, struct err *err)
{
	char text[sizeof(err->text)], log[LOG_PATH_BYTES];
	ssize_t n = read_answer(fd, text, sizeof(text));

	log_path(paths, log);
	if (n == -ETIMEDOUT)
		return err_set(err, -ETIMEDOUT, "the daemon is not ready after %d s: see %s",
			       READY_TIMEOUT_MS / 1000, log);
	if (n == 0)
		return err_set(err, -ECHILD, "the daemon ended before it was ready: see %s", log);
	return text[0] == SERVICE_READY ? 0 : err_set(err, -ECHILD, "%s", text);
}

static int start_in_background(const struct settings *settings, struct err *err)
{
	CLEANUP(cli_value_cleanup) struct rpc_value *answer = NULL;
	struct err why = ERR_INIT;
	int fds[2], status, r;
	const char *trouble;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return err_set(err, -errno, "cannot start the daemon: %s", strerror(errno));
	if (pid == 0) {
		close(fds[0]);
		_exit(serve_as_orphan(settings, fds[1]));
	}
	close(fds[1]);
	waitpid(pid, &status, 0);
	r = wait_until_ready(fds[0], &settings->paths, err);
	close(fds[0]);
	if (r < 0 || cli_call("daemon.status", NULL, &answer, &why) < 0)
		return r;
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
	struct start_args args = { 0 };
	int r;

	cli_parse(&start_argp, argc, argv, 0, &args);
	r = settings_open(&settings, &err);
	if (r == 0 && !settings.config.enabled)
		r = err_set(&err, -EINVAL, "%s:%d: 'enabled' is false, so no daemon is started",
			    settings.paths.config, config_line(&settings.config, "enabled"));
	if (r == 0)
		r = args.foreground ? serve(&settings, -1, NULL, &err)
				    : start_in_background(&settings, &err);
	settings_close(&settings);
	if (r == 0)
		return CLI_DONE;
	return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_FAILED, &err);
}
