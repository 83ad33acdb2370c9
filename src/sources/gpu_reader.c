/*
 * gpu_reader - the process that asks the drivers.
 *
 * There are two: a keeper that waits, and a reader that it starts again (after a
 * while) if it dies, as a library of the driver's may make it, and that it kills if
 * it hangs, as a driver may make it. Nobody waits for readings that do not come.
 *
 * They are nobody's child: a runner would take them for processes of its job.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "sources/gpu.h"

#define RESTART_MS 10000 /* until a reader that died is started again */
#define PATIENCE_SECONDS 30.0
#define GRACE_MS 2000 /* to end by itself */
#define MIN_INTERVAL_SECONDS 1.0

/* What the reader says to its keeper when it begins to ask the drivers, and when it has. */
#define BEAT_BEGIN 'b'
#define BEAT_END 'e'

/* ---- the reader ---- */

/* False: nobody listens any more. */
static bool wait_for_turn(int fd, double seconds)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, (int)(seconds * 1000)) == 0;
}

/* A message that finds no room is not missed: a newer one follows. */
static bool send_reading(int fd, const struct gpu_reading *r)
{
	return send(fd, r, gpu_reading_bytes(r), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
	       errno == EAGAIN || errno == ENOBUFS;
}

/* With the programs that were run. */
static uint64_t cpu_of_all_ns(void)
{
	struct rusage children;

	if (getrusage(RUSAGE_CHILDREN, &children) < 0)
		return clock_cpu_ns();
	return clock_cpu_ns() +
	       (uint64_t)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) * 1000000000 +
	       (uint64_t)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) * 1000;
}

static void beat(int fd, char what)
{
	ssize_t n = write(fd, &what, 1);

	(void)n; /* a keeper that is gone needs none */
}

static void read_until_end(const struct gpus_options *o, int fd, int beat_fd)
{
	static struct gpu_slot slots[GPU_VENDORS]; /* of this process alone, and large */
	static struct gpu_reading reading;
	double seconds = fmax(o->interval_seconds, MIN_INTERVAL_SECONDS);
	double pause = o->at_once ? 0 : seconds;

	prctl(PR_SET_NAME, "proctor-gpu");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; wait_for_turn(fd, pause); pause = seconds) {
		beat(beat_fd, BEAT_BEGIN);
		gpu_read_all(slots, o->root_fd, &reading);
		beat(beat_fd, BEAT_END);
		reading.cpu_ns = cpu_of_all_ns();
		if (!send_reading(fd, &reading))
			return;
	}
}

/* ---- the keeper ---- */

static double patience_of(const struct gpus_options *o)
{
	return o->patience_seconds > 0 ? o->patience_seconds : PATIENCE_SECONDS;
}

/* False: the reader has ended. */
static bool take_beats(int fd, bool *is_asking)
{
	char beats[64];
	ssize_t n = read(fd, beats, sizeof(beats));

	if (n > 0)
		*is_asking = beats[n - 1] == BEAT_BEGIN;
	return n > 0 || (n < 0 && errno == EINTR);
}

/* Until it has ended, or until nobody listens to it any more: then it is not waited for. */
static void watch_reader(pid_t pid, int fd, int beat_fd, int patience_ms)
{
	struct pollfd waits[] = { { .fd = fd }, { .fd = beat_fd, .events = POLLIN } };
	bool is_asking = false;
	int timeout_ms;

	for (;;) {
		timeout_ms = waits[0].fd < 0 ? GRACE_MS : is_asking ? patience_ms : -1;
		if (poll(waits, 2, timeout_ms) == 0) {
			kill(pid, SIGKILL); /* it hangs; inside the kernel, even this waits */
			is_asking = false;
			if (waits[0].fd < 0)
				return;
		} else if (waits[0].fd >= 0 && waits[0].revents) {
			waits[0].fd = -1;
		} else if (waits[1].revents && !take_beats(beat_fd, &is_asking)) {
			return;
		}
	}
}

static void start_and_watch(const struct gpus_options *o, int fd)
{
	int beats[2];
	pid_t pid;

	if (pipe2(beats, O_CLOEXEC) < 0)
		return;
	/* Not fork(): libuv's handler for it closes two files that were its own, whatever they are
	 * by now. */
	pid = _Fork();
	if (pid == 0) {
		close(beats[0]);
		read_until_end(o, fd, beats[1]);
		_exit(0);
	}
	close(beats[1]);
	if (pid > 0) {
		watch_reader(pid, fd, beats[0], (int)(patience_of(o) * 1000));
		kill(pid, SIGKILL); /* there is never a second one beside it */
	}
	close(beats[0]);
}

static void keep_reader(const struct gpus_options *o, int fd)
{
	struct pollfd wait = { .fd = fd };
	int pause_ms = (int)fmin(patience_of(o) * 1000, RESTART_MS);

	prctl(PR_SET_NAME, "proctor-gpu");
	do {
		start_and_watch(o, fd);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	} while (poll(&wait, 1, pause_ms) == 0);
}

/* All but the first three and these two. */
static void close_but(unsigned a, unsigned b)
{
	unsigned low = a < b ? a : b, high = a < b ? b : a;

	if (low > 3)
		close_range(3, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0U, 0);
}

/* Nothing of ours but these two; signals as they are by default. */
static void let_go(int *root_fd, int *fd)
{
	sigset_t none;
	int null_fd;

	setsid();
	sigemptyset(&none);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	*root_fd = fcntl(*root_fd, F_DUPFD_CLOEXEC, 3);
	*fd = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i <= STDERR_FILENO && null_fd >= 0; i++)
		dup2(null_fd, i);
	if (*root_fd < 0 || *fd < 0 || chdir("/") < 0)
		_exit(1);
	close_but((unsigned)*root_fd, (unsigned)*fd);
}

static void become_keeper(const struct gpus_options *options, int fd)
{
	struct gpus_options own = *options;

	let_go(&own.root_fd, &fd);
	keep_reader(&own, fd);
	_exit(0);
}

int gpu_reader_start(const struct gpus_options *options, int *ret_fd, struct err *err)
{
	int fds[2], status = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, -errno, "cannot read GPUs: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			become_keeper(options, fds[1]);
		_exit(pid < 0);
	}
	close(fds[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || status != 0) {
		close(fds[0]);
		return err_set(err, -EAGAIN, "cannot start a process that reads GPUs");
	}
	*ret_fd = fds[0];
	return 0;
}
