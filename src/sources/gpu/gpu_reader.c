/*
 * gpu_reader - the two processes that ask the drivers.
 *
 * A keeper waits, and a reader asks. The keeper starts a reader again if it dies, as a library of
 * the driver's may make it, and kills it if it hangs, as a driver may make it. The reader says
 * whom it asks, so the keeper knows who was at fault, and the next reader, which has the keeper's
 * memory, begins with another driver. Nobody waits for readings that do not come.
 *
 * Both are nobody's child: a runner would take them for processes of its job.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "sources/gpu/gpu.h"

#define MIN_INTERVAL_SECONDS 1.0

/*
 * Each pause is a part of the time before it, so that a short job is seen as well as a long one:
 * a second apart for the first twenty. Drivers that are dear to ask keep a pace of their own.
 */
#define PAUSE_PART 20

/* Where thousands of processes have to be looked through, that takes its part of a core at most. */
#define LOOK_PART 20
#define LOOK_MAX_SECONDS 10.0

/* What the reader says to its keeper: whom it asks, who has answered, and that it asks nobody. */
struct gpu_message {
	uint8_t what; /* enum gpu_beat, or GPU_MESSAGE_END */
	uint8_t driver;
};

#define GPU_MESSAGE_END 100

/* ---- the reader ---- */

double gpu_pause_seconds(double interval_seconds, uint64_t age_ns)
{
	double longest = fmax(interval_seconds, MIN_INTERVAL_SECONDS);

	return fmin(longest, fmax((double)age_ns / 1e9 / PAUSE_PART, MIN_INTERVAL_SECONDS));
}

/* A message that finds no room is not missed: a newer one follows. False: nobody listens. */
static bool gpu_send_reading(int fd, const struct gpu_reading *r)
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

/* As if there were no handler: who has killed us is told from a driver that did. */
static void end_with_program(int number)
{
	smi_end_program();
	signal(number, SIG_DFL);
	raise(number);
}

/* In the reader: until nobody listens at fd any more. */
static void gpu_read_until_end(const struct gpus_options *o, struct gpu_slots *slots, int fd,
			       int beat_fd)
{
	static struct gpu_reading reading; /* of this process alone, and large */
	static struct gpu_users users;	   /* as well */
	uint64_t began_ns = clock_boot_ns(), before_ns;
	double pause = o->at_once ? 0 : MIN_INTERVAL_SECONDS, rest;
	struct pollfd listener = { .fd = fd, .events = POLLIN };

	prctl(PR_SET_NAME, "proctor-gpu");
	/*
	 * Without a keeper nobody would end a program, and what it has started. A library that
	 * keeps the signal away does not last either: nobody reads what we say any more (SIGPIPE).
	 */
	signal(SIGTERM, end_with_program);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	slots->beat = say_beat;
	slots->ctx = &beat_fd;
	while (poll(&listener, 1, (int)(pause * 1000)) == 0) { /* somebody listens */
		gpu_read_all(slots, o->root_fd, &reading);
		say(beat_fd, GPU_MESSAGE_END, 0);
		/* Programs that were killed and ended later. */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		before_ns = clock_cpu_ns();
		gpu_find_left_out(o->root_fd, &users, &reading);
		rest = fmin((double)(clock_cpu_ns() - before_ns) / 1e9 * LOOK_PART,
			    LOOK_MAX_SECONDS); /* so long it must be left alone after that */
		reading.cpu_ns = cpu_of_all_ns();
		if (!gpu_send_reading(fd, &reading))
			return;
		pause = fmax(rest,
			     gpu_pause_seconds(o->interval_seconds, clock_boot_ns() - began_ns));
	}
}

/* ---- the keeper ---- */

#define RESTART_MS 10000 /* until a reader that died for no known reason is started again */
#define PATIENCE_SECONDS 30.0
#define GRACE_MS 2000 /* to end by itself */
#define REAP_MS 10
#define NO_DRIVER (-1)
#define KILLS_TO_BLAME 2

struct keeper {
	struct gpus_options options;
	int fd; /* of who listens */
	struct gpu_slots slots;
	pid_t reader; /* 0: none was started; its number may be anybody's */
	int asks;     /* the driver that the reader asks; NO_DRIVER */
	bool has_hung, is_over;
	unsigned n_kills[GPU_N_DRIVERS]; /* in a row, by others, while it was asked */
};

static double or_else(double seconds, double otherwise)
{
	return seconds > 0 ? seconds : otherwise;
}

/* What a program has started falls to us when that ends. The reader's end is not taken here. */
static void reap_strays(const struct keeper *k)
{
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
		    info.si_pid == k->reader)
			return;
		waitpid(info.si_pid, NULL, WNOHANG);
	}
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
		} else if (waits[1].revents) {
			struct gpu_message messages[32];
			ssize_t n = read(beat_fd, messages, sizeof(messages));

			for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(messages[0]); i++) {
				uint8_t what = messages[i].what, driver = messages[i].driver;

				if (driver >= GPU_N_DRIVERS)
					continue;
				if (what == GPU_BEAT_ANSWERED)
					k->slots.records[driver].n_deaths = k->n_kills[driver] = 0;
				k->asks = what == GPU_MESSAGE_END ? NO_DRIVER : driver;
			}
			if (n == 0 || (n < 0 && errno != EINTR)) /* the reader has ended */
				return;
			reap_strays(k);
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

	for (int i = 0; k->slots.places && i < GPU_VENDORS; i++)
		gpu_make_places_safe(&k->slots.places[i]);
	k->reader = 0;
	k->asks = NO_DRIVER;
	k->has_hung = false;
	if (pipe2(beats, O_CLOEXEC) < 0)
		return;
	/* Not fork(): libuv's handler for it closes two files that were its own, whatever they are
	 * by now. */
	k->reader = _Fork();
	if (k->reader == 0) {
		close(beats[0]);
		gpu_read_until_end(&k->options, &k->slots, k->fd, beats[1]);
		_exit(0);
	}
	close(beats[1]);
	if (k->reader > 0)
		watch_reader(k, beats[0]);
	close(beats[0]);
}

/* By a person, or for want of memory: that is no driver's fault, unless it happens again. */
static bool was_killed(struct keeper *k, int signal)
{
	return !k->has_hung && (signal == SIGKILL || signal == SIGTERM) &&
	       ++k->n_kills[k->asks] < KILLS_TO_BLAME;
}

/* Whether it is known which driver the reader died of: the next one can begin with another. */
static bool note_death(struct keeper *k)
{
	static struct gpu_reading reading; /* of this process alone, and large */
	int signal = k->reader > 0 ? reap_reader(k->reader) : 0;
	struct gpu_record *record;
	struct err err = ERR_INIT;

	if (k->reader <= 0 || k->asks == NO_DRIVER || k->is_over || was_killed(k, signal))
		return false;
	record = &k->slots.records[k->asks];
	gpu_record_death(record, k->has_hung ? GPU_HUNG : signal, clock_boot_ns());
	/* Nobody has to wait for the next reader to know why there is no reading. */
	gpu_tell_death(record, k->slots.again_ns, gpu_drivers[k->asks]->name, &err);
	gpu_reading_init(&reading);
	gpu_note(&reading, "%s", err.text);
	reading.n_left_out = 1; /* whoever holds one */
	reading.is_interim = 1;
	reading.boot_ns = clock_boot_ns();
	gpu_send_reading(k->fd, &reading);
	return true;
}

/* Our own, which have not been waited for: their numbers are nobody else's. */
static void kill_children(void)
{
	char path[64], text[4096], *at = text, *end;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (io_read_text_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return;
	for (long pid; (pid = strtol(at, &end, 10)) > 0 && *end; at = end) /* one may be cut */
		kill((pid_t)pid, SIGKILL);
}

/* One that hangs inside the kernel is not waited for. */
void gpu_end_children(void)
{
	struct pollfd nothing = { .fd = -1 };

	for (int left_ms = GRACE_MS; left_ms > 0; left_ms -= REAP_MS) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0)
			return;
		kill_children();
		poll(&nothing, 1, REAP_MS);
	}
}

static void keep(struct keeper *k)
{
	double pause_seconds = or_else(k->options.patience_seconds, PATIENCE_SECONDS);
	int pause_ms = (int)fmin(pause_seconds * 1000, RESTART_MS);
	struct pollfd wait = { .fd = k->fd };
	bool is_known;

	prctl(PR_SET_NAME, "proctor-gpu");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	k->slots.again_ns =
		(uint64_t)(or_else(k->options.again_seconds, (double)GPU_AGAIN_NS / 1e9) * 1e9);
	do {
		start_and_watch(k);
		is_known = note_death(k);
		gpu_end_children(); /* what a program that the reader ran has started is ours now */
	} while (poll(&wait, 1, is_known ? 0 : pause_ms) == 0);
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

/* Until nobody listens at fd any more. */
static void become_keeper(const struct gpus_options *options, int fd)
{
	static struct keeper keeper; /* of this process alone, and large */
	void *places;

	keeper = (struct keeper){ .options = *options, .fd = fd };
	let_go(&keeper.options.root_fd, &keeper.fd);
	/* What readers write, for the next ones; NULL: each begins to number anew. */
	places = mmap(NULL, GPU_VENDORS * sizeof(struct gpu_places), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	keeper.slots.places = places == MAP_FAILED ? NULL : places;
	keep(&keeper);
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
