#include "daemon/workdir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "daemon/launch.h"
#include "daemon/user.h"

/* Others wait for their turn meanwhile. */
#define PATIENCE_MS 500

#define WORD_FD 3 /* in the child: why not, as an errno */

static int keep_only(int fd)
{
	if (dup2(fd, WORD_FD) < 0)
		return -errno;
	return close_range(WORD_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

static int become(uid_t uid)
{
	struct user user = { 0 };
	int r;

	if (uid == geteuid())
		return 0;
	r = user_find(uid, &user, NULL);
	return r < 0 ? r : user_become(&user);
}

/* In the child. What ends without a word could not tell. */
__attribute__((noreturn)) static void look(const char *path, uid_t uid, int fd)
{
	int error;

	if (keep_only(fd) < 0 || become(uid) < 0)
		_exit(1);
	error = chdir(path) < 0 ? errno : 0;
	_exit(io_write_all(WORD_FD, &error, sizeof(error)) < 0);
}

/* False: it hangs. *ret_error stays 0 where it could not tell. */
static bool hear(int fd, int *ret_error)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int error;

	if (poll(&p, 1, PATIENCE_MS) <= 0)
		return false;
	if (read(fd, &error, sizeof(error)) == sizeof(error))
		*ret_error = error;
	return true;
}

/* Where no signal comes through it ends when it can, and is waited for with others of ours. */
static void end_hung(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, WNOHANG);
}

static int ask_child(const char *path, uid_t uid, const int fds[2])
{
	pid_t pid = fork();
	int error = 0;

	if (pid == 0)
		look(path, uid, fds[1]);
	close(fds[1]);
	if (pid > 0 && !hear(fds[0], &error))
		end_hung(pid);
	else if (pid > 0)
		waitpid(pid, NULL, 0);
	close(fds[0]);
	return error;
}

int workdir_check(const char *path, uid_t uid, struct err *err)
{
	int fds[2], error;

	if (launch_is_set()) /* it may see other folders than we do */
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return 0;
	error = ask_child(path, uid, fds);
	return error == 0 ? 0
			  : err_set(err, -EINVAL, "'workdir' cannot be entered: %s: %.300s",
				    strerror(error), path);
}
