#include "cli/doctor_gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define DEADLINE_NS                                                                   \
	UINT64_C(20000000000) /* of one driver: nvidia-smi is given 5 s for each call \
			       */
#define ENDED_MS 2000	      /* after its last word */
#define REAP_MS 10
/* For who answers a run: one that crashes or hangs is replaced by the next. */
#define WAIT_MS 20000
#define PATIENCE_SECONDS 10 /* the first question after a start takes some seconds */

/* ---- in the child ---- */

/* Drivers name devices as they like: no name reaches the terminal as it is, or makes a line. */
static void add_shown(struct buf *out, const char *text, size_t n)
{
	for (size_t at = 0; at < n;)
		at += utf8_add_shown(out, text + at, n - at);
}

static void print_answer(void *ctx, const char *rung, const char *what, uint64_t ns)
{
	CLEANUP(buf_release) struct buf line = BUF_INIT;
	ssize_t n;

	buf_printf(&line, "%s: ", rung);
	add_shown(&line, what, strlen(what));
	if (u64_known(ns))
		buf_printf(&line, " takes %.3g ms", (double)ns / 1e6);
	buf_add_char(&line, '\n');
	n = write(*(int *)ctx, line.data, line.len);
	(void)n; /* who asked is gone */
}

/* ---- in the parent ---- */

/* False: it did not come to its end. */
static bool read_answers(int fd, struct buf *out)
{
	uint64_t deadline = clock_boot_ns() + DEADLINE_NS, now;
	char text[1024];

	while ((now = clock_boot_ns()) < deadline) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&wait, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
			continue;
		n = read(fd, text, sizeof(text));
		if (n <= 0)
			return n == 0;
		buf_add(out, text, (size_t)n);
	}
	return false;
}

/* A child that the driver has spoilt may have written anything: only the lines are kept. */
static void add_lines(struct buf *out, const struct buf *said)
{
	const char *at = said->data ? said->data : "", *end = at + said->len;

	while (at < end) {
		size_t n = strcspn(at, "\n");

		n = n < (size_t)(end - at) ? n : (size_t)(end - at);
		add_shown(out, at, n);
		buf_add_char(out, '\n');
		at += n + 1;
	}
}

/* One that hangs inside the kernel cannot be waited for: false. */
static bool reap(pid_t pid, int *ret_status)
{
	struct pollfd nothing = { .fd = -1 };

	for (int left_ms = ENDED_MS; left_ms > 0; left_ms -= REAP_MS) {
		if (waitpid(pid, ret_status, WNOHANG) != 0)
			return true;
		poll(&nothing, 1, REAP_MS);
	}
	return false;
}

/* By what the child has ended with. */
static enum doctor_gpu judge(int told)
{
	if (told == GPUS_TOLD_LOSS)
		return DOCTOR_GPU_BROKEN;
	return told == GPUS_TOLD ? DOCTOR_GPU_ANSWERS : DOCTOR_GPU_SILENT;
}

static enum doctor_gpu hear(const char *name, pid_t pid, int fd, struct buf *out)
{
	CLEANUP(buf_release) struct buf said = BUF_INIT;
	bool has_ended = read_answers(fd, &said), is_reaped;
	int status = 0;

	if (!has_ended)
		kill(pid, SIGKILL);
	is_reaped = reap(pid, &status);
	add_lines(out, &said);
	if (!has_ended || !is_reaped) {
		buf_printf(out, "%s: it does not answer, and was asked no longer\n", name);
		return DOCTOR_GPU_BROKEN;
	}
	if (WIFSIGNALED(status)) {
		buf_printf(out, "%s: it crashes the process that asks it (%s)\n", name,
			   strsignal(WTERMSIG(status)));
		return DOCTOR_GPU_BROKEN;
	}
	if (said.len == 0)
		buf_printf(out, "%s: it ended the process that asked it\n", name);
	return said.len == 0 ? DOCTOR_GPU_SILENT : judge(WEXITSTATUS(status));
}

static enum doctor_gpu ask(int root_fd, size_t i, struct buf *out)
{
	enum doctor_gpu result = DOCTOR_GPU_SILENT;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return result;
	pid = fork();
	if (pid == 0)
		_exit(gpus_measure(root_fd, i, print_answer, &fds[1]));
	close(fds[1]);
	if (pid > 0)
		result = hear(gpus_driver_name(i), pid, fds[0], out);
	close(fds[0]);
	return result;
}

enum doctor_gpu doctor_ask_gpus(int root_fd, struct buf *out)
{
	enum doctor_gpu worst = DOCTOR_GPU_SILENT;

	signal(SIGCHLD, SIG_DFL); /* where it is ignored, nobody learns how a child has ended */
	for (size_t i = 0; gpus_driver_name(i); i++) {
		enum doctor_gpu result = ask(root_fd, i, out);

		worst = result > worst ? result : worst;
	}
	return worst;
}

void doctor_tell_gpu_rung(int root_fd, struct arena *arena, struct rung *rungs, size_t n)
{
	struct gpus_options options = { .root_fd = root_fd,
					.at_once = true,
					.patience_seconds = PATIENCE_SECONDS };
	struct gpus *gpus = NULL;

	if (gpus_open(&options, &gpus, NULL) < 0 || !gpus)
		return;
	gpus_wait(gpus, WAIT_MS);
	gpus_tell_rung(gpus, arena, rungs, n);
	gpus_close(gpus);
}
