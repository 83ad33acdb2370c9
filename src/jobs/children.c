/*
 * children - waits for whatever has ended: the commands themselves, and the
 * orphans that come to the runner because it is their subreaper.
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unknown.h"
#include "jobs/runner_internal.h"

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
 * A command that was stopped from the terminal (Ctrl-Z, or reading it from the
 * background) stops us too, so that the shell sees its job stopped. So does
 * SIGSTOP, but only at a terminal, where a shell waits for us: elsewhere whoever
 * sent it will not think of waking us.
 */
static bool is_to_be_followed(const struct runner *r, int sig)
{
	return sig == SIGSTOP ? isatty(STDIN_FILENO) == 1 : sigismember(&r->taken, sig) == 1;
}

static void follow_stop(struct runner *r)
{
	for (size_t i = 0; i < r->n_roots; i++) {
		siginfo_t info = { 0 };

		if (!r->roots[i].is_running)
			continue;
		if (waitid(P_PID, (id_t)r->roots[i].rank.pid, &info, WSTOPPED | WNOHANG) < 0)
			continue;
		if (info.si_pid != 0 && is_to_be_followed(r, info.si_status))
			stop_self(info.si_status);
	}
}

void runner_reap(struct runner *r)
{
	pid_t pid;

	while ((pid = next_zombie()) > 0) {
		if (tree_is_stranger(r->options.tree, pid))
			reap_stranger(r, pid);
		else
			reap_one(r, pid);
	}
	follow_stop(r);
	runner_on_children_changed(r);
}
