#include "daemon/queue/child_word.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "daemon/queue/user.h"

/* A killed child is gone at once, unless it is in a call that no signal ends. */
#define END_MS 100

/* ---- in the child ---- */

#define WORD_FD 3

static int keep_only(int fd)
{
	if (dup2(fd, WORD_FD) < 0 || close_range(WORD_FD + 1, ~0U, 0) < 0)
		return -errno;
	for (int i = 0; i < WORD_FD; i++) /* a library may write to them */
		close(i);
	for (int i = 0; i < WORD_FD; i++)
		if (open("/dev/null", O_RDWR) != i)
			return -EBADF;
	return 0;
}

/* Until the parent has a handle: what ends before that may be anybody by then. */
static bool wait_for_start(void)
{
	char start;

	return read(WORD_FD, &start, 1) == 1;
}

__attribute__((noreturn)) static void be_child(child_word_find *find, const void *ctx, int fd)
{
	if (keep_only(fd) == 0 && wait_for_start())
		find(ctx, WORD_FD);
	_exit(0);
}

void child_word_tell(int word_fd, int word)
{
	io_write_all(word_fd, &word, sizeof(word));
}

int child_word_become(uid_t uid)
{
	struct user user = { 0 };
	int r;

	if (uid == geteuid())
		return 0;
	r = user_find(uid, &user, NULL);
	if (r == 0)
		r = user_set_environment(&user);
	return r < 0 ? r : user_become(&user);
}

/* ---- in the parent ---- */

static int hear(int fd, int patience_ms, int *ret_word)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int word;

	if (send(fd, "", 1, MSG_NOSIGNAL) != 1)
		return -ENODATA;
	if (poll(&p, 1, patience_ms) <= 0)
		return -ETIMEDOUT;
	if (recv(fd, &word, sizeof(word), MSG_DONTWAIT) != sizeof(word))
		return -ENODATA;
	*ret_word = word;
	return 0;
}

/* Also one that is stopped. What no signal ends is waited for with others of ours. */
static void end(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	poll(&p, 1, END_MS);
	waitid(P_PIDFD, (id_t)pidfd, NULL, WEXITED | WNOHANG);
}

int child_word_ask(child_word_find *find, const void *ctx, int patience_ms, int *ret_word)
{
	CLEANUP(close_fd) int ours = -1, theirs = -1, pidfd = -1;
	int fds[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	ours = fds[0];
	theirs = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		be_child(find, ctx, theirs);
	close_fd(&theirs);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return -errno; /* it sees our end close, and ends */
	r = hear(ours, patience_ms, ret_word);
	end(pidfd);
	return r;
}
