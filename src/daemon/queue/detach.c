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

static void become_runner(const struct detached *d, int fail_fd)
{
	static const char gone[] = " (deleted)";
	CLEANUP(close_fd) int oom_fd = -1;
	struct launch_user as = { .uid = d->job->uid, .workdir = d->job->workdir };
	bool is_other = d->job->uid != geteuid();
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out_fd = d->log_fd >= 0 ? d->log_fd : null_fd;
	struct failure failure = { .is_all = true };
	struct err err = ERR_INIT;
	struct user user = { 0 };
	char program[PATH_BYTES] = "", score[16];
	const char *const argv[] = { program,	     "run", "-q",	  "--job",
				     d->job->job_id, "-f",  d->job->name, NULL };
	sigset_t none;
	ssize_t n;
	int r;

	if (d->queue_fd >= 0)
		close(d->queue_fd); /* or a daemon that is killed now cannot be started again */

	/* stdin, stdout and stderr; all others end with exec, whoever opened them. */
	if (out_fd < 0 || dup2(d->spool_fd, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 ||
	    dup2(out_fd, STDERR_FILENO) < 0 ||
	    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		give_up(fail_fd,
			&(struct failure){ .error = errno, .step = "cannot hand over its files" });
	sigemptyset(&none);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL); /* of a daemon that was started by nohup, too */
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (d->files)
		file_limit_set(d->files);

	/* Where we are on the disk, or what has been put there since: an upgrade. */
	n = readlink("/proc/self/exe", program, PATH_BYTES - 1);
	if (n < 0)
		give_up(fail_fd,
			&(struct failure){ .error = errno, .step = "cannot find proctor" });
	program[n] = '\0';
	if ((size_t)n > strlen(gone) && strcmp(program + n - strlen(gone), gone) == 0)
		program[(size_t)n - strlen(gone)] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(not_for_jobs); i++)
		unsetenv(not_for_jobs[i]);

	/* The daemon may be spared when memory runs out; a job is not. What is to go first stays
	 * so. */
	oom_fd = launch_is_set() ? -1 : open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (oom_fd >= 0 && io_pread_text(oom_fd, score, sizeof(score)) > 0 && score[0] == '-')
		io_write_all(oom_fd, "0", 1);

	/* Whoever asks a directory of users may wait for long: here nobody does. */
	if (is_other) {
		failure.error = -user_find(d->job->uid, &user, &err);
		snprintf(failure.step, sizeof(failure.step), "%.90s", err.text);
		if (failure.error != 0)
			give_up(fail_fd, &failure);
	}
	/* By the runner-to-be, which lives on when the daemon is killed. */
	if (rename(d->path, d->started_path) < 0)
		give_up(fail_fd, &(struct failure){ .error = errno,
						    .may_pass = true,
						    .step = "cannot mark it as started" });
	as.gid = user.gid;
	/* A launcher is ours, and makes a user's process itself: only our folders are not for that.
	 */
	if (is_other && launch_is_set()) {
		unsetenv("PROCTOR_HOME");
	} else if (is_other) {
		umask(022);
		r = user_set_environment(&user);
		if (r == 0)
			r = user_become(&user);
		if (r < 0)
			give_up(fail_fd,
				&(struct failure){ .error = -r, .step = "cannot become the user" });
	}
	setenv(QUEUED_VARIABLE, d->log_fd >= 0 ? "1" : QUEUED_WITHOUT_LOG, 1);
	if (!is_other && d->db_path && d->db_path[0] == '/')
		setenv(QUEUED_DB_VARIABLE, d->db_path, 1);
	/* A launcher goes there as the user: as root we could go where they may not. */
	if (!(is_other && launch_is_set()) && chdir(d->job->workdir) < 0)
		give_up(fail_fd,
			&(struct failure){ .error = errno, .step = "cannot go to its folder" });
	r = launch_become(argv, is_other ? &as : NULL);
	/* In the middle of an upgrade there is none for a moment. */
	give_up(fail_fd, &(struct failure){ .error = -r,
					    .may_pass = r == -ENOENT || r == -ETXTBSY,
					    .step = "cannot execute its runner" });
}

/* ---- in the daemon ---- */

/* The end of the file means that all is well: exec has closed it. */
int detach_check(int *fd, int patience_ms, struct err *err)
{
	struct pollfd p = { .fd = *fd, .events = POLLIN };
	struct failure failure;
	ssize_t n;
	int r;

	if (poll(&p, 1, patience_ms) <= 0)
		return 1;
	do
		n = read(*fd, &failure, sizeof(failure));
	while (n < 0 && errno == EINTR);
	close_fd(fd);
	if (n != (ssize_t)sizeof(failure))
		return 0;
	r = failure.may_pass ? -EAGAIN : -failure.error;
	return failure.is_all ? err_set(err, r, "%.*s", (int)sizeof(failure.step), failure.step)
			      : err_set(err, r, "%.*s: %s", (int)sizeof(failure.step), failure.step,
					strerror(failure.error));
}

/* Twice, so that it is nobody's child. On key_fd comes the pid of the runner, and what it was at
 * that moment: it is a child of the one between us, whose pid nobody else can get before that one
 * has ended. */
static int fork_runner(const struct detached *d, int fail_fd, int key_fd)
{
	struct proc_key key = { 0 };
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		setsid();
		key.pid = fork();
		if (key.pid == 0)
			become_runner(d, fail_fd);
		if (key.pid < 0)
			_exit(1);
		if (proc_start_ticks(key.pid, &key.start_ticks) < 0)
			key.start_ticks = U64_UNKNOWN;
		_exit(io_write_all(key_fd, &key, sizeof(key)) < 0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : -EAGAIN;
}

int detach_runner(const struct detached *d, struct proc_key *ret_key, int *ret_fd, struct err *err)
{
	int fds[2] = { -1, -1 }, keys[2] = { -1, -1 };
	int r = pipe2(fds, O_CLOEXEC) < 0 || pipe2(keys, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;

	if (r == 0)
		r = fork_runner(d, fds[1], keys[1]);
	if (r < 0 || read(keys[0], ret_key, sizeof(*ret_key)) != (ssize_t)sizeof(*ret_key))
		*ret_key = (struct proc_key){ .start_ticks = U64_UNKNOWN };
	close_fd(&keys[0]);
	close_fd(&keys[1]);
	close_fd(&fds[1]);
	if (r < 0) {
		close_fd(&fds[0]);
		return err_set(err, -EAGAIN, "cannot start a runner: %s", strerror(-r));
	}
	*ret_fd = fds[0];
	r = detach_check(ret_fd, PATIENCE_MS, err);
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

/* What is left over when it fails goes with the child. */
static int become_launched(const char *launcher, const char *const *argv,
			   const struct launch_user *user)
{
	const char *words[MAX_WORDS], **all, *slash;
	char *text = strdup(launcher), *options[3] = { NULL };
	int n = text ? split_words(text, words) : -ENOMEM;
	size_t n_argv = 0, at;
	bool is_expanded;

	if (n >= 0 && user) {
		/* Who it is to be goes before the "--" that ends the launcher's own options. */
		at = n > 0 && strcmp(words[n - 1], "--") == 0 ? (size_t)n - 1 : (size_t)n;
		if (n + (int)ARRAY_SIZE(options) > MAX_WORDS)
			return -E2BIG;
		if (asprintf(&options[0], "--uid=%u", (unsigned)user->uid) < 0 ||
		    asprintf(&options[1], "--gid=%u", (unsigned)user->gid) < 0 ||
		    asprintf(&options[2], "--working-directory=%s", user->workdir) < 0)
			return -ENOMEM;
		memmove(words + at + ARRAY_SIZE(options), words + at,
			((size_t)n - at) * sizeof(*words));
		memcpy(words + at, options, sizeof(options));
		n += (int)ARRAY_SIZE(options);
	}
	if (n < 0)
		return n;
	while (argv[n_argv])
		n_argv++;
	all = calloc((size_t)n + n_argv + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, words, (size_t)n * sizeof(*all));
	/* Services that systemd-run(1) makes have variables put in for "$" in their words: "$$" is
	 * one. */
	slash = n > 0 ? strrchr(words[0], '/') : NULL;
	is_expanded = n > 0 && strcmp(slash ? slash + 1 : words[0], "systemd-run") == 0;
	for (size_t i = 0; i < n_argv; i++) {
		all[(size_t)n + i] = is_expanded ? double_dollars(argv[i]) : argv[i];
		if (!all[(size_t)n + i])
			return -ENOMEM;
	}
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
