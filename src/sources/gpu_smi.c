/*
 * gpu_smi - NVIDIA's own program, where its library cannot be used.
 *
 * A call takes some 50 ms of CPU time and may hang with the driver: it is given a
 * few seconds and asked rarely. It tells nothing of the share of each process, nor of
 * processes that only draw.
 */
#include "sources/gpu_smi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu.h"

#define TIMEOUT_NS UINT64_C(5000000000)
#define KILLED_NS UINT64_C(100000000) /* to end after it was killed; it may hang in the kernel */
#define POLL_MS 50
#define EXIT_INFOROM_CORRUPT 14 /* a warning: what it printed is right */
#define EVERY_NS UINT64_C(10000000000)
#define OUTPUT_MAX_BYTES (256u << 10)

#define PROGRAM "nvidia-smi"
#define FORMAT "--format=csv,noheader,nounits"

extern char **environ;

#define UUID_BYTES 64

struct smi {
	int root_fd;
	char uuids[GPU_MAX_DEVICES][UUID_BYTES]; /* in the order of the devices */
	int n_uuids;
	struct gpu_reading last; /* while it is not asked */
	uint64_t asked_boot_ns;	 /* 0: never */
};

/* ---- running it ---- */

static int spawn(const char *query, int out_fd, pid_t *ret)
{
	const char *argv[] = { PROGRAM, query, FORMAT, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	r = posix_spawnp(ret, PROGRAM, &actions, &attr, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
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

/* -ETIMEDOUT; one that cannot be watched is only asked whether it has ended. */
static int wait_until(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
	CLEANUP(close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	uint64_t now;

	for (;;) {
		pid_t ended = waitpid(pid, ret_status, WNOHANG);

		if (ended != 0)
			return ended < 0 ? -errno : 0;
		now = clock_boot_ns();
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		poll(&wait, 1, fd < 0 ? POLL_MS : (int)((deadline_ns - now) / 1000000) + 1);
	}
}

static bool ended_well(int status)
{
	return WIFEXITED(status) &&
	       (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == EXIT_INFOROM_CORRUPT);
}

/* 0 only if it ended well by itself; one that hangs is killed, and not waited for. */
static int end(pid_t pid, uint64_t deadline_ns, int r)
{
	int status = 0;

	if (r == 0)
		r = wait_until(pid, deadline_ns, &status);
	if (r == 0)
		return ended_well(status) ? 0 : -EIO;
	kill(pid, SIGKILL);
	wait_until(pid, clock_boot_ns() + KILLED_NS, &status);
	return r;
}

static int ask(const char *query, struct buf *out, struct err *err)
{
	uint64_t deadline_ns = clock_boot_ns() + TIMEOUT_NS;
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot run " PROGRAM ": %s", strerror(errno));
	r = spawn(query, fds[1], &pid);
	close(fds[1]);
	if (r == 0)
		r = end(pid, deadline_ns, read_output(fds[0], deadline_ns, out));
	close(fds[0]);
	if (r == -ENOENT)
		return err_set(err, r, PROGRAM " is not installed");
	if (r < 0)
		return err_set(err, r, PROGRAM " failed: %s",
			       r == -EIO ? "its exit status says so" : strerror(-r));
	return 0;
}

/* ---- devices ---- */

static double known_or_not(double value)
{
	return isfinite(value) && value >= 0 ? value : F64_UNKNOWN;
}

static void add_device(const struct smi_line *line, struct gpu_reading *ret)
{
	struct gpu_sample *s = gpu_add_device(ret, "NVIDIA");

	if (!s)
		return;
	s->utilization_pct = gpu_sane_percent(ret, s->index, line->values[SMI_UTILIZATION]);
	s->memory_used_mb = known_or_not(line->values[SMI_MEMORY_USED]);
	s->memory_total_mb = known_or_not(line->values[SMI_MEMORY_TOTAL]);
	s->temperature_c = isfinite(line->values[SMI_TEMPERATURE]) ? line->values[SMI_TEMPERATURE]
								   : F64_UNKNOWN;
}

static int read_devices(struct gpu_reading *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct smi_line lines[GPU_MAX_DEVICES];
	size_t n;
	int r = ask("--query-gpu=utilization.gpu,memory.used,memory.total,temperature.gpu", &text,
		    err);

	if (r < 0)
		return r;
	n = smi_parse(text.data, lines, ARRAY_SIZE(lines));
	for (size_t i = 0; i < n; i++)
		add_device(&lines[i], ret);
	return n > 0 ? 0 : err_set(err, -ENODEV, PROGRAM " lists no GPU");
}

/* ---- processes ---- */

/* -1: of none that is known. */
static int find_device(const struct smi *smi, const char *uuid, size_t n)
{
	for (int i = 0; i < smi->n_uuids; i++)
		if (strlen(smi->uuids[i]) == n && memcmp(smi->uuids[i], uuid, n) == 0)
			return i;
	return -1;
}

/* "UUID, PID, MIB" */
static void add_process(const struct smi *smi, const char *line, struct gpu_reading *ret)
{
	struct gpu_process process = { .utilization_pct = F64_UNKNOWN };
	size_t n = strcspn(line, ",");
	uint64_t pid, mib;

	process.device = find_device(smi, line, n);
	line += n;
	line += strspn(line, ", ");
	if (process.device < 0 || num_scan_u64(&line, &pid) < 0) {
		ret->n_left_out++;
		return;
	}
	line += strspn(line, ", ");
	process.memory_bytes =
		num_scan_u64(&line, &mib) == 0 && mib < UINT64_MAX >> 20 ? mib << 20 : U64_UNKNOWN;
	if (gpu_find_owner(smi->root_fd, pid, &gpu_nvidia_files, &process.key))
		gpu_add_process(ret, &process);
	else
		ret->n_left_out++;
}

static int read_processes(const struct smi *smi, struct gpu_reading *ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	char *rest = NULL;
	int r;

	r = ask("--query-compute-apps=gpu_uuid,pid,used_memory", &text, err);
	if (r < 0)
		return r;
	for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		add_process(smi, line, ret);
	gpu_add_holders(smi->root_fd, &gpu_nvidia_files, ret); /* who draws is not listed */
	return 0;
}

/* ---- the driver ---- */

static void keep_uuids(struct smi *smi, char *text)
{
	char *rest = NULL;

	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL;
	     line && smi->n_uuids < GPU_MAX_DEVICES; line = strtok_r(NULL, "\n", &rest))
		snprintf(smi->uuids[smi->n_uuids++], UUID_BYTES, "%s", line);
}

static int smi_open(int root_fd, void **ret, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct smi *smi;
	int r;

	if (!gpu_has_nvidia(root_fd))
		return err_set(err, -ENODEV, "NVIDIA's driver has found no GPU");
	r = ask("--query-gpu=uuid", &text, err);
	if (r < 0)
		return r;
	smi = calloc(1, sizeof(*smi));
	if (!smi)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	smi->root_fd = root_fd;
	keep_uuids(smi, text.data);
	*ret = smi;
	return 0;
}

static int ask_again(struct smi *smi, struct err *err)
{
	int r;

	gpu_reading_init(&smi->last);
	r = read_devices(&smi->last, err);
	return r < 0 ? r : read_processes(smi, &smi->last, err);
}

static int smi_read(void *driver, struct gpu_reading *ret, struct err *err)
{
	struct smi *smi = driver;
	uint64_t now = clock_boot_ns();
	int r;

	if (smi->asked_boot_ns == 0 || now - smi->asked_boot_ns >= EVERY_NS) {
		smi->asked_boot_ns = now;
		r = ask_again(smi, err);
		if (r < 0)
			return r;
	}
	memcpy(ret, &smi->last, gpu_reading_bytes(&smi->last));
	gpu_note(ret, PROGRAM " lists processes that compute, not those that draw");
	return 0;
}

static void smi_measure(void *driver, gpu_cost_fn *fn, void *ctx)
{
	struct smi *smi = driver;
	uint64_t before = clock_boot_ns();

	ask_again(smi, NULL);
	fn(ctx, "both calls of " PROGRAM, clock_boot_ns() - before);
}

static void smi_close(void *driver)
{
	free(driver);
}

const struct gpu_driver gpu_smi = {
	.name = PROGRAM,
	.vendor = GPU_NVIDIA,
	.open = smi_open,
	.read = smi_read,
	.measure = smi_measure,
	.close = smi_close,
};
