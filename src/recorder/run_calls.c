/*
 * run_calls - who counts the system calls of a run's job: the run itself, by eBPF or strace, or a
 * daemon.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macros.h"
#include "recorder/run_internal.h"

/* All trees of a run are one job's. */
#define TAG 1

/* What each process has called, as text: of 10,000 processes, mostly. */
#define MAX_TEXT_BYTES (4 << 20)

/* ---- who does ---- */

/* Also where that is not known before a daemon was asked. */
bool run_counting_traces(const struct run *run)
{
	const struct run_counting *c = &run->counting;

	return c->is_own ? !c->ebpf : c->asks_daemon && run->options->syscalls.may_strace;
}

/* The user who asked for one way reads at once that it cannot be. */
static void warn_uncounted(const struct run *run)
{
	enum run_syscalls_how how = run->options->syscalls.how;

	if (!run->counting.is_own && (how == RUN_SYSCALLS_EBPF || how == RUN_SYSCALLS_STRACE))
		log_warning("system calls are not counted, and the job goes on: %s",
			    run->counting.err.text);
}

static int open_ebpf(struct run *run, struct err *err)
{
	const struct run_syscalls *o = &run->options->syscalls;
	const struct syscalls_options options = { .time_every = o->time_every };

	if (o->how == RUN_SYSCALLS_STRACE)
		return err_set(err, -EOPNOTSUPP, "strace was asked for");
	if (!o->may_ebpf && o->how != RUN_SYSCALLS_EBPF)
		return err_set(err, -EOPNOTSUPP,
			       "ebpf_enabled or syscalls_enabled is false in the configuration");
	return syscalls_open(&options, &run->counting.ebpf, err);
}

/* Takes the best rung that the options allow; loading eBPF takes some tenths of a second. */
static void open_own(struct run *run)
{
	const struct run_syscalls *o = &run->options->syscalls;
	struct run_counting *c = &run->counting;
	bool may_strace =
		o->how == RUN_SYSCALLS_STRACE || (o->how != RUN_SYSCALLS_EBPF && o->may_strace);
	struct err why = ERR_INIT;
	int r = open_ebpf(run, &why);

	c->is_own = r == 0 || (may_strace && sources_has_strace());
	if (r == 0)
		c->calls.time_every = o->time_every;
	else if (c->is_own)
		c->err = why;
	else if (may_strace)
		err_set(&c->err, -ENOENT, "strace is not installed");
	else
		err_set(&c->err, r, "%.400s%s", why.text,
			o->how == RUN_SYSCALLS_EBPF ? "" : "; --syscalls=strace can, and is slow");
	run->job.keeps_calls = c->is_own;
}

void run_counting_open(struct run *run)
{
	const struct run_syscalls *o = &run->options->syscalls;
	struct run_counting *c = &run->counting;

	c->calls.processes.max_bytes = MAX_TEXT_BYTES;
	run->job.keeps_calls = o->how == RUN_SYSCALLS_OFF;
	if (o->how == RUN_SYSCALLS_OFF) {
		err_set(&c->err, -EOPNOTSUPP, "--syscalls=off");
		return;
	}
	/* By default a daemon counts them, or strace if the configuration wants that. */
	if (o->how == RUN_SYSCALLS_DEFAULT && !o->may_strace) {
		err_set(&c->err, -EOPNOTSUPP,
			"a run counts them only if asked to (--syscalls); a daemon of root does from "
			"when it has heard of the job, some tenths of a second after its beginning");
		c->asks_daemon = run->options->is_submitted;
		return;
	}
	if (o->how == RUN_SYSCALLS_AUTO) { /* a daemon has loaded what the run would load */
		err_set(&c->err, -ENOENT, "no command has begun");
		c->asks_daemon = true;
		return;
	}
	open_own(run);
	c->asks_daemon = o->how != RUN_SYSCALLS_STRACE && !c->ebpf;
	if (!c->asks_daemon)
		warn_uncounted(run);
}

static void close_own(struct run *run)
{
	struct run_counting *c = &run->counting;

	c->ebpf = syscalls_close(c->ebpf);
	for (size_t i = 0; i < c->n_straces; i++)
		strace_free(c->straces[i]);
	c->n_straces = 0;
	run->job.keeps_calls = c->is_own = false;
}

void run_counting_close(struct run *run)
{
	close_own(run);
	free(run->counting.straces);
	counted_calls_release(&run->counting.calls);
	process_calls_release(&run->counting.before);
}

/* A daemon of root, or the one that has started us, may where we may not, costs less than strace,
 * and has what it needs loaded. */
static void ask_daemon(struct run *run)
{
	bool may_be_own = run->options->syscalls.how == RUN_SYSCALLS_AUTO ||
			  (run->options->is_submitted && !run->options->is_for_other);
	struct run_counting *c = &run->counting;
	struct err err = ERR_INIT, why;

	c->asks_daemon = false;
	c->is_daemon_asked = link_ask_to_count(run->link, may_be_own, &err) == 0;
	if (run->options->syscalls.how == RUN_SYSCALLS_AUTO || (c->is_daemon_asked && c->is_own))
		c->err = (struct err)ERR_INIT;
	if (c->is_daemon_asked && c->is_own)
		close_own(run);
	if (c->is_daemon_asked)
		return;
	if (run->options->syscalls.how == RUN_SYSCALLS_AUTO)
		open_own(run);
	why = c->err;
	if (!c->is_own && err.code != -ENOENT) /* a daemon there is */
		err_set(&c->err, why.code, "%.250s; %.200s", why.text, err.text);
	warn_uncounted(run);
}

/* ---- counting ---- */

static void note_trouble(struct run *run, const struct err *err)
{
	if (run->counting.trouble.code != 0)
		return;
	run->counting.trouble = *err;
	log_warning("system calls are not all counted, and the job goes on: %s", err->text);
}

static void note_errno(struct run *run, int r)
{
	struct err err = ERR_INIT;

	err_set(&err, r, "%s", strerror(-r));
	note_trouble(run, &err);
}

/* The tracer is our child, and no part of the job. */
static int add_strace(struct run *run, pid_t pid, struct err *err)
{
	struct run_counting *c = &run->counting;
	struct strace *s = NULL;
	int r;

	if (ARRAY_RESERVE(c->straces, c->cap_straces, c->n_straces + 1) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	r = strace_start(pid, &s, err);
	if (r < 0)
		return r;
	if (membership_add_stranger(run->members, strace_pid(s)) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		r = strace_await(s, err);
	if (r < 0)
		strace_free(s);
	else
		c->straces[c->n_straces++] = s;
	return r;
}

/*
 * Whether the kernel does not give programs of the job the rights of another user (setuid, setgid,
 * file capabilities), since who traces them has not got these.
 */
static bool withholds_rights(const struct run *run)
{
	return run_counting_traces(run) && geteuid() != 0;
}

void run_counting_begin(struct run *run, pid_t pid)
{
	struct run_counting *c = &run->counting;
	struct err err = ERR_INIT;
	int r;

	if (c->asks_daemon)
		ask_daemon(run);
	if (c->ebpf) {
		r = syscalls_track(c->ebpf, pid, TAG);
		if (r < 0)
			note_errno(run, r);
	} else if (c->is_own) {
		if (!c->is_warned && withholds_rights(run))
			log_warning(
				"strace counts the system calls: programs in this job that would run "
				"as another user (setuid, sudo) do not get those rights, and may fail");
		c->is_warned = true;
		if (add_strace(run, pid, &err) < 0)
			note_trouble(run, &err);
	}
}

static void add_process(void *ctx, const struct syscall_process *p)
{
	struct run *run = ctx;

	counted_calls_add(&run->counting.calls, p);
}

static bool read_ebpf(struct run *run)
{
	struct run_counting *c = &run->counting;
	struct syscalls_lost lost;
	int r;

	if (!c->ebpf || !syscalls_is_armed(c->ebpf))
		return false;
	r = syscalls_read(c->ebpf, &lost);
	if (r < 0) {
		note_errno(run, r);
		return false;
	}
	c->calls.lost.calls += lost.calls;
	c->calls.lost.threads += lost.threads;
	return true;
}

void run_counting_fill(struct run *run)
{
	CLEANUP(process_calls_release) struct process_calls now = { .max_bytes = MAX_TEXT_BYTES };
	struct run_counting *c = &run->counting;
	bool is_all = false;

	if (c->is_own) {
		if (!read_ebpf(run))
			return;
		syscalls_fill(c->ebpf, &run->snap);
		syscalls_each_ended(c->ebpf, add_process, run);
	} else if (run->options->syscalls.how != RUN_SYSCALLS_OFF &&
		   link_take_counts(run->link, &now, &is_all) == 0) {
		process_calls_fill_steps(&c->before, &now, is_all, &run->snap);
	}
}

/* ---- the end ---- */

/* By a daemon that is there and does. It may have come after the beginning. */
static void take_daemons_calls(struct run *run)
{
	CLEANUP(counted_calls_release)
	struct counted_calls calls = { .processes.max_bytes = MAX_TEXT_BYTES };
	struct run_counting *c = &run->counting;
	struct err err = ERR_INIT;
	int r;

	if (run->options->syscalls.how == RUN_SYSCALLS_OFF)
		return;
	r = link_take_calls(run->link, c->is_daemon_asked || link_state(run->link)->is_guest,
			    &calls, &err);
	if (r == 0) {
		/* The daemon times for all jobs alike. */
		if (run->options->syscalls.time_every > 1 && calls.time_every <= 1)
			log_warning("a daemon has counted the system calls, and timed all of them: "
				    "its syscalls_time_every says how many");
		counted_calls_keep(&calls, NULL, run->attempt);
		c->calls.time = calls.time;
		c->is_by_daemon = link_state(run->link)->counts_calls;
	} else if (r == -ETIMEDOUT) {
		err_set(&c->err, r,
			"the daemon, which may have counted them, had no time to say so, and the "
			"run did not wait for it any longer");
	} else if (c->is_daemon_asked) {
		err_set(&c->err, r, "the daemon that counted them is gone, or has them no more");
	}
}

static void end_own(struct run *run)
{
	struct run_counting *c = &run->counting;

	if (withholds_rights(run))
		attempt_note(run->attempt, "rights of setuid programs",
			     "strace counted the system calls: programs that would have run as "
			     "another user (setuid, setgid, file capabilities) did not get those "
			     "rights from the kernel, and the job may have done other things than "
			     "without it");
	if (run_counting_traces(run))
		attempt_note(run->attempt, "syscalls",
			     "strace counted them, which leaves out the last call of each process "
			     "(exit_group), and those that it has no name for");
	for (size_t i = 0; i < c->n_straces; i++) {
		struct err err = ERR_INIT;

		if (strace_end_count(c->straces[i], add_process, run, &err) < 0)
			note_trouble(run, &err);
	}
	c->n_straces = 0;
	if (read_ebpf(run))
		syscalls_each(c->ebpf, add_process, run);
	counted_calls_keep(&c->calls, c->trouble.code != 0 ? c->trouble.text : NULL, run->attempt);
}

/* What went wrong with counting is no reason to say that nothing was counted. */
void run_counting_end(struct run *run)
{
	if (run->counting.is_own)
		end_own(run);
	else
		take_daemons_calls(run);
}

struct rung run_counting_rung(const struct run *run)
{
	const struct run_counting *c = &run->counting;

	if (c->ebpf || (!c->is_own && c->is_by_daemon))
		return (struct rung){ RUNG_SYSCALLS, RUNG_SYSCALLS_EBPF, "" };
	if (c->is_own)
		return (struct rung){ RUNG_SYSCALLS, RUNG_SYSCALLS_STRACE, c->err.text };
	return (struct rung){ RUNG_SYSCALLS, RUNG_UNKNOWN, c->err.text };
}
