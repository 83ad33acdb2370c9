#include "jobs/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unknown.h"

/* What the child tells over the pipe, whose other end closes when exec succeeds. */
struct child_report {
	uint64_t pre_exec_rss_bytes;
	int failed_errno; /* 0: about to exec */
	bool failed_in_workdir;
};

void inherited_note(struct inherited *ret)
{
	struct sigaction sa;

	sigprocmask(SIG_SETMASK, NULL, &ret->mask);
	ret->ignores_sigchld = sigaction(SIGCHLD, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
	if (getrlimit(RLIMIT_NOFILE, &ret->nofile) < 0)
		ret->nofile = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
}

static void child_restore(const struct inherited *inherited)
{
	if (inherited->ignores_sigchld)
		signal(SIGCHLD, SIG_IGN);
	if (inherited->nofile.rlim_cur != RLIM_INFINITY)
		setrlimit(RLIMIT_NOFILE, &inherited->nofile);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

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
	if (request->rank != RANK_NONE) {
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

static void child_tell(int pipe_fd, const struct child_report *report)
{
	/* Smaller than PIPE_BUF: written whole or not at all. */
	if (write(pipe_fd, report, sizeof(*report)) != (ssize_t)sizeof(*report))
		_exit(126);
}

static void __attribute__((noreturn)) child_run(const struct spawn_request *request, int pipe_fd)
{
	const struct sheet_spec *sheet = request->sheet;
	struct child_report report = { 0 };

	child_set_environment(request);
	child_set_stdin(request->rank);
	if (sheet->workdir && chdir(sheet->workdir) < 0) {
		report.failed_errno = errno;
		report.failed_in_workdir = true;
		child_tell(pipe_fd, &report);
		_exit(126);
	}
	report.pre_exec_rss_bytes = own_peak_rss_bytes();
	child_tell(pipe_fd, &report);
	child_restore(request->inherited);
	execvp(sheet->argv[0], (char *const *)sheet->argv);
	report.failed_errno = errno;
	child_tell(pipe_fd, &report);
	_exit(126);
}

/* Reads reports until the pipe closes; the last one counts. */
static struct child_report read_reports(int pipe_fd)
{
	struct child_report report = { .pre_exec_rss_bytes = U64_UNKNOWN }, next;
	ssize_t n;

	for (;;) {
		n = read(pipe_fd, &next, sizeof(next));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof(next))
			return report;
		report = next;
	}
}

/* Whether some folder of PATH has a file of that name, whatever it is. */
static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");
	char candidate[PATH_MAX];

	while (path && *path) {
		size_t n = strcspn(path, ":");

		if (snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)n, path, name) <
			    (int)sizeof(candidate) &&
		    access(candidate, F_OK) == 0)
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

/*
 * 127: there is no such command. execvp() says EACCES also for a folder of PATH
 * that may not be searched; that alone is no command that could not be run.
 */
static int shell_exit_code(const struct sheet_spec *sheet, const struct child_report *report)
{
	bool is_searched = !strchr(sheet->argv[0], '/');

	if (report->failed_in_workdir)
		return 126;
	if (report->failed_errno == ENOENT)
		return 127;
	return report->failed_errno == EACCES && is_searched && !is_in_path(sheet->argv[0]) ? 127
											    : 126;
}

static int spawn_failed(const struct spawn_request *request, const struct child_report *report,
			struct err *err)
{
	const char *what =
		report->failed_in_workdir ? request->sheet->workdir : request->sheet->argv[0];

	return err_set(err, -report->failed_errno, "cannot %s %s: %s",
		       report->failed_in_workdir ? "change to the folder" : "run", what,
		       strerror(report->failed_errno));
}

int spawn_command(const struct spawn_request *request, struct spawned *ret, struct err *err)
{
	CLEANUP(close_fd) int read_end = -1;
	CLEANUP(close_fd) int write_end = -1;
	struct child_report report;
	int fds[2];
	pid_t pid;

	*ret = (struct spawned){ .pid = -1, .exit_code = 126 };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	read_end = fds[0];
	write_end = fds[1];

	/*
	 * fork, not vfork: a vfork child shares our memory, and its exec would
	 * carry our whole RSS into the command's ru_maxrss.
	 */
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "cannot start a process: %s", strerror(errno));
	if (pid == 0)
		child_run(request, write_end);

	close_fd(&write_end);
	report = read_reports(read_end);
	if (report.failed_errno != 0) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		ret->exit_code = shell_exit_code(request->sheet, &report);
		return spawn_failed(request, &report, err);
	}
	ret->pid = pid;
	ret->pre_exec_rss_bytes = report.pre_exec_rss_bytes;
	return 0;
}
