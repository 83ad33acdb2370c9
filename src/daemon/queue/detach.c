#include "daemon/queue/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alive.h"
#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/unknown.h"
#include "daemon/daemon.h"
#include "daemon/queue/user.h"

/* Most begin sooner, and then who has submitted it hears at once what is wrong. */
#define PATIENCE_MS 10

/* What the child says when it cannot become the runner. */
struct failure {
	int error;
	bool may_pass; /* besides what may by its nature */
	char step[96];
	bool is_all; /* the step says why */
};

/* What a service manager tells the daemon alone. */
static const char *const not_for_jobs[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
					    "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES" };

/* ---- in the child ---- */

__attribute__((noreturn)) static void give_up(int fd, const struct failure *failure)
{
	io_write_all(fd, failure, sizeof(*failure));
	_exit(127);
}

static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL); /* of a daemon that was started by nohup, too */
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* stdin, stdout and stderr; all others end with exec, whoever opened them. */
static int set_files(const struct detached *d)
{
	CLEANUP(close_fd) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out_fd = d->log_fd >= 0 ? d->log_fd : null_fd;

	if (out_fd < 0 || dup2(d->spool_fd, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 ||
	    dup2(out_fd, STDERR_FILENO) < 0)
		return -errno;
	return close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

/* The daemon may be spared when memory runs out; a job is not. What is to go first stays so. */
static void drop_oom_protection(void)
{
	CLEANUP(close_fd) int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16];

	if (fd >= 0 && io_pread_text(fd, text, sizeof(text)) > 0 && text[0] == '-')
		io_write_all(fd, "0", 1);
}

/* A launcher is ours, and makes a user's process itself: only our folders are not for that. */
static void become_user(const struct user *user, int fail_fd)
{
	int r;

	if (launch_is_set()) {
		unsetenv("PROCTOR_HOME");
		return;
	}
	umask(022);
	r = user_set_environment(user);
	if (r == 0)
		r = user_become(user);
	if (r < 0)
		give_up(fail_fd,
			&(struct failure){ .error = -r, .step = "cannot become the user" });
}

/* Whoever asks a directory of users may wait for long: here nobody does. */
static void find_user(uid_t uid, struct user *ret, int fail_fd)
{
	struct failure failure = { .is_all = true };
	struct err err = ERR_INIT;
	int r = user_find(uid, ret, &err);

	if (r == 0)
		return;
	failure.error = -r;
	snprintf(failure.step, sizeof(failure.step), "%.90s", err.text);
	give_up(fail_fd, &failure);
}

/* Where we are on the disk, or what has been put there since: an upgrade. */
static int find_program(char program[PATH_BYTES])
{
	static const char gone[] = " (deleted)";
	ssize_t n = readlink("/proc/self/exe", program, PATH_BYTES - 1);

	if (n < 0)
		return -errno;
	program[n] = '\0';
	if ((size_t)n > strlen(gone) && strcmp(program + n - strlen(gone), gone) == 0)
		program[(size_t)n - strlen(gone)] = '\0';
	return 0;
}

/* By the runner-to-be, which lives on when the daemon is killed. */
static void mark_started(const struct detached *d, int fail_fd)
{
	if (rename(d->path, d->started_path) < 0)
		give_up(fail_fd, &(struct failure){ .error = errno,
						    .may_pass = true,
						    .step = "cannot mark it as started" });
}

static void become_runner(const struct detached *d, int fail_fd)
{
	struct launch_user as = { .uid = d->uid, .workdir = d->workdir };
	bool is_other = d->uid != geteuid();
	struct user user = { 0 };
	char program[PATH_BYTES] = "";
	const char *const argv[] = {
		program, "run", "-q", "--job", d->job_id, "-f", d->name, NULL
	};
	int r;

	if (d->queue_fd >= 0)
		close(d->queue_fd); /* or a daemon that is killed now cannot be started again */
	r = set_files(d);
	if (r < 0)
		give_up(fail_fd,
			&(struct failure){ .error = -r, .step = "cannot hand over its files" });
	reset_signals();
	file_limit_set(d->files);
	r = find_program(program);
	if (r < 0)
		give_up(fail_fd, &(struct failure){ .error = -r, .step = "cannot find proctor" });
	for (size_t i = 0; i < ARRAY_SIZE(not_for_jobs); i++)
		unsetenv(not_for_jobs[i]);
	if (!launch_is_set())
		drop_oom_protection();
	if (is_other)
		find_user(d->uid, &user, fail_fd);
	mark_started(d, fail_fd);
	if (is_other) {
		as.gid = user.gid;
		become_user(&user, fail_fd);
	}
	setenv(QUEUED_VARIABLE, d->log_fd >= 0 ? "1" : QUEUED_WITHOUT_LOG, 1);
	if (!is_other && d->db_path && d->db_path[0] == '/')
		setenv(QUEUED_DB_VARIABLE, d->db_path, 1);
	/* A launcher goes there as the user: as root we could go where they may not. */
	if (!(is_other && launch_is_set()) && chdir(d->workdir) < 0)
		give_up(fail_fd,
			&(struct failure){ .error = errno, .step = "cannot go to its folder" });
	r = launch_become(argv, is_other ? &as : NULL);
	/* In the middle of an upgrade there is none for a moment. */
	give_up(fail_fd, &(struct failure){ .error = -r,
					    .may_pass = r == -ENOENT || r == -ETXTBSY,
					    .step = "cannot execute its runner" });
}

/* ---- in the daemon ---- */

static int tell_failure(const struct failure *failure, struct err *err)
{
	int r = failure->may_pass ? -EAGAIN : -failure->error;

	if (failure->is_all)
		return err_set(err, r, "%.*s", (int)sizeof(failure->step), failure->step);
	return err_set(err, r, "%.*s: %s", (int)sizeof(failure->step), failure->step,
		       strerror(failure->error));
}

/* The end of the file means that all is well: exec has closed it. */
static int check_within(int *fd, int patience_ms, struct err *err)
{
	struct pollfd p = { .fd = *fd, .events = POLLIN };
	struct failure failure;
	ssize_t n;

	if (poll(&p, 1, patience_ms) <= 0)
		return 1;
	do
		n = read(*fd, &failure, sizeof(failure));
	while (n < 0 && errno == EINTR);
	close_fd(fd);
	*fd = -1;
	return n == (ssize_t)sizeof(failure) ? tell_failure(&failure, err) : 0;
}

int detach_check(int *fd, struct err *err)
{
	return check_within(fd, 0, err);
}

/* In the child between us: tells the pid of the runner, and what it was at that moment. */
__attribute__((noreturn)) static void part_from_runner(pid_t pid, int key_fd)
{
	struct proc_key key = { .pid = pid };

	if (pid < 0)
		_exit(1);
	/* It is our child, whose pid nobody else can get before we have ended. */
	if (proc_start_ticks(pid, &key.start_ticks) < 0)
		key.start_ticks = U64_UNKNOWN;
	_exit(io_write_all(key_fd, &key, sizeof(key)) < 0);
}

/* Twice, so that it is nobody's child. */
static int fork_runner(const struct detached *d, int fail_fd, int key_fd)
{
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become_runner(d, fail_fd);
		part_from_runner(pid, key_fd);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : -EAGAIN;
}

/* The same, with a pipe on which its key comes: what is in it by now is all of it. */
static int fork_known(const struct detached *d, int fail_fd, struct proc_key *ret_key)
{
	int fds[2], r;

	*ret_key = (struct proc_key){ .start_ticks = U64_UNKNOWN };
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	r = fork_runner(d, fail_fd, fds[1]);
	if (r == 0 && read(fds[0], ret_key, sizeof(*ret_key)) != (ssize_t)sizeof(*ret_key))
		*ret_key = (struct proc_key){ .start_ticks = U64_UNKNOWN };
	close(fds[0]);
	close(fds[1]);
	return r;
}

int detach_runner(const struct detached *d, struct proc_key *ret_key, int *ret_fd, struct err *err)
{
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -EAGAIN, "cannot start a runner: %s", strerror(errno));
	r = fork_known(d, fds[1], ret_key);
	close(fds[1]);
	if (r < 0) {
		close(fds[0]);
		return err_set(err, -EAGAIN, "cannot start a runner: %s", strerror(-r));
	}
	*ret_fd = fds[0];
	r = check_within(ret_fd, PATIENCE_MS, err);
	return r < 0 ? r : 0;
}

#define LAUNCHER_VARIABLE "PROCTOR_LAUNCHER"
#define MAX_WORDS 32

/* Parted at blanks; no quoting, as in no word there is one. Returns how many; -E2BIG. */
static int split_words(char *text, const char *words[MAX_WORDS])
{
	char *rest = NULL;
	int n = 0;

	for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (n == MAX_WORDS)
			return -E2BIG;
		words[n++] = word;
	}
	return n;
}

static size_t count(const char *const *argv)
{
	size_t n = 0;

	while (argv[n])
		n++;
	return n;
}

/* Where options of ours go: before the "--" that ends the launcher's own. */
static size_t end_of_options(const char *const *words, size_t n)
{
	return n > 0 && strcmp(words[n - 1], "--") == 0 ? n - 1 : n;
}

/* Puts what says who it is to be among the n words. Returns how many there are then. */
static int add_user(const struct launch_user *user, const char *words[MAX_WORDS], int n)
{
	size_t at = end_of_options(words, (size_t)n);
	char *options[3] = { NULL };

	if (n + (int)ARRAY_SIZE(options) > MAX_WORDS)
		return -E2BIG;
	if (asprintf(&options[0], "--uid=%u", (unsigned)user->uid) < 0 ||
	    asprintf(&options[1], "--gid=%u", (unsigned)user->gid) < 0 ||
	    asprintf(&options[2], "--working-directory=%s", user->workdir) < 0)
		return -ENOMEM;
	memmove(words + at + ARRAY_SIZE(options), words + at, ((size_t)n - at) * sizeof(*words));
	memcpy(words + at, options, sizeof(options));
	return n + (int)ARRAY_SIZE(options);
}

/* Services that systemd-run(1) makes have variables put in for "$" in their words: "$$" is one. */
static bool expands_variables(const char *launcher)
{
	const char *slash = strrchr(launcher, '/');

	return strcmp(slash ? slash + 1 : launcher, "systemd-run") == 0;
}

static char *double_dollars(const char *word)
{
	char *doubled = malloc(2 * strlen(word) + 1), *to = doubled;

	for (; doubled && *word; word++) {
		if (*word == '$')
			*to++ = '$';
		*to++ = *word;
	}
	if (doubled)
		*to = '\0';
	return doubled;
}

/* As the launcher has to be told it. -ENOMEM. */
static int add_words(const char **to, const char *const *argv, bool is_expanded)
{
	for (; *argv; argv++, to++) {
		*to = is_expanded ? double_dollars(*argv) : *argv;
		if (!*to)
			return -ENOMEM;
	}
	*to = NULL;
	return 0;
}

/* What is left over when it fails goes with the child. */
static int become_launched(const char *launcher, const char *const *argv,
			   const struct launch_user *user)
{
	const char *words[MAX_WORDS], **all;
	char *text = strdup(launcher);
	size_t n_argv = count(argv);
	int n = text ? split_words(text, words) : -ENOMEM;

	if (n >= 0 && user)
		n = add_user(user, words, n);
	if (n < 0)
		return n;
	all = reallocarray(NULL, (size_t)n + n_argv + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, words, (size_t)n * sizeof(*all));
	if (add_words(all + n, argv, n > 0 && expands_variables(words[0])) < 0)
		return -ENOMEM;
	unsetenv(LAUNCHER_VARIABLE);
	execvp(all[0], (char *const *)all);
	return -errno;
}

static const char *find_launcher(void)
{
	const char *launcher = getenv(LAUNCHER_VARIABLE);

	return launcher && launcher[strspn(launcher, " \t")] ? launcher : NULL;
}

bool launch_is_set(void)
{
	return find_launcher() != NULL;
}

int launch_become(const char *const *argv, const struct launch_user *user)
{
	const char *launcher = find_launcher();

	if (launcher)
		return become_launched(launcher, argv, user);
	execv(argv[0], (char *const *)argv);
	return -errno;
}
