/*
 * smi - NVIDIA's own program, where its library cannot be used.
 *
 * A call takes some 50 ms of CPU time and may hang with the driver: it is given a
 * few seconds and asked rarely. It tells nothing of the share of each process, nor of
 * processes that only draw.
 */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu/gpu.h"

#define FIELD_BYTES SMI_UUID_BYTES

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Without the blanks around it. False: it is too long for a number. */
static bool copy_field(const char *s, size_t n, char ret[FIELD_BYTES])
{
	for (; n > 0 && is_blank(s[0]); n--)
		s++;
	while (n > 0 && is_blank(s[n - 1]))
		n--;
	if (n >= FIELD_BYTES)
		return false;
	memcpy(ret, s, n);
	ret[n] = '\0';
	return true;
}

static bool parse_number(const char *s, size_t n, double *ret)
{
	char field[FIELD_BYTES];

	*ret = F64_UNKNOWN;
	return copy_field(s, n, field) && num_parse_any_f64(field, ret) == 0;
}

/* "[N/A]", "[Not Supported]", "ERR!": how it says that a value is not to be had. */
static bool is_no_value(const char *s, size_t n)
{
	char field[FIELD_BYTES];
	size_t len;

	if (!copy_field(s, n, field))
		return false;
	len = strlen(field);
	return (len >= 2 && field[0] == '[' && field[len - 1] == ']') ||
	       strcmp(field, "N/A") == 0 || strcmp(field, "ERR!") == 0;
}

bool smi_parse_line(const char *line, size_t n, double ret[SMI_FIELDS])
{
	size_t at = 0, n_fields = 0;
	bool is_whole = true;

	while (at <= n) {
		const char *comma = memchr(line + at, ',', n - at);
		size_t len = comma ? (size_t)(comma - line) - at : n - at;

		if (n_fields < SMI_FIELDS && !parse_number(line + at, len, &ret[n_fields]))
			is_whole = false;
		n_fields++;
		at += len + 1;
	}
	if (n_fields == SMI_FIELDS)
		return is_whole;
	for (size_t i = 0; i < SMI_FIELDS; i++) /* nobody knows which field is which */
		ret[i] = F64_UNKNOWN;
	return false;
}

/* ---- lines that begin with a device ---- */

/* "GPU-" and letters and digits; of a part of a device "MIG-" and a path. */
static bool is_uuid(const char *s)
{
	const char *rest = s + 4;

	if (strncmp(s, "GPU-", 4) != 0 && strncmp(s, "MIG-", 4) != 0)
		return false;
	for (; *rest; rest++)
		if (!isalnum((unsigned char)*rest) && *rest != '-' && *rest != '/')
			return false;
	return rest > s + 4;
}

/* The field before the next comma, or the last; *at is behind it, NULL if there is none more. */
static bool take_field(const char **at, char ret[FIELD_BYTES])
{
	size_t n;
	bool fits;

	if (!*at)
		return false;
	n = strcspn(*at, ",");
	fits = copy_field(*at, n, ret);
	*at = (*at)[n] ? *at + n + 1 : NULL;
	return fits;
}

/* The number behind the values, if there is a field for it; *n is then the length before it. */
static uint64_t take_index(const char *line, size_t *n)
{
	const char *last = strrchr(line, ',');
	char field[FIELD_BYTES];
	size_t n_commas = 0;
	uint64_t index;

	for (const char *s = line; *s; s++)
		n_commas += *s == ',';
	*n = strlen(line);
	if (n_commas != SMI_FIELDS)
		return U64_UNKNOWN;
	*n = (size_t)(last - line);
	return copy_field(last + 1, strlen(last + 1), field) && num_parse_u64(field, &index) == 0
		       ? index
		       : U64_UNKNOWN;
}

bool smi_parse_device(const char *line, struct smi_device *ret)
{
	size_t n;

	if (!take_field(&line, ret->uuid) || !is_uuid(ret->uuid) || !line)
		return false;
	ret->index = take_index(line, &n);
	(void)smi_parse_line(line, n, ret->values);
	ret->is_listed = true;
	ret->is_lost = strstr(line, "[GPU is lost]") != NULL;
	return true;
}

/* A process whose device is not named is one all the same. */
bool smi_parse_process(const char *line, struct smi_process *ret)
{
	char pid[FIELD_BYTES], memory[FIELD_BYTES];
	uint64_t mib;

	if (!take_field(&line, ret->uuid) || !take_field(&line, pid) ||
	    !take_field(&line, memory) || line)
		return false;
	if (!is_uuid(ret->uuid) && !is_no_value(ret->uuid, strlen(ret->uuid)))
		return false;
	if (num_parse_u64(pid, &ret->pid) < 0)
		return false;
	ret->memory_bytes = U64_UNKNOWN;
	if (num_parse_u64(memory, &mib) < 0)
		return is_no_value(memory, strlen(memory));
	if (mib < UINT64_MAX >> 20)
		ret->memory_bytes = mib << 20;
	return true;
}

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

static int tell_end(int status, const char *text, struct err *err)
{
	struct smi_device device;
	char line[WORDS_BYTES];
	size_t n;

	if (WIFSIGNALED(status))
		return err_set(err, -EIO, SMI_PROGRAM " crashed (%s)", strsignal(WTERMSIG(status)));
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i].status == WEXITSTATUS(status))
			return ends[i].code == 0 ? 0
						 : err_set(err, ends[i].code, SMI_PROGRAM " %s",
							   ends[i].what);
	/* Its first line that is no row: it says what is wrong where it prints, not beside it. */
	for (; text && *text; text += n + (text[n] != '\0')) {
		n = strcspn(text, "\r\n");
		snprintf(line, sizeof(line), "%.*s", (int)n, text);
		if (n > 0 && !smi_parse_device(line, &device))
			return err_set(err, -EIO, SMI_PROGRAM " failed: %s (exit status %d)", line,
				       WEXITSTATUS(status));
	}
	return err_set(err, -EIO, SMI_PROGRAM " failed: its exit status is %d",
		       WEXITSTATUS(status));
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

/* Its pid, or -errno. */
static pid_t spawn(const char *query, int out_fd)
{
	pid_t parent = getpid(), pid = _Fork(); /* no handlers of libraries run in it */

	if (pid == 0) {
		const char *argv[] = { SMI_PROGRAM, query, FORMAT, NULL };
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		sigset_t none;

		/*
		 * With a group of its own, for it may be a script; and it ends with who asked,
		 * however that ends. What it has started falls to the keeper then (gpu_reader.c),
		 * which ends it; where that is gone too, who asked has ended the group.
		 */
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

/*
 * -ETIMEDOUT; one that cannot be watched is only asked whether it has ended. It is not waited for
 * yet, so that its number stays its own.
 */
static int wait_until(pid_t pid, uint64_t deadline_ns)
{
	CLEANUP(close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	uint64_t now;

	for (;;) {
		siginfo_t info = { 0 };

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
			return -errno;
		if (info.si_pid == pid)
			return 0;
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

/*
 * What it prints when it is asked that: lines of values between commas. It is given some
 * seconds; one that hangs is killed with all that it started, and no other is started beside
 * one that not even that ends. -ENODEV: it finds no GPU; -EACCES: none for this user; -ENXIO: one
 * has fallen off the bus, and what it printed of the others is right. Whoever calls has no other
 * children.
 */
static int smi_run(const char *query, struct buf *out, struct err *err)
{
	uint64_t deadline_ns = clock_boot_ns() + TIMEOUT_NS;
	int fds[2], r;
	pid_t pid;

	do
		pid = waitpid(-1, NULL, WNOHANG);
	while (pid > 0);
	if (pid == 0) /* one that was killed, and has not ended */
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

/* ---- what it says ---- */

#define EVERY_NS UINT64_C(10000000000)
#define ASK_DEVICES \
	"--query-gpu=uuid,utilization.gpu,memory.used,memory.total,temperature.gpu,index"
#define ASK_PROCESSES "--query-compute-apps=gpu_uuid,pid,used_memory"

struct smi {
	int root_fd;
	struct smi_device devices[GPU_MAX_DEVICES]; /* each keeps its place */
	int n_devices;
	bool has_more;	 /* than there is room for */
	bool is_opening; /* and had places before: those that had no name are of new ones */
	struct err lost; /* what it said the last time of one that has fallen off the bus */
	struct gpu_owners owners;
	struct gpu_reading last; /* while it is not asked */
	uint64_t asked_boot_ns;	 /* 0: never */
};

/* ---- devices ---- */

/* GPU_DEVICE_UNKNOWN: of none that is known. */
static int find_device(const struct smi *smi, const char *uuid)
{
	for (int i = 0; i < smi->n_devices; i++)
		if (strcmp(smi->devices[i].uuid, uuid) == 0)
			return i;
	return GPU_DEVICE_UNKNOWN;
}

/* One that is lost, and was so from the beginning: its number is free until it is back. */
static bool is_hole(const struct smi_device *device)
{
	return !device->uuid[0];
}

/* Where a new one stands: behind the others, but for those whose rows are missing. */
static int find_place(struct smi *smi, const struct smi_device *device, bool is_one_lost)
{
	uint64_t index = device->index;

	if (index < GPU_MAX_DEVICES && is_one_lost && !smi->is_opening)
		while ((uint64_t)smi->n_devices < index)
			smi->devices[smi->n_devices++] = (struct smi_device){ 0 };
	for (int i = 0; i < smi->n_devices; i++)
		if (is_hole(&smi->devices[i]) && (smi->is_opening || (uint64_t)i == index))
			return i;
	return smi->n_devices < GPU_MAX_DEVICES ? smi->n_devices++ : GPU_DEVICE_UNKNOWN;
}

/* How many it lists. */
static size_t take_devices(struct smi *smi, char *text, bool is_one_lost)
{
	struct smi_device device;
	char *rest = NULL;
	size_t n = 0;

	smi->has_more = false;
	for (int i = 0; i < smi->n_devices; i++)
		smi->devices[i].is_listed = false;
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		int place;

		if (!smi_parse_device(line, &device))
			continue;
		place = find_device(smi, device.uuid);
		if (place == GPU_DEVICE_UNKNOWN)
			place = find_place(smi, &device, is_one_lost);
		if (place != GPU_DEVICE_UNKNOWN)
			smi->devices[place] = device;
		else
			smi->has_more = true;
		n++;
	}
	return n;
}

/* -ENODEV: it lists none. */
static int ask_devices(struct smi *smi, struct err *err)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct err why = ERR_INIT;
	int r = smi_run(ASK_DEVICES, &text, &why);
	size_t n = r == 0 || r == -ENXIO ? take_devices(smi, text.data, r == -ENXIO) : 0;

	smi->lost = why;
	if (n > 0)
		return 0;
	return r < 0 ? err_set(err, r, "%s", why.text)
		     : err_set(err, -ENODEV, SMI_PROGRAM " lists no GPU");
}

static double known_or_not(double value)
{
	return isfinite(value) && value >= 0 ? value : F64_UNKNOWN;
}

static void add_device(const struct smi_device *device, struct gpu_reading *ret)
{
	struct gpu_sample *s = gpu_add_device(ret, "NVIDIA");
	const double *values = device->values;

	if (!s)
		return;
	if (device->is_lost || !device->is_listed) {
		s->is_lost = true;
		gpu_note(ret,
			 device->is_listed || is_hole(device)
				 ? SMI_PROGRAM " says that GPU %d is lost"
				 : SMI_PROGRAM " does not list GPU %d any more",
			 s->index);
		ret->n_left_out++; /* who holds it */
		return;
	}
	s->utilization_pct = gpu_sane_percent(ret, s->index, values[SMI_UTILIZATION]);
	s->memory_used_mb = known_or_not(values[SMI_MEMORY_USED]);
	s->memory_total_mb = known_or_not(values[SMI_MEMORY_TOTAL]);
	s->temperature_c =
		isfinite(values[SMI_TEMPERATURE]) ? values[SMI_TEMPERATURE] : F64_UNKNOWN;
}

/* ---- processes ---- */

/* What is known of the devices stands, whatever becomes of this. */
static void read_processes(struct smi *smi, struct gpu_reading *ret)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	struct err err = ERR_INIT;
	struct smi_process p;
	char *rest = NULL;

	if (smi_run(ASK_PROCESSES, &text, &err) < 0) {
		gpu_note(ret, "%s", err.text);
		ret->n_left_out++;
	}
	for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		struct gpu_process process = { .utilization_pct = F64_UNKNOWN };

		if (!smi_parse_process(line, &p))
			continue;
		process.device = find_device(smi, p.uuid);
		process.memory_bytes = p.memory_bytes;
		if (process.device != GPU_DEVICE_UNKNOWN &&
		    gpu_owners_find(&smi->owners, smi->root_fd, p.pid, &gpu_nvidia_files,
				    &process.key))
			gpu_add_process(ret, &process);
		else
			ret->n_left_out++;
	}
	gpu_add_holders(smi->root_fd, &gpu_nvidia_files, ret); /* who draws is not listed */
}

/* ---- the driver ---- */

static int smi_open(int root_fd, const struct gpu_places *places, void **ret, struct err *err)
{
	struct smi *smi;
	int r;

	if (!gpu_has_nvidia(root_fd))
		return err_set(err, -ENODEV, "NVIDIA's driver has found no GPU");
	smi = calloc(1, sizeof(*smi));
	if (!smi)
		return err_set(err, -ENOMEM, "no memory left to read GPUs");
	smi->root_fd = root_fd;
	for (; places && smi->n_devices < (int)places->n; smi->n_devices++)
		snprintf(smi->devices[smi->n_devices].uuid, SMI_UUID_BYTES, "%s",
			 places->ids[smi->n_devices]);
	smi->is_opening = smi->n_devices > 0;
	r = ask_devices(smi, err);
	smi->is_opening = false;
	if (r < 0)
		free(smi);
	else
		*ret = smi;
	return r;
}

static int ask_again(struct smi *smi, struct err *err)
{
	int r = ask_devices(smi, err);

	if (r < 0)
		return r;
	gpu_reading_init(&smi->last);
	for (int i = 0; i < smi->n_devices; i++)
		add_device(&smi->devices[i], &smi->last);
	if (smi->has_more)
		gpu_note_more_devices(&smi->last);
	if (smi->lost.code < 0) {
		gpu_note(&smi->last, "%s", smi->lost.text);
		smi->last.n_left_out++; /* who holds it */
	}
	read_processes(smi, &smi->last);
	return 0;
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
	gpu_note_asked(ret, smi->asked_boot_ns);
	gpu_note(ret, SMI_PROGRAM
		 " tells no share (utilisation) of a process, and lists none that only draws");
	return 0;
}

static void smi_measure(void *driver, gpu_cost_fn *fn, void *ctx)
{
	struct err err = ERR_INIT;
	uint64_t before = clock_boot_ns();
	int r = ask_again(driver, &err);

	fn(ctx, r < 0 ? err.text : "both calls of " SMI_PROGRAM,
	   r < 0 ? U64_UNKNOWN : clock_boot_ns() - before);
}

static const char *smi_id(const void *driver, size_t i)
{
	return ((const struct smi *)driver)->devices[i].uuid;
}

const struct gpu_driver gpu_smi = {
	.name = SMI_PROGRAM,
	.vendor = GPU_NVIDIA,
	.open = smi_open,
	.read = smi_read,
	.id = smi_id,
	.measure = smi_measure,
	.close = free,
};
