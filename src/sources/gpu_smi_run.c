#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "sources/gpu_smi.h"

#define TIMEOUT_SECONDS 5
#define TIMEOUT_NS (TIMEOUT_SECONDS * UINT64_C(1000000000))
#define KILLED_NS UINT64_C(2000000000) /* to end after it was killed; it may hang in the kernel */
#define POLL_MS 50
#define OUTPUT_MAX_KB 256
#define WORDS_BYTES 128 /* of what it says itself that are shown */
#define OUTPUT_MAX_BYTES (OUTPUT_MAX_KB << 10)

#define FORMAT "--format=csv,noheader,nounits"

/* How a shell says that there is no such program; nvidia-smi itself never ends with it. */
#define EXIT_NO_PROGRAM 127
#define EXIT_NOT_RUN 126

/* ---- how it ends ---- */

/* The numbers are those of its manual page. */
static const struct {
	int status, code;
	const char *what;
} ends[] = {
	{ 0, 0, "" },
	{ 4, -EACCES, "has no permission to ask the driver" },
	{ 6, -ENODEV, "finds no GPU" },
	{ 9, -ENODEV, "says that NVIDIA's driver is not loaded" },
	{ 12, -EIO, "does not find NVIDIA's library" },
	{ 14, 0, "" }, /* a device's memory of itself is spoilt: what it printed is right */
	{ 15, -ENXIO, "says that a GPU has fallen off the bus" },
	{ EXIT_NOT_RUN, -EIO, "cannot be started" },
	{ EXIT_NO_PROGRAM, -ENOENT, "is not installed" },
};

/* Its first line that is no row: it says what is wrong where it prints, not beside it. */
static int tell_status(int status, const char *text, struct err *err)
{
	struct smi_device device;
	char line[WORDS_BYTES];
	size_t n;

	for (; text && *text; text += n + (text[n] != '\0')) {
		n = strcspn(text, "\r\n");
		snprintf(line, sizeof(line), "%.*s", (int)n, text);
		if (n > 0 && !smi_parse_device(line, &device))
			return err_set(err, -EIO, SMI_PROGRAM " failed: %s (exit status %d)", line,
				       status);
	}
	return err_set(err, -EIO, SMI_PROGRAM " failed: its exit status is %d", status);
}

static int tell_end(int status, const char *text, struct err *err)
{
	if (WIFSIGNALED(status))
		return err_set(err, -EIO, SMI_PROGRAM " crashed (%s)", strsignal(WTERMSIG(status)));
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i].status == WEXITSTATUS(status))
			return ends[i].code == 0 ? 0
						 : err_set(err, ends[i].code, SMI_PROGRAM " %s",
							   ends[i].what);
	return tell_status(WEXITSTATUS(status), text, err);
}

static int tell_failure(int r, struct err *err)
{
	if (r == -ETIMEDOUT)
		return err_set(err, r, SMI_PROGRAM " did not answer within %d s, and was ended",
			       TIMEOUT_SECONDS);
	if (r == -EFBIG)
		return err_set(err, r, SMI_PROGRAM " printed more than %d KiB, and was ended",
			       OUTPUT_MAX_KB);
	return err_set(err, r, SMI_PROGRAM " failed: %s", strerror(-r));
}

/* ---- running it ---- */

/* Its group, for a handler of signals; 0: none runs. */
static volatile sig_atomic_t group;

void smi_end_program(void)
{
	if (group > 0)
		kill(-(pid_t)group, SIGKILL);
}

/*
 * With a group of its own, for it may be a script; and it ends with who asked, however that ends.
 * What it has started falls to the keeper then (gpu_keeper.c), which ends it; where that is gone
 * too, who asked has ended the group.
 */
static void become_program(const char *query, int out_fd, pid_t parent)
{
	const char *argv[] = { SMI_PROGRAM, query, FORMAT, NULL };
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getppid() != parent || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(out_fd, STDOUT_FILENO) < 0 || dup2(null_fd, STDERR_FILENO) < 0)
		_exit(EXIT_NOT_RUN);
	execvp(SMI_PROGRAM, (char *const *)argv);
	_exit(errno == ENOENT ? EXIT_NO_PROGRAM : EXIT_NOT_RUN);
}

/* Its pid, or -errno. */
static pid_t spawn(const char *query, int out_fd)
{
	pid_t parent = getpid(), pid = _Fork(); /* no handlers of libraries run in it */

	if (pid == 0)
		become_program(query, out_fd, parent);
	if (pid < 0)
		return -errno;
	setpgid(pid, pid); /* whoever is first */
	group = pid;
	return pid;
}

/* All that comes until its end; -ETIMEDOUT, -EFBIG. */
static int read_output(int fd, uint64_t deadline_ns, struct buf *out)
{
	char text[4096];

	while (out->len < OUTPUT_MAX_BYTES) {
		uint64_t now = clock_boot_ns();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (now >= deadline_ns ||
		    poll(&wait, 1, (int)((deadline_ns - now) / 1000000) + 1) == 0)
			return -ETIMEDOUT;
		n = read(fd, text, sizeof(text));
		if (n == 0)
			return buf_error(out);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			buf_add(out, text, (size_t)n);
	}
	return -EFBIG;
}

/* Whether it has ended, or -errno; it is not waited for yet, so that its number stays its own. */
static int has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -errno;
	return info.si_pid == pid;
}

/* -ETIMEDOUT; one that cannot be watched is only asked whether it has ended. */
static int wait_until(pid_t pid, uint64_t deadline_ns)
{
	CLEANUP(close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	uint64_t now;

	for (;;) {
		int r = has_ended(pid);

		if (r != 0)
			return r < 0 ? r : 0;
		now = clock_boot_ns();
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		poll(&wait, 1, fd < 0 ? POLL_MS : (int)((deadline_ns - now) / 1000000) + 1);
	}
}

/* With all that it has started, also where it has ended itself. 0 only if it ended well. */
static int end(pid_t pid, uint64_t deadline_ns, int r, const struct buf *out, struct err *err)
{
	int status = 0;

	if (r == 0)
		r = wait_until(pid, deadline_ns);
	kill(-pid, SIGKILL);
	group = 0;
	if (r < 0) {
		kill(pid, SIGKILL);
		wait_until(pid, clock_boot_ns() + KILLED_NS);
	}
	waitpid(pid, &status, WNOHANG);
	return r < 0 ? tell_failure(r, err) : tell_end(status, out->data, err);
}

/* One that was killed, and has not ended. */
static bool is_one_left(void)
{
	pid_t pid;

	do
		pid = waitpid(-1, NULL, WNOHANG);
	while (pid > 0);
	return pid == 0;
}

int smi_run(const char *query, struct buf *out, struct err *err)
{
	uint64_t deadline_ns = clock_boot_ns() + TIMEOUT_NS;
	int fds[2], r;
	pid_t pid;

	if (is_one_left())
		return err_set(err, -EBUSY,
			       SMI_PROGRAM " was killed and still hangs inside the driver");
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot run " SMI_PROGRAM ": %s", strerror(errno));
	pid = spawn(query, fds[1]);
	close(fds[1]);
	if (pid > 0)
		r = end(pid, deadline_ns, read_output(fds[0], deadline_ns, out), out, err);
	else
		r = tell_failure(pid, err);
	close(fds[0]);
	return r;
}
