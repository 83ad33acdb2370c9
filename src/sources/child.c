#include "sources/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

/* A killed child is gone at once, unless it is in a call that no signal ends. */
#define END_MS 100

#define ANSWER_FD 3

__attribute__((noreturn)) static void be_child(const struct child_question *q, int fd)
{
	int carried = q->carried_fd < 0 ? -1 : fcntl(q->carried_fd, F_DUPFD, CHILD_CARRIED_FD + 1);
	bool is_well = dup2(fd, ANSWER_FD) >= 0;
	char start;

	if (carried >= 0)
		is_well = is_well && dup2(carried, CHILD_CARRIED_FD) >= 0;
	is_well = is_well &&
		  close_range(carried >= 0 ? CHILD_CARRIED_FD + 1 : ANSWER_FD + 1, ~0U, 0) == 0;
	for (int i = 0; is_well && i < ANSWER_FD; i++) /* a library may write to them */
		close(i);
	for (int i = 0; is_well && i < ANSWER_FD; i++)
		is_well = open("/dev/null", O_RDWR) == i;
	/* Until the parent has a handle: what ends before that may be anybody by then. */
	if (is_well && read(ANSWER_FD, &start, 1) == 1)
		q->fn(q->ctx, ANSWER_FD);
	_exit(0);
}

/* All that comes until the other end is closed, or size bytes. */
static ssize_t take(int fd, char *answer, size_t size, int patience_ms)
{
	uint64_t until = clock_boot_ns() + (uint64_t)patience_ms * 1000000;
	size_t n = 0;

	while (n < size) {
		struct pollfd comes = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_boot_ns();
		ssize_t got;

		if (now >= until || poll(&comes, 1, (int)((until - now) / 1000000) + 1) <= 0)
			return -ETIMEDOUT;
		got = recv(fd, answer + n, size - n, MSG_DONTWAIT);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n > 0 ? (ssize_t)n : -ENODATA;
}

ssize_t child_ask(const struct child_question *q, void *answer, size_t size, pid_t *ret_pid)
{
	CLEANUP(close_fd) int ours = -1, theirs = -1, pidfd = -1;
	struct pollfd child_ends;
	int fds[2];
	ssize_t r;
	pid_t pid;

	if (ret_pid)
		*ret_pid = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	ours = fds[0];
	theirs = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		be_child(q, theirs);
	close_fd(&theirs);
	if (ret_pid)
		*ret_pid = pid;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return -errno; /* it sees our end close, and ends */
	r = send(ours, "", 1, MSG_NOSIGNAL) == 1 ? take(ours, answer, size, q->patience_ms)
						 : -ENODATA;
	/* Also one that is stopped. What no signal ends is waited for with others of ours. */
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	child_ends = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	poll(&child_ends, 1, END_MS);
	waitid(P_PIDFD, (id_t)pidfd, NULL, WEXITED | WNOHANG);
	return r;
}
