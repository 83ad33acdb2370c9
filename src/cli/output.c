#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/cli.h"

#define FLUSH_BYTES 65536

/* ---- signals ---- */

static const int ending_signals[] = { SIGINT, SIGTERM, SIGHUP };

static bool is_asked_to_end(const struct output *out)
{
	sigset_t pending;

	sigpending(&pending);
	sigandset(&pending, &pending, &out->held);
	return !sigisemptyset(&pending);
}

/* ---- the file ---- */

static int fail_open(const char *path, int r, struct err *err)
{
	return err_set(err, r, "cannot write %s: %s", path, strerror(-r));
}

/* It may be a link: then what it leads to is replaced, and it stays. */
static char *find_target(const char *path)
{
	char *target = realpath(path, NULL);

	return target || errno == ENOMEM ? target : strdup(path);
}

static int open_beside(struct output *out, const char *path, struct err *err)
{
	out->path = find_target(path);
	if (!out->path || asprintf(&out->path_for_now, "%s.XXXXXX", out->path) < 0) {
		out->path_for_now = NULL;
		return fail_open(path, -ENOMEM, err);
	}
	/* Those that would end us. What is ignored, as nohup does, stays so: a held one would
	 * count. */
	sigemptyset(&out->held);
	for (size_t i = 0; i < ARRAY_SIZE(ending_signals); i++) {
		struct sigaction action;

		if (sigaction(ending_signals[i], NULL, &action) == 0 &&
		    action.sa_handler == SIG_DFL)
			sigaddset(&out->held, ending_signals[i]);
	}
	sigprocmask(SIG_BLOCK, &out->held, NULL);
	out->fd = mkostemp(out->path_for_now, O_CLOEXEC); /* 0600 */
	if (out->fd >= 0)
		return 0;
	fail_open(path, -errno, err);
	free(TAKE_PTR(out->path_for_now)); /* it is not there */
	return err->code;
}

/* st: the file that is to be replaced. If it is ours, who could read it can go on to. */
static int replace(struct output *out, const char *path, const struct stat *st, struct err *err)
{
	int r = open_beside(out, path, err);

	if (r == 0 && st->st_uid == geteuid() && fchmod(out->fd, st->st_mode & 0777) < 0)
		r = fail_open(path, -errno, err);
	return r;
}

int output_open(struct output *out, const char *path, struct err *err)
{
	struct stat st;

	signal(SIGPIPE, SIG_IGN); /* no child of ours can inherit this */
	sigemptyset(&out->held);
	if (!path || strcmp(path, "-") == 0) {
		out->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(path, &st) < 0)
		return open_beside(out, path, err);
	if (S_ISREG(st.st_mode))
		return replace(out, path, &st, err);
	out->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return out->fd < 0 ? fail_open(path, -errno, err) : 0;
}

void output_release(struct output *out)
{
	if (out->path_for_now)
		unlink(out->path_for_now);
	if (out->fd > STDERR_FILENO)
		close(out->fd);
	free(out->path_for_now);
	free(out->path);
	buf_release(&out->buf);
	sigprocmask(SIG_UNBLOCK, &out->held, NULL); /* whoever waited ends us here */
	*out = (struct output)OUTPUT_INIT;
	sigemptyset(&out->held);
}

bool output_is_terminal(const struct output *out)
{
	return isatty(out->fd);
}

/* ---- writing ---- */

int output_flush(struct output *out)
{
	int r = buf_error(&out->buf);

	if (r == 0)
		r = io_write_all(out->fd, out->buf.data, out->buf.len);
	buf_reset(&out->buf);
	return r;
}

int output_pass(struct output *out)
{
	if (out->buf.len < FLUSH_BYTES)
		return 0;
	return is_asked_to_end(out) ? -EINTR : output_flush(out);
}

/* Whole on the disk before it takes the place of what was there. */
static int give_name(struct output *out)
{
	if (!out->path)
		return 0;
	if (fsync(out->fd) < 0 || rename(out->path_for_now, out->path) < 0)
		return -errno;
	free(TAKE_PTR(out->path_for_now));
	return 0;
}

int output_end(struct output *out, int r, struct err *err)
{
	if (r == 0)
		r = output_flush(out);
	if (r == 0)
		r = give_name(out);
	if (r == 0)
		return CLI_DONE;
	if (!err->code && (r == -EPIPE || is_asked_to_end(out)))
		return CLI_FAILED;
	if (!err->code && out->path)
		fail_open(out->path, r, err);
	else if (!err->code)
		err_set(err, r, "cannot write the output: %s", strerror(-r));
	return cli_fail(CLI_FAILED, err);
}
