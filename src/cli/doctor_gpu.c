#include "cli/doctor_gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/unknown.h"

#define DEADLINE_NS UINT64_C(15000000000)
#define WAIT_MS 5000 /* drivers take a second or two to begin */

/* In the child. */
static void print_answer(void *ctx, const char *rung, const char *what, uint64_t ns)
{
	int fd = *(int *)ctx;

	if (u64_known(ns))
		dprintf(fd, "%s: %s takes %.3g ms\n", rung, what, (double)ns / 1e6);
	else
		dprintf(fd, "%s: %s\n", rung, what);
}

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

static bool ask_in_child(int root_fd, pid_t pid, int fds[2], struct buf *out)
{
	bool has_ended;
	int status = 0;

	if (pid == 0) {
		size_t n_open = gpus_measure(root_fd, print_answer, &fds[1]);

		_exit(n_open == 0);
	}
	close(fds[1]);
	has_ended = read_answers(fds[0], out);
	if (!has_ended) {
		buf_add_str(out, "a driver does not answer: it was asked no longer\n");
		kill(pid, SIGKILL);
	}
	/* One that hangs inside the kernel cannot be waited for. */
	return waitpid(pid, &status, has_ended ? 0 : WNOHANG) == pid && status == 0;
}

bool doctor_ask_gpus(int root_fd, struct buf *out)
{
	int fds[2];
	bool answered = false;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid >= 0)
		answered = ask_in_child(root_fd, pid, fds, out);
	else
		close(fds[1]);
	close(fds[0]);
	return answered;
}

void doctor_tell_gpu_rung(int root_fd, struct arena *arena, struct rung *rungs, size_t n)
{
	struct gpus_options options = { .root_fd = root_fd, .at_once = true };
	struct gpus *gpus = NULL;

	if (gpus_open(&options, &gpus, NULL) < 0 || !gpus)
		return;
	gpus_wait(gpus, WAIT_MS);
	gpus_tell_rung(gpus, arena, rungs, n);
	gpus_close(gpus);
}
