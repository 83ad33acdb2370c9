#include "daemon/evidence_trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"

#define SUFFIX ".trace"
#define REST_FACTOR 10	  /* a tenth of the time is traced */
#define LET_GO_MS 4000	  /* strace is given 3 s of these */
#define ATTACH_SECONDS 15 /* after which a tracer that is still there is stuck */

/* ---- whom ---- */

/* A run inside of a run is a process like others, and still it is us. */
static bool is_proctor(pid_t pid)
{
	struct stat self, other;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat("/proc/self/exe", &self) == 0 && stat(path, &other) == 0 &&
	       self.st_dev == other.st_dev && self.st_ino == other.st_ino;
}

static int check(const struct evidence_trace *t, const struct evidence_trace_plan *plan,
		 const struct episode *e, struct err *err)
{
	pid_t pid = (pid_t)e->worst.pid;

	if (!(plan->seconds > 0) || !e->worst.has_pid || !u64_known(e->worst.start_ticks))
		return err_set(err, -EINVAL, "there is no process to trace");
	if (t->tracer > 0 || clock_boot_ns() < t->next_boot_ns)
		return err_set(err, -EAGAIN, "another process was traced just before");
	if (!proc_is_alive("", pid, e->worst.start_ticks))
		return err_set(err, -ESRCH, "process %d is gone", (int)pid);
	if (is_proctor(pid))
		return err_set(err, -EINVAL, "proctor does not trace itself");
	return 0;
}

/* ---- the folder ---- */

struct old_file {
	char name[256];
	struct timespec changed;
};

static bool is_trace(const char *name)
{
	size_t n = strlen(name);

	return n > strlen(SUFFIX) && n < 256 && strcmp(name + n - strlen(SUFFIX), SUFFIX) == 0;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* How many there are, and the oldest of them. */
static size_t find_oldest(DIR *folder, struct old_file *oldest)
{
	const struct dirent *entry;
	struct stat st;
	size_t n = 0;

	rewinddir(folder);
	while ((entry = readdir(folder))) {
		if (!is_trace(entry->d_name) ||
		    fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n++ == 0 || is_older(&st.st_mtim, &oldest->changed)) {
			snprintf(oldest->name, sizeof(oldest->name), "%s", entry->d_name);
			oldest->changed = st.st_mtim;
		}
	}
	return n;
}

/* Makes room for one more. What cannot be removed does not keep us from going on. */
static void drop_old(const char *dir)
{
	DIR *folder = opendir(dir);
	struct old_file oldest;

	if (!folder)
		return;
	while (find_oldest(folder, &oldest) >= EVIDENCE_TRACE_FILES)
		if (unlinkat(dirfd(folder), oldest.name, 0) < 0)
			break;
	closedir(folder);
}

/* "memory_leak-123.4567-1763000000000000000.trace": the episode's name. */
static int name_file(const char *state_dir, const struct episode *e, char *ret, size_t size,
		     struct err *err)
{
	char dir[PATH_BYTES];
	int r, n;

	n = snprintf(dir, sizeof(dir), "%s/traces", state_dir);
	if (n < 0 || (size_t)n >= sizeof(dir))
		return err_set(err, -ENAMETOOLONG, "the path of the folder for traces is too long");
	r = path_make_dir(dir, err);
	if (r < 0)
		return r;
	drop_old(dir);
	r = snprintf(ret, size, "%s/%s" SUFFIX, dir, e->name);
	if (r < 0 || (size_t)r >= size)
		return err_set(err, -ENAMETOOLONG, "the path of a trace would be too long");
	for (char *c = ret + n + 1; *c; c++)
		*c = *c == '/' ? '-' : *c;
	return 0;
}

/* ---- the tracer ---- */

/* In the child: nothing but what may be called between fork and exec. */
static void become_tracer(const char *const *argv, pid_t parent)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent || setpgid(0, 0) < 0)
		_exit(126);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (dup2(null_fd, fd) < 0)
			_exit(126);
	execv("/proc/self/exe", (char *const *)argv);
	_exit(127);
}

static int spawn(struct evidence_trace *t, double seconds, pid_t culprit, struct err *err)
{
	char duration[32], bytes[32], pid_text[16];
	const char *const argv[] = { "proctor",	    "trace", "--duration", duration,
				     "--max-bytes", bytes,   "--output",   t->evidence.trace,
				     pid_text,	    NULL };
	pid_t parent = getpid(), pid;

	snprintf(duration, sizeof(duration), "%.0fs", ceil(seconds));
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)EVIDENCE_TRACE_BYTES);
	snprintf(pid_text, sizeof(pid_text), "%d", (int)culprit);
	pid = fork();
	if (pid == 0)
		become_tracer(argv, parent);
	if (pid < 0)
		return err_set(err, -errno, "cannot start a tracer: %s", strerror(errno));
	t->tracer = pid;
	t->tracer_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

int evidence_trace_begin(struct evidence_trace *t, const struct evidence_trace_plan *plan,
			 const struct episode *e, const struct anomaly_evidence *evidence,
			 struct err *err)
{
	int r = check(t, plan, e, err);

	if (r < 0)
		return r;
	t->evidence = *evidence;
	snprintf(t->episode, sizeof(t->episode), "%s", e->name);
	r = name_file(plan->state_dir, e, t->evidence.trace, sizeof(t->evidence.trace), err);
	if (r == 0)
		r = spawn(t, plan->seconds, (pid_t)e->worst.pid, err);
	if (r < 0)
		return r;
	t->next_boot_ns = clock_boot_ns() + (uint64_t)(REST_FACTOR * ceil(plan->seconds) * 1e9);
	return 0;
}

/* ---- its end ---- */

/* One that could not be traced leaves an empty file: that is no evidence. */
static void judge_file(struct anomaly_evidence *e)
{
	struct stat st;

	if (stat(e->trace, &st) == 0 && st.st_size > 0)
		return;
	unlink(e->trace);
	e->trace[0] = '\0';
}

/* Somebody else may wait for all our children. */
static bool is_over(const struct evidence_trace *t, int timeout_ms)
{
	struct pollfd p = { .fd = t->tracer_fd, .events = POLLIN };

	if (t->tracer_fd >= 0)
		return poll(&p, 1, timeout_ms) > 0;
	return waitpid(t->tracer, NULL, WNOHANG) != 0;
}

static bool take_end(struct evidence_trace *t)
{
	waitpid(t->tracer, NULL, WNOHANG);
	close_fd(&t->tracer_fd);
	t->ended = t->tracer;
	t->tracer = 0;
	judge_file(&t->evidence);
	return true;
}

bool evidence_trace_has_ended(struct evidence_trace *t)
{
	if (t->tracer <= 0)
		return false;
	if (!is_over(t, 0)) {
		/* It bounds itself; this is for one that hangs. */
		if (clock_boot_ns() > t->next_boot_ns + ATTACH_SECONDS * UINT64_C(1000000000))
			kill(t->tracer, SIGKILL);
		return false;
	}
	return take_end(t);
}

bool evidence_trace_stop(struct evidence_trace *t)
{
	if (t->tracer <= 0)
		return false;
	kill(t->tracer, SIGTERM);
	if (!is_over(t, LET_GO_MS)) {
		kill(t->tracer, SIGKILL);
		is_over(t, LET_GO_MS);
	}
	return take_end(t);
}
