#include "jobs/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/macros.h"
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
	bool is_outside;
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

/* ---- the environment, which is made before the child is ---- */

/* Another thread may be inside of malloc() when we fork: the child must do without. */
struct environment {
	struct arena arena;
	char **entries; /* NULL-terminated, once all are there */
	size_t n;
	bool is_short; /* of memory */
};

static void env_release(struct environment *env)
{
	free(env->entries);
	arena_release(&env->arena);
}

static char **env_find(const struct environment *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->entries[i], name, len) == 0 && env->entries[i][len] == '=')
			return &env->entries[i];
	return NULL;
}

/* There is room for it. A name that setenv() would not take is passed over. */
static void env_set(struct environment *env, const char *name, const char *value)
{
	size_t bytes = strlen(name) + strlen(value) + 2;
	char **old = env_find(env, name);
	char *entry;

	if (!name[0] || strchr(name, '='))
		return;
	entry = arena_alloc(&env->arena, bytes);
	if (!entry) {
		env->is_short = true;
		return;
	}
	snprintf(entry, bytes, "%s=%s", name, value);
	*(old ? old : &env->entries[env->n++]) = entry;
}

static void env_set_number(struct environment *env, const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	env_set(env, name, text);
}

static void env_unset(struct environment *env, const char *name)
{
	char **old;

	while ((old = env_find(env, name)))
		*old = env->entries[--env->n];
}

/* What is added beside what the sheet has, and the end. */
#define ENV_MORE 7

static int env_make(struct environment *env, const struct spawn_request *request)
{
	const struct sheet_spec *sheet = request->sheet;
	size_t n = 0;

	while (environ && environ[n])
		n++;
	env->entries = calloc(n + sheet->n_env + ENV_MORE, sizeof(*env->entries));
	if (!env->entries)
		return -ENOMEM;
	for (; env->n < n; env->n++)
		env->entries[env->n] = environ[env->n];
	env_set(env, "PROCTOR_JOB_ID", request->job_id);
	env_set_number(env, "PROCTOR_SHEET", sheet->num);
	env_unset(env, "PROCTOR_RANK"); /* of a job that starts this one */
	if (request->rank != RANK_NONE) {
		env_set_number(env, "PROCTOR_RANK", request->rank);
		env_set_number(env, "RANK", request->rank);
		env_set_number(env, "LOCAL_RANK", request->rank);
		env_set_number(env, "WORLD_SIZE", sheet->ranks);
	}
	for (size_t i = 0; i < sheet->n_env; i++)
		env_set(env, sheet->env[i].name, sheet->env[i].value);
	env->entries[env->n] = NULL;
	return env->is_short ? -ENOMEM : 0;
}

/* ---- in the child ---- */

static uint64_t own_peak_rss_bytes(void)
{
	struct rusage ru;

	if (getrusage(RUSAGE_SELF, &ru) < 0)
		return U64_UNKNOWN;
	return (uint64_t)ru.ru_maxrss * 1024;
}

/*
 * The first file of that name in a folder of PATH that access() grants. False: there is none. An
 * empty folder is the current one.
 */
static bool find_in_path(const char *name, int how, char ret[PATH_MAX])
{
	const char *path = getenv("PATH");

	while (path) {
		size_t n = strcspn(path, ":");
		int len = snprintf(ret, PATH_MAX, "%.*s%s%s", (int)n, path, n > 0 ? "/" : "", name);

		if (len < PATH_MAX && access(ret, how) == 0)
			return true;
		path = path[n] ? path + n + 1 : NULL;
	}
	return false;
}

/*
 * 127: there is no such command. execvp() says EACCES also for a folder of PATH
 * that may not be searched; that alone is no command that could not be run.
 */
static bool is_not_found(const char *name, int failed_errno)
{
	char ignored[PATH_MAX];

	if (failed_errno == ENOENT)
		return true;
	return failed_errno == EACCES && !strchr(name, '/') && !find_in_path(name, F_OK, ignored);
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
	(void)poll(&opens, 1, 0); /* the memory that waiting takes is in its mark then */
	report->pre_exec_rss_bytes = own_peak_rss_bytes();
	__atomic_store_n(&report->is_held, 1, __ATOMIC_RELEASE);
	while (poll(&opens, 1, -1) < 0 && errno == EINTR)
		;
}

/*
 * By splice(), as the kernel counts a write() as I/O of the command. A task of v1 that moves only
 * itself does not wait for a grace period, unlike one that another process moves.
 */
static bool enter_cgroup(const struct spawn_cgroup *cgroup)
{
	static const char zeros[ARRAY_SIZE(cgroup->entry_fds)] = "0000";
	CLEANUP(close_fd) int read_end = -1;
	CLEANUP(close_fd) int write_end = -1;
	bool is_inside = true;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	read_end = fds[0];
	write_end = fds[1];
	if (vmsplice(write_end, &(struct iovec){ (void *)zeros, cgroup->n_entries }, 1, 0) < 0)
		return false;
	for (size_t i = 0; i < cgroup->n_entries; i++)
		is_inside &= splice(read_end, NULL, cgroup->entry_fds[i], NULL, 1, 0) == 1 ||
			     write(cgroup->entry_fds[i], "0", 1) == 1; /* before Linux 5.13 */
	return is_inside;
}

/* In its cgroup from the first moment, where the kernel can do that. */
static pid_t fork_into(const struct spawn_cgroup *cgroup, bool *ret_is_inside)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	long pid = -1;

	if (cgroup && cgroup->folder_fd >= 0) {
		args.cgroup = (unsigned)cgroup->folder_fd;
		pid = syscall(SYS_clone3, &args, sizeof(args));
	}
	*ret_is_inside = !cgroup || pid >= 0;
	/*
	 * Not vfork: such a child shares our memory, and its exec would carry our
	 * whole RSS into the command's ru_maxrss. Not fork: libuv's handler for it
	 * writes a byte in the child. So the child must not allocate: other threads of ours may be
	 * at it.
	 */
	return pid >= 0 ? (pid_t)pid : _Fork();
}

static void __attribute__((noreturn)) child_run(const struct spawn_request *request, char **env,
						struct child_report *report, struct gate *gate)
{
	const struct sheet_spec *sheet = request->sheet;
	char *const *argv = (char *const *)sheet->argv;
	char file[PATH_MAX];
	int fd;

	environ = env; /* also to find the command: it may have a PATH of its own */
	/* Only one of several ranks can read the input; it is the first, as with mpirun. */
	if (request->rank > 0 && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
		dup2(fd, STDIN_FILENO);
		close(fd);
	}
	if (sheet->workdir && chdir(sheet->workdir) < 0)
		child_fail(report, STEP_WORKDIR, sheet->workdir);
	if (strchr(sheet->argv[0], '/') || !find_in_path(sheet->argv[0], X_OK, file))
		file[0] = '\0';
	inherited_restore(request->inherited);
	report->pre_exec_rss_bytes = own_peak_rss_bytes();
	child_wait(request, report, gate);
	/*
	 * Where it is was found before: looking for it would count as calls of the command. If that
	 * is not it after all (a script without an interpreter, a folder), the whole search is
	 * made.
	 */
	if (file[0])
		execve(file, argv, environ);
	execvp(argv[0], argv);
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

static void close_gate(struct gate *gate)
{
	close_fd(&gate->read_end);
	close_fd(&gate->write_end);
}

static int spawn_with_report(const struct spawn_request *request, struct child_report *report,
			     struct spawned *ret, struct err *err)
{
	CLEANUP(close_fd) int read_end = -1;
	CLEANUP(close_fd) int write_end = -1;
	CLEANUP(close_gate) struct gate gate = { -1, -1 };
	CLEANUP(env_release) struct environment env = { .arena = ARENA_INIT };
	int fds[2];
	bool is_workdir, is_inside;
	pid_t pid;

	if (env_make(&env, request) < 0)
		return err_set(err, -ENOMEM, "no memory left to start a process");
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	read_end = fds[0];
	write_end = fds[1];
	if (request->held) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
		gate = (struct gate){ fds[0], fds[1] };
	}

	pid = fork_into(request->cgroup, &is_inside);
	if (pid < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	if (pid == 0) {
		if (!is_inside)
			report->is_outside = !enter_cgroup(request->cgroup);
		child_run(request, env.entries, report, &gate);
	}

	close_fd(&write_end);
	if (request->held && wait_until_held(report, read_end, pid))
		request->held(request->ctx, pid);
	close_gate(&gate);
	wait_for_exec(read_end, pid);
	ret->pid = pid;
	ret->pre_exec_rss_bytes = report->pre_exec_rss_bytes;
	ret->is_outside = report->is_outside;
	if (report->failed_step == STEP_NONE)
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	ret->exit_code = report->exit_code;
	is_workdir = report->failed_step == STEP_WORKDIR;
	return err_set(err, -report->failed_errno, "cannot %s %s: %s",
		       is_workdir ? "change to the folder" : "run",
		       is_workdir ? request->sheet->workdir : request->sheet->argv[0],
		       strerror(report->failed_errno));
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
