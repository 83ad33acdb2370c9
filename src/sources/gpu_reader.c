/*
 * gpu_reader - the process that asks the drivers, and how it is started.
 *
 * It and its keeper are nobody's child: a runner would take them for processes of its job.
 */
#include "sources/gpu_reader.h"

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
#include "sources/gpu_smi.h"

#define MIN_INTERVAL_SECONDS 1.0

/*
 * Each pause is a part of the time before it, so that a short job is seen as well as a long one:
 * a second apart for the first twenty. Drivers that are dear to ask keep a pace of their own.
 */
#define PAUSE_PART 20

/* Where thousands of processes have to be looked through, that takes its part of a core at most. */
#define LOOK_PART 20
#define LOOK_MAX_SECONDS 10.0

/* ---- the reader ---- */

double gpu_pause_seconds(double interval_seconds, uint64_t age_ns)
{
	double longest = fmax(interval_seconds, MIN_INTERVAL_SECONDS);

	return fmin(longest, fmax((double)age_ns / 1e9 / PAUSE_PART, MIN_INTERVAL_SECONDS));
}

/* False: nobody listens any more. */
static bool wait_for_turn(int fd, double seconds)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, (int)(seconds * 1000)) == 0;
}

bool gpu_send_reading(int fd, const struct gpu_reading *r)
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

static void say(int fd, uint8_t what, size_t driver)
{
	struct gpu_message message = { what, (uint8_t)driver };
	ssize_t n = write(fd, &message, sizeof(message));

	(void)n; /* a keeper that is gone needs none */
}

static void say_beat(void *ctx, enum gpu_beat beat, size_t driver)
{
	say(*(const int *)ctx, (uint8_t)beat, driver);
}

/* Programs that were killed and ended later. */
static void reap_programs(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* Returns how long it must be left alone after that. */
static double find_left_out(int root_fd, struct gpu_reading *reading)
{
	static struct gpu_users users; /* of this process alone, and large */
	uint64_t before_ns = clock_cpu_ns();

	gpu_find_left_out(root_fd, &users, reading);
	return fmin((double)(clock_cpu_ns() - before_ns) / 1e9 * LOOK_PART, LOOK_MAX_SECONDS);
}

/* As if there were no handler: who has killed us is told from a driver that did. */
static void end_with_program(int number)
{
	smi_end_program();
	signal(number, SIG_DFL);
	raise(number);
}

/*
 * Without a keeper nobody would end a program, and what it has started. A library that keeps the
 * signal away does not last either: nobody reads what we say any more (SIGPIPE).
 */
static void end_with_keeper(void)
{
	signal(SIGTERM, end_with_program);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
}

void gpu_read_until_end(const struct gpus_options *o, struct gpu_slots *slots, int fd, int beat_fd)
{
	static struct gpu_reading reading; /* of this process alone, and large */
	uint64_t began_ns = clock_boot_ns();
	double pause = o->at_once ? 0 : MIN_INTERVAL_SECONDS, rest;

	prctl(PR_SET_NAME, "proctor-gpu");
	end_with_keeper();
	slots->beat = say_beat;
	slots->ctx = &beat_fd;
	while (wait_for_turn(fd, pause)) {
		gpu_read_all(slots, o->root_fd, &reading);
		say(beat_fd, GPU_MESSAGE_END, 0);
		reap_programs();
		rest = find_left_out(o->root_fd, &reading);
		reading.cpu_ns = cpu_of_all_ns();
		if (!gpu_send_reading(fd, &reading))
			return;
		pause = fmax(rest,
			     gpu_pause_seconds(o->interval_seconds, clock_boot_ns() - began_ns));
	}
}

/* ---- starting them ---- */

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

void gpu_leave_no_core(void)
{
	/* One byte: 0 would not stop a kernel that hands it to a program (core_pattern "|..."). */
	const struct rlimit least = { 1, 1 };

	setrlimit(RLIMIT_CORE, &least);
}

/* Nothing of ours but these two; signals as they are by default. */
static void let_go(int *root_fd, int *fd)
{
	sigset_t none;
	int null_fd;

	setsid();
	gpu_leave_no_core();
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
	gpu_keep_reader(&own, fd);
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
