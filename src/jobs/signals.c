/*
 * signals - passes signals on to the command, and ends process trees.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/log.h"
#include "base/unknown.h"
#include "jobs/runner_internal.h"

#define KILL_AGAIN_MS 100
/* A process that survives SIGKILL for this many rounds hangs in the kernel: go on without it. */
#define KILL_MAX_ROUNDS 50

/*
 * Signals that are not passed on: those that cannot be caught, those that a fault
 * of our own raises, and those that we have a use for ourselves.
 */
static const int kept_signals[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,	SIGFPE,	 SIGILL,
				    SIGTRAP, SIGSYS,  SIGABRT, SIGCHLD, SIGPIPE, SIGXFSZ };

/* The signals by which somebody asks a command to end. */
static const int ending_signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

/* What the terminal sends to a whole process group when keys are pressed or it changes. */
static const int terminal_signals[] = { SIGINT,	 SIGQUIT, SIGTSTP, SIGTTIN,
					SIGTTOU, SIGCONT, SIGWINCH };

static bool is_one_of(int sig, const int *signals, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (signals[i] == sig)
			return true;
	return false;
}

static bool asks_to_end(int sig)
{
	return is_one_of(sig, ending_signals, ARRAY_SIZE(ending_signals));
}

enum audience { ALL_ROOTS, ROOTS_OF_OTHER_GROUPS };

static void pass_to_roots(struct runner *r, int sig, enum audience audience)
{
	for (size_t i = 0; i < r->n_roots; i++) {
		struct root *root = &r->roots[i];

		if (!root->is_running)
			continue;
		if (asks_to_end(sig))
			root->was_told_to_end = true;
		if (audience == ROOTS_OF_OTHER_GROUPS && getpgid(root->rank.pid) == getpgrp())
			continue;
		kill(root->rank.pid, sig); /* our child, not waited for: the pid is its own */
	}
}

/* sender 0: the terminal. */
static void note_cancel(struct runner *r, int sig, pid_t sender)
{
	if (!r->cancel_signal) {
		r->cancel_signal = sig;
		r->options.ops->name_sender(r->options.ctx, sender, r->canceller,
					    sizeof(r->canceller));
	}
	if (r->phase == PHASE_RUNNING && r->stop_cause == STOP_NONE)
		r->stop_cause = STOP_CANCELLED;
	if (r->phase == PHASE_DRAINING && !r->is_ending)
		runner_end_tree(r, STOP_NONE); /* no more patience with what is left */
	if (r->phase == PHASE_IDLE)
		loop_timer_set(r->step_timer, 0, 0); /* the next try may be waiting */
}

/*
 * Ctrl-C and Ctrl-\ have reached the command already: it is in the same process
 * group, unless it has made its own (timeout does). What we were started to
 * ignore (nohup, "&" in a script) is nothing to us.
 */
static void on_terminal_signal(struct runner *r, int sig)
{
	pass_to_roots(r, sig, ROOTS_OF_OTHER_GROUPS);
	if (!asks_to_end(sig) || sigismember(&r->inherited.ignored, sig))
		return;
	note_cancel(r, sig, 0);
	if (sig == SIGINT && ++r->terminal_interrupts >= 2)
		runner_kill_tree(r, STOP_CANCELLED);
}

/* "proctor cancel" says that it means the whole job; kill(1) leaves it to the command. */
static bool is_cancel(const struct signalfd_siginfo *info)
{
	return info->ssi_signo == SIGTERM && info->ssi_code == SI_QUEUE &&
	       info->ssi_int == RUNNER_CANCEL;
}

static void on_signal(struct runner *r, const struct signalfd_siginfo *info)
{
	int sig = (int)info->ssi_signo;

	if (sig == SIGCHLD) {
		runner_reap(r);
		return;
	}
	/* A hang-up comes from the kernel too, but to the leader of the session alone. */
	if (info->ssi_code == SI_KERNEL &&
	    is_one_of(sig, terminal_signals, ARRAY_SIZE(terminal_signals))) {
		on_terminal_signal(r, sig);
		return;
	}
	/* What the job sends to its parent is not meant for itself. */
	if (info->ssi_code != SI_KERNEL &&
	    membership_find(r->options.members, (pid_t)info->ssi_pid))
		return;
	if (is_cancel(info)) {
		r->is_cancelled = true;
		note_cancel(r, sig, (pid_t)info->ssi_pid);
		runner_end_tree(r, STOP_CANCELLED);
		return;
	}
	if (asks_to_end(sig))
		note_cancel(r, sig, info->ssi_code == SI_KERNEL ? 0 : (pid_t)info->ssi_pid);
	pass_to_roots(r, sig, ALL_ROOTS);
}

static void on_signal_fd(void *ctx)
{
	struct runner *r = ctx;
	struct signalfd_siginfo info;

	while (r->phase != PHASE_FINISHED &&
	       read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		on_signal(r, &info);
}

int runner_take_signals(struct runner *r, struct err *err)
{
	/* With SIGCHLD ignored the kernel would throw exit statuses away. */
	signal(SIGCHLD, SIG_DFL);
	/* A reader of our words that has gone, or a limit on file size, must not end us. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return err_set(err, -errno, "cannot become the subreaper of the job: %s",
			       strerror(errno));

	sigfillset(&r->taken); /* glibc leaves out the two that are its own */
	for (size_t i = 0; i < ARRAY_SIZE(kept_signals); i++)
		sigdelset(&r->taken, kept_signals[i]);
	sigaddset(&r->taken, SIGCHLD);
	r->signal_fd = signalfd(-1, &r->taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return err_set(err, -errno, "cannot receive signals: %s", strerror(errno));
	if (sigprocmask(SIG_BLOCK, &r->taken, NULL) < 0)
		return err_set(err, -errno, "cannot block signals: %s", strerror(errno));
	r->signal_watch = loop_watch_fd(r->loop, r->signal_fd, on_signal_fd, r);
	if (!r->signal_watch)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* From here on we end by a signal as any program does; what came for the job is forgotten. */
void runner_release_signals(struct runner *r)
{
	struct signalfd_siginfo info;

	loop_fd_close(r->signal_watch);
	if (r->signal_fd < 0)
		return;
	while (read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	close_fd(&r->signal_fd);
	sigprocmask(SIG_SETMASK, &r->inherited.mask, NULL);
}

/* ---- ending a tree ---- */

struct kill_pass {
	struct runner *runner;
	int sig;
	size_t n_reached;
	size_t n_refused; /* of another user */
};

static void note_sent(struct kill_pass *pass, pid_t pid, int result, uint64_t wall_ns)
{
	struct runner_options *options = &pass->runner->options;

	if (result == 0) {
		pass->n_reached++;
		options->ops->process_signalled(options->ctx, pid, pass->sig, wall_ns);
	} else if (errno == EPERM) {
		pass->n_refused++;
	}
}

/* Our own children that were not waited for yet: their pids are theirs, whatever /proc shows. */
static void signal_roots(struct kill_pass *pass)
{
	struct runner *r = pass->runner;

	for (size_t i = 0; i < r->n_roots; i++) {
		struct root *root = &r->roots[i];
		uint64_t now = runner_now(r);

		if (!root->is_running)
			continue;
		root->was_told_to_end = true;
		note_sent(pass, root->rank.pid, kill(root->rank.pid, pass->sig), now);
	}
}

/* Through a pidfd, checked by its start time: a reused pid is never hit. */
static void signal_member(void *ctx, const struct job_member *member)
{
	struct kill_pass *pass = ctx;
	struct runner *r = pass->runner;
	CLEANUP(close_fd) int pidfd = -1;
	uint64_t start_ticks, now = runner_now(r);

	if (runner_find_root(r, member->key.pid))
		return;
	/* What an earlier sheet left running on purpose is not this one's to end. */
	if (r->options.leave_background && member->sheet_num != runner_record(r)->num)
		return;
	pidfd = (int)syscall(SYS_pidfd_open, member->key.pid, 0);
	if (pidfd < 0 || proc_start_ticks(member->key.pid, &start_ticks) < 0 ||
	    start_ticks != member->key.start_ticks)
		return;
	note_sent(pass, member->key.pid,
		  (int)syscall(SYS_pidfd_send_signal, pidfd, pass->sig, NULL, 0), now);
}

static struct kill_pass signal_tree(struct runner *r, int sig)
{
	struct kill_pass pass = { .runner = r, .sig = sig };

	signal_roots(&pass);
	r->options.ops->rescan(r->options.ctx);
	membership_each(r->options.members, MEMBERSHIP_SEEN, SHEET_NONE, signal_member, &pass);
	return pass;
}

static void give_up(struct runner *r, size_t n, const char *why)
{
	if (n > 0)
		log_warning("%zu %s of the job could not be ended: %s", n,
			    n == 1 ? "process" : "processes", why);
	else
		log_warning("processes of the job may still run: /proc does not show which");
	r->gave_up = true;
	loop_timer_stop(r->kill_timer);
	runner_on_children_changed(r);
}

void runner_kill_tree(struct runner *r, enum stop_cause cause)
{
	struct kill_pass pass;
	bool has_more = false;

	if (r->stop_cause == STOP_NONE)
		r->stop_cause = cause;
	r->is_ending = true;
	pass = signal_tree(r, SIGKILL);
	if (!r->options.leave_background) /* else processes of an earlier sheet may be there */
		has_more = r->options.ops->kill_rest(r->options.ctx) > 0;
	r->kill_rounds++;
	if (pass.n_reached == 0 && !has_more && pass.n_refused > 0)
		give_up(r, pass.n_refused, "of another user");
	else if (r->kill_rounds > KILL_MAX_ROUNDS)
		give_up(r, pass.n_reached, "no reaction to SIGKILL");
	else
		loop_timer_set(r->kill_timer, KILL_AGAIN_MS, 0);
}

size_t runner_end_tree(struct runner *r, enum stop_cause cause)
{
	struct kill_pass pass;

	if (r->stop_cause == STOP_NONE)
		r->stop_cause = cause;
	r->is_ending = true;
	pass = signal_tree(r, SIGTERM);
	/* A stopped process acts on SIGTERM only when it goes on. */
	signal_tree(r, SIGCONT);
	loop_timer_set(r->kill_timer, r->options.kill_after_ms, 0);
	return pass.n_reached;
}
