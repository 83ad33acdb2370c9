/*
 * children - waits for whatever has ended: the commands themselves, and the
 * orphans that come to the runner because it is their subreaper.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unknown.h"
#include "jobs/runner_internal.h"

struct sheet_count {
	int sheet_num;
	size_t n;
};

static struct root *find_root(struct runner *r, pid_t pid)
{
	for (size_t i = 0; i < r->n_roots; i++)
		if (r->roots[i].is_running && r->roots[i].rank.pid == pid)
			return &r->roots[i];
	return NULL;
}

/* The next child that has ended, left as a zombie; 0 if there is none. */
static pid_t next_zombie(void)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		if (errno != EINTR)
			return 0;
	return info.si_pid;
}

bool runner_has_children(void)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		if (errno != EINTR)
			return false; /* ECHILD: no child, so no descendant either */
	return true;
}

bool runner_has_processes(struct runner *r)
{
	if (!runner_has_children())
		return false;
	if (!tree_has_strangers(r->options.tree))
		return true;
	r->options.ops->rescan(r->options.ctx);
	return tree_count_seen(r->options.tree) > 0;
}

static void count_of_sheet(void *ctx, const struct tree_member *member)
{
	struct sheet_count *count = ctx;

	count->n += member->sheet_num == count->sheet_num;
}

bool runner_sheet_has_processes(struct runner *r)
{
	struct sheet_count count = { .sheet_num = runner_record(r)->num };

	if (!r->options.leave_background)
		return runner_has_processes(r);
	r->options.ops->rescan(r->options.ctx);
	tree_for_each_seen(r->options.tree, count_of_sheet, &count);
	return count.n > 0;
}

/* Was our child before the job began: waited for, as init would, and no more. */
static void reap_stranger(struct runner *r, pid_t pid)
{
	waitpid(pid, NULL, WNOHANG);
	tree_forget_stranger(r->options.tree, pid);
}

static void reap_one(struct runner *r, pid_t pid)
{
	struct root *root = find_root(r, pid);
	struct reaped reaped = {
		.pid = pid,
		.pre_exec_rss_bytes = root ? root->pre_exec_rss_bytes : U64_UNKNOWN,
	};
	uint64_t died_ns;

	r->options.ops->process_ending(r->options.ctx, pid);
	if (wait4(pid, &reaped.wait_status, WNOHANG, &reaped.usage) != pid)
		return;
	died_ns = r->options.ops->process_reaped(r->options.ctx, &reaped);
	runner_on_death(r, died_ns);
	if (root)
		runner_on_root_end(r, root, reaped.wait_status, died_ns);
}

/* Stops us by this signal, until we are continued. It is blocked, as signal_fd reads it otherwise.
 */
static void stop_self(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL); /* here we stop, and here we go on */
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/*
 * Whether a shell waits for us that will tell its user and continue us: we lead
 * our process group, and not the whole session.
 */
static bool is_job_of_a_shell(void)
{
	return getpgrp() == getpid() && getsid(0) != getpid();
}

/*
 * A command that was stopped from the terminal (Ctrl-Z, or reading it from the
 * background) stops us too, so that the shell sees its job stopped. A plain
 * SIGSTOP does only where a shell certainly waits for us and no time limit runs:
 * elsewhere whoever sent it will not think of waking us.
 */
static bool is_to_be_followed(const struct runner *r, int sig)
{
	bool has_limit = !isnan(r->options.spec->sheets[r->sheet_index].timeout_seconds);

	if (sig == SIGSTOP)
		return is_job_of_a_shell() && !has_limit;
	return getsid(0) != getpid() && sigismember(&r->taken, sig) == 1;
}

/*
 * A root that has made itself the leader of a process group (timeout does) would
 * have been one from the beginning without us, and in front. Now it is in the
 * background as the terminal sees it: hands it the terminal, and lets go on what
 * has tried to read from it.
 */
static void give_terminal(struct runner *r, pid_t pid)
{
	CLEANUP(close_fd) int tty = -1;

	if (getpgid(pid) != pid || !is_job_of_a_shell())
		return;
	tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty < 0 || tcgetpgrp(tty) != getpgrp() || tcsetpgrp(tty, pid) < 0)
		return;
	r->gave_terminal = true;
	kill(-pid, SIGCONT);
}

void runner_look_after(struct runner *r)
{
	for (size_t i = 0; i < r->n_roots && !r->gave_terminal; i++)
		if (r->roots[i].is_running)
			give_terminal(r, r->roots[i].rank.pid);
}

void runner_take_terminal(struct runner *r)
{
	CLEANUP(close_fd) int tty = -1;

	if (!r->gave_terminal)
		return;
	r->gave_terminal = false;
	tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty >= 0)
		tcsetpgrp(tty, getpgrp()); /* SIGTTOU is blocked: this does not stop us */
}

static void follow_stop(struct runner *r)
{
	for (size_t i = 0; i < r->n_roots; i++) {
		pid_t pid = r->roots[i].rank.pid;
		siginfo_t info = { 0 };

		if (!r->roots[i].is_running)
			continue;
		if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid == 0)
			continue;
		if (!is_to_be_followed(r, info.si_status))
			continue;
		r->options.ops->stopping(r->options.ctx);
		stop_self(info.si_status);
		r->options.ops->continued(r->options.ctx);
	}
}

void runner_reap(struct runner *r)
{
	pid_t pid;

	while ((pid = next_zombie()) > 0) {
		if (!find_root(r, pid) && tree_is_stranger(r->options.tree, pid))
			reap_stranger(r, pid);
		else
			reap_one(r, pid);
	}
	follow_stop(r);
	runner_on_children_changed(r);
}
