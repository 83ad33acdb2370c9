/*
 * gpu_reader - the process that asks the drivers.
 *
 * There are two: a keeper that waits, and a reader that it starts again (after a
 * while) if it dies, as a library of the driver's may make it. A driver that hangs
 * makes the reader hang, and then no readings come; nobody waits for them.
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "sources/gpu.h"

#define REOPEN_NS UINT64_C(10000000000) /* until a driver that failed is tried again */
#define RESTART_MS 10000		/* until a reader that died is started again */
#define MIN_INTERVAL_SECONDS 1.0

const struct gpu_driver *const gpu_drivers[] = { &gpu_nvml, &gpu_smi, &gpu_drm };
const size_t gpu_n_drivers = ARRAY_SIZE(gpu_drivers);

/* ---- asking ---- */

/* The driver of a vendor's GPUs that is in use. */
struct slot {
	const struct gpu_driver *driver; /* NULL: none is open */
	void *opened;
	uint64_t tried_boot_ns; /* 0: never */
	struct err err;		/* why none is; code 0: there are no such GPUs */
};

static void open_slot(struct slot *slot, int root_fd, enum gpu_vendor vendor)
{
	uint64_t now = clock_boot_ns();

	if (slot->driver || (slot->tried_boot_ns && now - slot->tried_boot_ns < REOPEN_NS))
		return;
	slot->tried_boot_ns = now;
	for (size_t i = 0; !slot->driver && i < gpu_n_drivers; i++) {
		struct err err = ERR_INIT;

		if (gpu_drivers[i]->vendor != vendor)
			continue;
		if (gpu_drivers[i]->open(root_fd, &slot->opened, &err) == 0)
			slot->driver = gpu_drivers[i];
		else if (slot->err.code == 0)
			slot->err = err;
	}
}

static void note_rung(struct gpu_reading *r, const char *name)
{
	size_t n = strlen(r->rung);

	snprintf(r->rung + n, sizeof(r->rung) - n, "%s%s", n ? " + " : "", name);
}

static void read_slot(struct slot *slot, struct gpu_reading *ret)
{
	struct err err = ERR_INIT;

	if (!slot->driver)
		return;
	if (slot->driver->read(slot->opened, ret, &err) == 0) {
		slot->err = (struct err)ERR_INIT;
		note_rung(ret, slot->driver->name);
		return;
	}
	gpu_note(ret, "%s", err.text);
	slot->driver->close(slot->opened);
	slot->driver = NULL;
}

/* That a vendor has none is no news; that nobody could be asked is. */
static void note_absence(const struct slot slots[GPU_VENDORS], struct gpu_reading *ret)
{
	if (ret->rung[0])
		return;
	for (int i = 0; i < GPU_VENDORS; i++)
		if (slots[i].err.code && slots[i].err.code != -ENODEV)
			gpu_note(ret, "%s", slots[i].err.text);
}

static void read_all(struct slot slots[GPU_VENDORS], int root_fd, struct gpu_reading *ret)
{
	gpu_reading_init(ret);
	for (int i = 0; i < GPU_VENDORS; i++) {
		open_slot(&slots[i], root_fd, (enum gpu_vendor)i);
		read_slot(&slots[i], ret);
	}
	note_absence(slots, ret);
	ret->boot_ns = clock_boot_ns();
}

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

static void read_until_end(const struct gpus_options *o, int fd)
{
	static struct gpu_reading reading; /* of this process alone, and large */
	struct slot slots[GPU_VENDORS] = { 0 };
	double seconds = fmax(o->interval_seconds, MIN_INTERVAL_SECONDS);
	double pause = o->at_once ? 0 : seconds;

	prctl(PR_SET_NAME, "proctor-gpu");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (; wait_for_turn(fd, pause); pause = seconds) {
		read_all(slots, o->root_fd, &reading);
		if (!send_reading(fd, &reading))
			return;
	}
}

/* ---- the keeper ---- */

static void keep_reader(const struct gpus_options *o, int fd)
{
	struct pollfd wait = { .fd = fd };
	pid_t pid;

	prctl(PR_SET_NAME, "proctor-gpu");
	do {
		pid = fork();
		if (pid == 0) {
			read_until_end(o, fd);
			_exit(0);
		}
		while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	} while (poll(&wait, 1, RESTART_MS) == 0);
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
	for (int i = 3, max = (int)sysconf(_SC_OPEN_MAX); i < max && i < 65536; i++)
		if (i != *root_fd && i != *fd)
			close(i);
	if (*root_fd < 0 || *fd < 0 || chdir("/") < 0)
		_exit(1);
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
