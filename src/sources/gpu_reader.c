/*
 * gpu_reader - the process that asks the drivers.
 *
 * There are two: a keeper that waits, and a reader that it starts again if it dies, as a
 * library of the driver's may make it, and that it kills if it hangs, as a driver may make it.
 * The reader says whom it asks, so the keeper knows who was at fault, and the next reader,
 * which has the keeper's memory, begins with another driver. Nobody waits for readings that do
 * not come.
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

#define RESTART_MS 10000 /* until a reader that died for no known reason is started again */
#define PATIENCE_SECONDS 30.0
#define GRACE_MS 2000 /* to end by itself */
#define REAP_MS 10
#define MIN_INTERVAL_SECONDS 1.0
#define NO_DRIVER (-1)

/* What the reader says to its keeper: whom it asks, who has answered, and that it asks nobody. */
struct message {
	uint8_t what; /* enum gpu_beat, or MESSAGE_END */
	uint8_t driver;
};

#define MESSAGE_END 100

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

static void say(int fd, uint8_t what, size_t driver)
{
	struct message message = { what, (uint8_t)driver };
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

static void read_until_end(const struct gpus_options *o, struct gpu_slots *slots, int fd,
			   int beat_fd)
{
	static struct gpu_reading reading; /* of this process alone, and large */
	double seconds = fmax(o->interval_seconds, MIN_INTERVAL_SECONDS);
	double pause = o->at_once ? 0 : seconds;

	prctl(PR_SET_NAME, "proctor-gpu");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	slots->beat = say_beat;
	slots->ctx = &beat_fd;
	for (; wait_for_turn(fd, pause); pause = seconds) {
		gpu_read_all(slots, o->root_fd, &reading);
		say(beat_fd, MESSAGE_END, 0);
		reap_programs();
		reading.cpu_ns = cpu_of_all_ns();
		if (!send_reading(fd, &reading))
			return;
	}
}

/* ---- the keeper ---- */

struct keeper {
	struct gpus_options options;
	int fd; /* of who listens */
	struct gpu_slots slots;
	pid_t reader;
	int asks; /* the driver that the reader asks; NO_DRIVER */
	bool has_hung, is_over;
};

static double or_else(double seconds, double otherwise)
{
	return seconds > 0 ? seconds : otherwise;
}

static void take_message(struct keeper *k, const struct message *m)
{
	if (m->driver >= GPU_N_DRIVERS)
		return;
	if (m->what == GPU_BEAT_ANSWERED)
		k->slots.records[m->driver].n_deaths = 0;
	k->asks = m->what == MESSAGE_END ? NO_DRIVER : m->driver;
}

/* False: the reader has ended. */
static bool take_messages(struct keeper *k, int fd)
{
	struct message messages[32];
	ssize_t n = read(fd, messages, sizeof(messages));

	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(messages[0]); i++)
		take_message(k, &messages[i]);
	return n > 0 || (n < 0 && errno == EINTR);
}

/* Until it has ended, or until nobody listens to it any more: then it is not waited for. */
static void watch_reader(struct keeper *k, int beat_fd)
{
	struct pollfd waits[] = { { .fd = k->fd }, { .fd = beat_fd, .events = POLLIN } };
	int patience_ms = (int)(or_else(k->options.patience_seconds, PATIENCE_SECONDS) * 1000);
	int timeout_ms;

	for (;;) {
		bool is_asking = k->asks != NO_DRIVER && !k->has_hung;

		timeout_ms = k->is_over ? GRACE_MS : is_asking ? patience_ms : -1;
		if (poll(waits, 2, timeout_ms) == 0) {
			kill(k->reader, SIGKILL); /* inside the kernel, even this waits */
			k->has_hung = true;
			if (k->is_over)
				return;
		} else if (waits[0].fd >= 0 && waits[0].revents) {
			waits[0].fd = -1;
			k->is_over = true;
		} else if (waits[1].revents && !take_messages(k, beat_fd)) {
			return;
		}
	}
}

/* The signal that ended it; 0: none, or it has not ended yet. */
static int reap_reader(pid_t pid)
{
	struct pollfd nothing = { .fd = -1 };
	int status = 0;

	kill(pid, SIGKILL); /* there is never a second one beside it; one that has ended is dead */
	for (int left_ms = GRACE_MS; left_ms > 0; left_ms -= REAP_MS) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		poll(&nothing, 1, REAP_MS);
	}
	return 0;
}

static void start_and_watch(struct keeper *k)
{
	int beats[2];

	k->asks = NO_DRIVER;
	k->has_hung = false;
	if (pipe2(beats, O_CLOEXEC) < 0)
		return;
	/* Not fork(): libuv's handler for it closes two files that were its own, whatever they are
	 * by now. */
	k->reader = _Fork();
	if (k->reader == 0) {
		close(beats[0]);
		read_until_end(&k->options, &k->slots, k->fd, beats[1]);
		_exit(0);
	}
	close(beats[1]);
	if (k->reader > 0)
		watch_reader(k, beats[0]);
	close(beats[0]);
}

/* Nobody has to wait for the next reader to know why there is no reading. */
static void tell_death(struct keeper *k)
{
	static struct gpu_reading reading; /* of this process alone, and large */
	const struct gpu_record *record = &k->slots.records[k->asks];
	struct err err = ERR_INIT;

	gpu_tell_death(record, k->slots.again_ns, gpu_drivers[k->asks]->name, &err);
	gpu_reading_init(&reading);
	gpu_note(&reading, "%s", err.text);
	reading.n_left_out = 1; /* whoever holds one */
	reading.is_interim = 1;
	reading.boot_ns = clock_boot_ns();
	send_reading(k->fd, &reading);
}

/* Whether it is known which driver the reader died of: the next one can begin with another. */
static bool note_death(struct keeper *k)
{
	int signal = k->reader > 0 ? reap_reader(k->reader) : 0;

	if (k->reader <= 0 || k->asks == NO_DRIVER || k->is_over)
		return false;
	gpu_record_death(&k->slots.records[k->asks], k->has_hung ? GPU_HUNG : signal,
			 clock_boot_ns());
	tell_death(k);
	return true;
}

static void keep_reader(struct keeper *k)
{
	double pause_seconds = or_else(k->options.patience_seconds, PATIENCE_SECONDS);
	int pause_ms = (int)fmin(pause_seconds * 1000, RESTART_MS);
	struct pollfd wait = { .fd = k->fd };
	bool is_known;

	prctl(PR_SET_NAME, "proctor-gpu");
	k->slots.again_ns =
		(uint64_t)(or_else(k->options.again_seconds, (double)GPU_AGAIN_NS / 1e9) * 1e9);
	do {
		start_and_watch(k);
		is_known = note_death(k);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	} while (poll(&wait, 1, is_known ? 0 : pause_ms) == 0);
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
	static struct keeper keeper; /* of this process alone, and large */

	keeper = (struct keeper){ .options = *options, .fd = fd };
	let_go(&keeper.options.root_fd, &keeper.fd);
	keep_reader(&keeper);
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
