#include "jobs/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unknown.h"

#define LOOK_AGAIN_MS 100
#define LOOK_FOR_HELD_MS 1

enum spawn_step { STEP_NONE, STEP_WORKDIR, STEP_EXEC };

/*
 * What the child tells, in memory that both see: a write() of it would be
 * counted as the command's own I/O.
 */
struct child_report {
	uint64_t pre_exec_rss_bytes;
	enum spawn_step failed_step;
	int failed_errno;
	int exit_code; /* as a shell has it */
	int is_held;   /* it waits for its gate to open */
};

/* Both ends of a pipe; -1: closed, or none. */
struct gate {
	int read_end, write_end;
};

void inherited_note(struct inherited *ret)
{
	struct sigaction sa;

	sigprocmask(SIG_SETMASK, NULL, &ret->mask);
	sigemptyset(&ret->ignored);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			sigaddset(&ret->ignored, sig);
	if (getrlimit(RLIMIT_NOFILE, &ret->nofile) < 0)
		ret->nofile = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
}

/* What proctor ignores or defaults for itself goes back to what it was. */
static void restore_signal(const struct inherited *inherited, int sig)
{
	signal(sig, sigismember(&inherited->ignored, sig) ? SIG_IGN : SIG_DFL);
}

void inherited_restore(const struct inherited *inherited)
{
	restore_signal(inherited, SIGCHLD);
	restore_signal(inherited, SIGPIPE);
	restore_signal(inherited, SIGXFSZ);
	if (inherited->nofile.rlim_cur != RLIM_INFINITY)
		setrlimit(RLIMIT_NOFILE, &inherited->nofile);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

/* ---- in the child ---- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void child_set_environment(const struct spawn_request *request)
{
	const struct sheet_spec *sheet = request->sheet;

	setenv("PROCTOR_JOB_ID", request->job_id, 1);
	set_number("PROCTOR_SHEET", sheet->num);
	unsetenv("PROCTOR_RANK"); /* of a job that starts this one */
	if (request->rank != RANK_NONE) {
		set_number("PROCTOR_RANK", request->rank);
		set_number("RANK", request->rank);
		set_number("LOCAL_RANK", request->rank);
		set_number("WORLD_SIZE", sheet->ranks);
	}
	for (size_t i = 0; i < sheet->n_env; i++)
		setenv(sheet->env[i].name, sheet->env[i].value, 1);
}

/* Only one of several ranks can read the input; it is the first, as with mpirun. */
static void child_set_stdin(int rank)
{
	int fd;

	if (rank <= 0)
		return;
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		dup2(fd, STDIN_FILENO);
		close(fd);
	}
}

static uint64_t own_peak_rss_bytes(void)
{
	struct rusage ru;

	if (getrusage(RUSAGE_SELF, &ru) < 0)
		return U64_UNKNOWN;
	return (uint64_t)ru.ru_maxrss * 1024;
}

/* Whether some folder of PATH has a file of that name, whatever it is. */
static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");
	char candidate[PATH_MAX];

	for (; path && *path; path += strspn(path, ":")) {
		size_t n = strcspn(path, ":");

		if (snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)n, path, name) <
			    (int)sizeof(candidate) &&
		    access(candidate, F_OK) == 0)
			return true;
		path += n;
	}
	return false;
}

/*
 * 127: there is no such command. execvp() says EACCES also for a folder of PATH
 * that may not be searched; that alone is no command that could not be run.
 */
static bool is_not_found(const char *name, int failed_errno)
{
	if (failed_errno == ENOENT)
		return true;
	return failed_errno == EACCES && !strchr(name, '/') && !is_in_path(name);
}

static void __attribute__((noreturn))
child_fail(struct child_report *report, enum spawn_step step, const char *name)
{
	report->failed_errno = errno;
	report->exit_code = step == STEP_EXEC && is_not_found(name, errno) ? 127 : 126;
	if (report->exit_code == 127)
		report->failed_errno = ENOENT;
	report->failed_step = step;
	_exit(report->exit_code);
}

/* The gate opens when nobody has its other end any more, be it that the runner is gone. */
static void child_wait(const struct spawn_request *request, struct child_report *report,
		       struct gate *gate)
{
	struct pollfd opens = { .fd = gate->read_end, .events = POLLIN };

	if (gate->read_end < 0)
		return;
	close_fd(&gate->write_end);
	if (request->is_traceable)
		prctl(PR_SET_PTRACER, getppid());
	__atomic_store_n(&report->is_held, 1, __ATOMIC_RELEASE);
	while (poll(&opens, 1, -1) < 0 && errno == EINTR)
		;
}

static void __attribute__((noreturn))
child_run(const struct spawn_request *request, struct child_report *report, struct gate *gate)
{
	const struct sheet_spec *sheet = request->sheet;

	child_set_environment(request);
	child_set_stdin(request->rank);
	if (sheet->workdir && chdir(sheet->workdir) < 0)
		child_fail(report, STEP_WORKDIR, sheet->workdir);
	inherited_restore(request->inherited);
	child_wait(request, report, gate);
	report->pre_exec_rss_bytes = own_peak_rss_bytes(); /* waiting has added to it */
	execvp(sheet->argv[0], (char *const *)sheet->argv);
	child_fail(report, STEP_EXEC, sheet->argv[0]);
}

/* ---- in the runner ---- */

static bool is_stopped(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid;
}

/*
 * The pipe closes when the child execs or ends. A child that is stopped before
 * (Ctrl-Z at that very moment) counts as started: waiting here would make us deaf.
 */
static void wait_for_exec(int pipe_fd, pid_t pid)
{
	struct pollfd poll_fd = { .fd = pipe_fd, .events = POLLIN };

	while (poll(&poll_fd, 1, LOOK_AGAIN_MS) <= 0)
		if (is_stopped(pid))
			return;
}

/* False: it has ended instead. One that is stopped on its way has run nothing of the command. */
static bool wait_until_held(const struct child_report *report, int pipe_fd, pid_t pid)
{
	struct pollfd poll_fd = { .fd = pipe_fd, .events = POLLIN };

	while (!__atomic_load_n(&report->is_held, __ATOMIC_ACQUIRE) && !is_stopped(pid))
		if (poll(&poll_fd, 1, LOOK_FOR_HELD_MS) > 0)
			return false;
	return true;
}

static int open_gate(const struct spawn_request *request, struct gate *ret)
{
	int fds[2];

	if (!request->held)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret = (struct gate){ fds[0], fds[1] };
	return 0;
}

static void close_gate(struct gate *gate)
{
	close_fd(&gate->read_end);
	close_fd(&gate->write_end);
}

static int spawn_failed(const struct spawn_request *request, const struct child_report *report,
			struct err *err)
{
	bool is_workdir = report->failed_step == STEP_WORKDIR;

	return err_set(err, -report->failed_errno, "cannot %s %s: %s",
		       is_workdir ? "change to the folder" : "run",
		       is_workdir ? request->sheet->workdir : request->sheet->argv[0],
		       strerror(report->failed_errno));
}

static int spawn_with_report(const struct spawn_request *request, struct child_report *report,
			     struct spawned *ret, struct err *err)
{
	CLEANUP(close_fd) int read_end = -1;
	CLEANUP(close_fd) int write_end = -1;
	CLEANUP(close_gate) struct gate gate = { -1, -1 };
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	read_end = fds[0];
	write_end = fds[1];
	if (open_gate(request, &gate) < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));

	/*
	 * Not vfork: such a child shares our memory, and its exec would carry our
	 * whole RSS into the command's ru_maxrss. Not fork: libuv's handler for it
	 * writes a byte in the child.
	 */
	pid = _Fork();
	if (pid < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	if (pid == 0)
		child_run(request, report, &gate);

	close_fd(&write_end);
	if (request->held && wait_until_held(report, read_end, pid))
		request->held(request->ctx, pid);
	close_gate(&gate);
	wait_for_exec(read_end, pid);
	ret->pid = pid;
	ret->pre_exec_rss_bytes = report->pre_exec_rss_bytes;
	if (report->failed_step == STEP_NONE)
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	ret->exit_code = report->exit_code;
	return spawn_failed(request, report, err);
}

int spawn_command(const struct spawn_request *request, struct spawned *ret, struct err *err)
{
	struct child_report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	*ret = (struct spawned){ .pid = -1, .exit_code = 126 };
	if (report == MAP_FAILED)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	report->pre_exec_rss_bytes = U64_UNKNOWN;
	r = spawn_with_report(request, report, ret, err);
	munmap(report, sizeof(*report));
	return r;
}
