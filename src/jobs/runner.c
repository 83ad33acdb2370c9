#include "jobs/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "jobs/runner_internal.h"

/* How long after its death we may hear of it. */
#define MAX_DEATH_AGE_NS UINT64_C(60000000000)

static void on_timeout(void *ctx);
static void on_grace_timer(void *ctx);
static void on_kill_timer(void *ctx);
static void on_step(void *ctx);

/* ---- life of the runner ---- */

int runner_new(struct loop *loop, const struct runner_options *options, struct runner **ret,
	       struct err *err)
{
	struct runner *r = calloc(1, sizeof(*r));
	int result;

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	r->loop = loop;
	r->options = *options;
	r->inherited = *options->inherited;
	r->signal_fd = -1;
	r->result.status = (struct exit_status){ -1, -1 };
	r->result.cause = (struct cause)CAUSE_INIT;
	r->timeout_timer = loop_timer_new(r->loop, on_timeout, r);
	r->grace_timer = loop_timer_new(r->loop, on_grace_timer, r);
	r->kill_timer = loop_timer_new(r->loop, on_kill_timer, r);
	r->step_timer = loop_timer_new(r->loop, on_step, r);
	result = runner_take_signals(r, err);
	if (result == 0 &&
	    (!r->timeout_timer || !r->grace_timer || !r->kill_timer || !r->step_timer))
		result = err_set(err, -ENOMEM, "out of memory");
	if (result < 0) {
		runner_free(r);
		return result;
	}
	*ret = r;
	return 0;
}

struct runner *runner_free(struct runner *r)
{
	if (!r)
		return NULL;
	runner_release_signals(r);
	loop_timer_close(r->timeout_timer);
	loop_timer_close(r->grace_timer);
	loop_timer_close(r->kill_timer);
	loop_timer_close(r->step_timer);
	free(r->roots);
	free(r->records);
	arena_release(&r->arena);
	free(r);
	return NULL;
}

void runner_start(struct runner *r)
{
	loop_timer_set(r->step_timer, 0, 0);
}

const struct sheet_record *runner_sheets(const struct runner *r, size_t *ret_n)
{
	*ret_n = r->n_records;
	return r->records;
}

const struct sheet_record *runner_current_sheet(const struct runner *r)
{
	bool is_busy = r->phase == PHASE_RUNNING || r->phase == PHASE_DRAINING;

	return is_busy ? &r->records[r->n_records - 1] : NULL;
}

void runner_get_result(const struct runner *r, struct runner_result *ret)
{
	*ret = r->result;
}

/* A copy for as long as the runner lives, or words in its place. */
static const char *runner_keep_text(struct runner *r, struct buf *text)
{
	const char *kept = arena_strndup(&r->arena, text->data, text->len);

	return kept ? kept : "out of memory";
}

/* ---- who is there ---- */

bool runner_has_children(void)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		if (errno != EINTR)
			return false; /* ECHILD: no child, so no descendant either */
	return true;
}

/* Of this sheet; SHEET_NONE: of any. */
static bool shows_processes(struct runner *r, int sheet_num)
{
	r->options.ops->rescan(r->options.ctx);
	return membership_each(r->options.members, MEMBERSHIP_SEEN, sheet_num, NULL, NULL) > 0;
}

bool runner_has_processes(struct runner *r)
{
	return runner_has_children() &&
	       (!membership_has_strangers(r->options.members) || shows_processes(r, SHEET_NONE));
}

/* ---- the terminal ---- */

/*
 * Whether a shell waits for us that will tell its user and continue us: we lead
 * our process group, and not the whole session.
 */
static bool is_job_of_a_shell(void)
{
	return getpgrp() == getpid() && getsid(0) != getpid();
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

/* Takes the terminal back from a root that had it. */
static void runner_take_terminal(struct runner *r)
{
	CLEANUP(close_fd) int tty = -1;

	if (!r->gave_terminal)
		return;
	r->gave_terminal = false;
	tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty >= 0)
		tcsetpgrp(tty, getpgrp()); /* SIGTTOU is blocked: this does not stop us */
}

/* ---- a try begins ---- */

static int add_record(struct runner *r)
{
	const struct sheet_spec *spec = runner_spec(r);
	const struct sheet_record *last = r->n_records > 0 ? &r->records[r->n_records - 1] : NULL;
	struct sheet_record record = {
		.num = spec->num,
		.try_num = last && last->num == spec->num ? last->try_num + 1 : 1,
		.name = spec->name,
		.total_ranks = spec->ranks,
		.started_wall_ns = runner_now(r),
		.ended_wall_ns = U64_UNKNOWN,
		.cause = CAUSE_INIT,
		.status = { -1, -1 },
	};

	if (!r->options.hides_commands) {
		CLEANUP(buf_release) struct buf text = BUF_INIT;
		bool is_shell = strcmp(spec->argv[0], "/bin/sh") == 0 && spec->argv[1] &&
				strcmp(spec->argv[1], "-c") == 0 && spec->argv[2] && !spec->argv[3];

		/* A shell string reads better as the user wrote it. */
		mask_argv(r->options.mask, spec->argv + (is_shell ? 2 : 0), &text);
		record.command = runner_keep_text(r, &text);
	}
	usage_init(&record.usage);
	if (ARRAY_RESERVE(r->records, r->cap_records, r->n_records + 1) < 0)
		return -ENOMEM;
	r->records[r->n_records++] = record;
	return 0;
}

static int reset_roots(struct runner *r, const struct sheet_spec *spec)
{
	size_t n = (size_t)spec->ranks;
	struct root *roots = reallocarray(r->roots, n, sizeof(*roots));

	if (!roots)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		roots[i] = (struct root){
			.rank = {
				.rank = spec->is_ranked ? (int)i : RANK_NONE,
				.pid = -1,
				.status = { -1, -1 },
				.ended_wall_ns = U64_UNKNOWN,
			},
			.pre_exec_rss_bytes = U64_UNKNOWN,
			.ended_boot_ns = U64_UNKNOWN,
		};
	r->roots = roots;
	r->n_roots = n;
	r->last_death_wall_ns = r->last_death_boot_ns = U64_UNKNOWN;
	return 0;
}

static void start_root(struct runner *r, struct root *root)
{
	int sheet_num = runner_record(r)->num;
	struct spawn_request request = {
		.sheet = runner_spec(r),
		.rank = root->rank.rank,
		.job_id = r->options.spec->job_id,
		.inherited = &r->inherited,
		.held = r->options.holds_commands ? r->options.ops->process_held : NULL,
		.ctx = r->options.ctx,
		.cgroup = r->options.cgroup.n_entries > 0 ? &r->options.cgroup : NULL,
		.is_traceable = r->options.is_traceable,
	};
	uint64_t wall_ns = runner_now(r); /* before: a short command may be dead when we are back */
	struct spawned spawned;
	struct err err = ERR_INIT;

	if (spawn_command(&request, &spawned, &err) < 0) {
		log_error("%s", err.text);
		root->rank.status.exit_code = spawned.exit_code;
		root->rank.ended_wall_ns = runner_now(r);
		root->ended_boot_ns = clock_boot_ns();
		if (spawned.pid > 0)
			r->options.ops->process_failed(r->options.ctx, spawned.pid);
		return;
	}
	if (spawned.is_outside) {
		r->options.cgroup.n_entries = 0;
		r->options.ops->cgroup_failed(r->options.ctx);
	}
	root->rank.pid = spawned.pid;
	root->is_running = true;
	root->pre_exec_rss_bytes = spawned.pre_exec_rss_bytes;
	if (membership_add(r->options.members,
			   &(struct job_member){ .key = { spawned.pid, U64_UNKNOWN },
						 .sheet_num = sheet_num,
						 .rank = root->rank.rank }) < 0)
		log_warning("out of memory: the processes of sheet %d are not all counted",
			    sheet_num);
	r->options.ops->process_started(r->options.ctx, spawned.pid, sheet_num, root->rank.rank,
					wall_ns);
}

static bool any_root_runs(const struct runner *r)
{
	for (size_t i = 0; i < r->n_roots; i++)
		if (r->roots[i].is_running)
			return true;
	return false;
}

/* NULL: none has failed. A failure of its own comes before one that we asked for. */
static const struct root *first_failed(const struct runner *r)
{
	const struct root *first = NULL;

	for (size_t i = 0; i < r->n_roots; i++) {
		const struct root *root = &r->roots[i];

		if (!runner_is_failed(root->rank.status))
			continue;
		if (!first || (root->was_told_to_end != first->was_told_to_end
				       ? first->was_told_to_end
				       : root->rank.ended_wall_ns < first->rank.ended_wall_ns))
			first = root;
	}
	return first;
}

static void finish(struct runner *r)
{
	r->phase = PHASE_FINISHED;
	r->options.ops->finished(r->options.ctx);
}

static void start_try(struct runner *r)
{
	const struct sheet_spec *spec = runner_spec(r);

	if (add_record(r) < 0 || reset_roots(r, spec) < 0) {
		log_error("cannot start sheet %d: out of memory", spec->num);
		r->result.outcome = OUTCOME_FAILURE;
		r->result.reason = "out of memory";
		r->result.shell_status = 126;
		finish(r);
		return;
	}
	r->phase = PHASE_RUNNING;
	r->stop_cause = STOP_NONE;
	r->doing = NULL;
	r->is_ending = r->gave_up = false;
	r->kill_rounds = 0;
	membership_set_sheet(r->options.members, spec->num);
	r->options.ops->sheet_started(r->options.ctx, runner_record(r));
	if (!isnan(spec->timeout_seconds))
		loop_timer_set(r->timeout_timer, (uint64_t)(spec->timeout_seconds * 1000.0), 0);
	for (size_t i = 0; i < r->n_roots; i++)
		start_root(r, &r->roots[i]);
	if (first_failed(r) && any_root_runs(r))
		runner_end_tree(r, STOP_RANK_FAILED);
	runner_on_children_changed(r);
}

/* ---- what the end of a try means, for its record and for the job ---- */

/* What timeout(1) exits with. */
#define SHELL_STATUS_TIMEOUT 124

/* ---- words ---- */

static void add_signal_name(struct buf *out, int sig)
{
	const char *name = sigabbrev_np(sig);

	if (name)
		buf_printf(out, "SIG%s", name);
	else
		buf_printf(out, "signal %d", sig);
}

static void add_status(struct buf *out, struct exit_status status)
{
	if (status.signal >= 0) {
		buf_add_str(out, "killed by ");
		add_signal_name(out, status.signal);
	} else if (status.exit_code >= 0) {
		buf_printf(out, "exit code %d", status.exit_code);
	} else {
		buf_add_str(out, "its end was not seen");
	}
}

/* The outcome of a try that failed, and the evidence for it. */
static enum outcome judge_failure(struct runner *r, const struct root *failed, struct buf *why)
{
	CLEANUP(buf_release) struct buf evidence = BUF_INIT;
	struct cause *cause = &runner_record(r)->cause;
	struct exit_status status = failed->rank.status;
	enum outcome outcome = OUTCOME_FAILURE;

	if (failed->rank.rank != RANK_NONE)
		buf_printf(why, "rank %d was first: ", failed->rank.rank);
	add_status(why, status);
	if (r->cancel_signal) {
		cause->kind = r->is_cancelled ? CAUSE_CANCELLED : CAUSE_SIGNAL;
		if (r->is_cancelled) {
			buf_add_str(why, ", as the job was cancelled");
		} else {
			buf_add_str(why, " after ");
			add_signal_name(why, r->cancel_signal);
			buf_printf(why, " from %s",
				   r->terminal_interrupts ? "the terminal"
				   : r->canceller[0]	  ? r->canceller
							  : "outside");
		}
		return OUTCOME_CANCELLED;
	}
	if (!failed->was_told_to_end && failed->rank.pid > 0)
		outcome = r->options.ops->explain_failure(r->options.ctx, failed->rank.pid, status,
							  &evidence, cause);
	else if (status.exit_code == 127)
		cause->kind = CAUSE_NOT_FOUND;
	if (evidence.len > 0)
		buf_printf(why, "; %s", evidence.data);
	return outcome;
}

static enum outcome judge(struct runner *r, const struct root *failed, struct buf *why)
{
	bool all_succeeded = true; /* not after giving up on one that could not be ended */

	for (size_t i = 0; i < r->n_roots; i++)
		all_succeeded &= r->roots[i].rank.status.exit_code == 0;
	/* A time limit that was reached is the outcome, whatever the command made of SIGTERM. */
	if (r->stop_cause == STOP_TIMEOUT) {
		buf_printf(why, "time limit of %g s reached; ", runner_spec(r)->timeout_seconds);
		if (r->doing)
			buf_printf(why, "%s; ", r->doing);
		add_status(why, failed ? failed->rank.status : r->roots[0].rank.status);
		if (runner_record(r)->cause.kind == CAUSE_NONE)
			runner_record(r)->cause.kind = CAUSE_TIME_LIMIT;
		return OUTCOME_TIMEOUT;
	}
	if (r->stop_cause == STOP_LIMIT) {
		buf_printf(why, "%s; ", r->doing ? r->doing : "a limit was exceeded");
		add_status(why, failed ? failed->rank.status : r->roots[0].rank.status);
		if (r->limit_outcome == OUTCOME_OOM)
			runner_record(r)->cause.kind = CAUSE_MEMORY;
		return r->limit_outcome;
	}
	if (failed)
		return judge_failure(r, failed, why);
	buf_add_str(why, all_succeeded ? "exit code 0"
				       : "it could not be ended, and its end was not seen");
	return all_succeeded ? OUTCOME_SUCCESS : OUTCOME_FAILURE;
}

/* Which has ended last; its times are U64_UNKNOWN if one of them has not. */
static const struct root *runner_last_root(const struct runner *r)
{
	const struct root *last = &r->roots[0];

	for (size_t i = 1; i < r->n_roots; i++)
		if (r->roots[i].ended_boot_ns > last->ended_boot_ns)
			last = &r->roots[i];
	return last;
}

/*
 * Completes the record of the try that is over. A try lasts until the last of its processes has
 * ended, which may be later than its commands: the CPU time that is counted was used in the time
 * that is counted.
 */
static void runner_judge_try(struct runner *r)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	struct sheet_record *record = runner_record(r);
	const struct root *failed = first_failed(r);
	uint64_t ended_ns = runner_last_root(r)->rank.ended_wall_ns;

	record->ended_wall_ns = u64_known(ended_ns) ? u64_max_known(ended_ns, r->last_death_wall_ns)
						    : runner_now(r);
	if (runner_spec(r)->is_ranked) /* a command without ranks has none in its record */
		record->ranks = arena_alloc(&r->arena, r->n_roots * sizeof(*record->ranks));
	for (size_t i = 0; record->ranks && i < r->n_roots; i++)
		record->ranks[record->n_ranks++] = r->roots[i].rank;
	record->status = failed ? failed->rank.status : r->roots[0].rank.status;
	record->outcome = judge(r, failed, &why);
	record->reason = runner_keep_text(r, &why);
}

/* ---- the job ---- */

static bool has_failed(const struct runner *r)
{
	return r->result.outcome != OUTCOME_NONE && r->result.outcome != OUTCOME_SUCCESS;
}

/* Of several failures the job's is the one that ended it; if none did, the first. */
static void runner_note_result(struct runner *r, const struct sheet_record *record, bool ends_job)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	int status = exit_status_to_shell(record->status);

	if (has_failed(r) && !ends_job)
		return;
	r->result.outcome = record->outcome;
	r->result.cause = record->cause;
	r->result.status = record->status;
	if (record->outcome == OUTCOME_SUCCESS) {
		r->result.reason = record->reason;
		return;
	}
	if (record->outcome == OUTCOME_TIMEOUT)
		r->result.shell_status = SHELL_STATUS_TIMEOUT;
	else if (status > 0)
		r->result.shell_status = status;
	else
		r->result.shell_status = r->cancel_signal ? 128 + r->cancel_signal : 1;
	if (r->options.spec->n_sheets > 1)
		buf_printf(&why, "sheet %d%s%s%s: ", record->num, record->name ? " (" : "",
			   record->name ? record->name : "", record->name ? ")" : "");
	buf_add_str(&why, record->reason);
	r->result.reason = runner_keep_text(r, &why);
}

/* The job was cancelled before the next sheet. */
static void runner_cancel_rest(struct runner *r)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;

	if (has_failed(r))
		return;
	if (r->is_cancelled)
		buf_add_str(&why, "the job was cancelled");
	else
		add_signal_name(&why, r->cancel_signal);
	buf_printf(&why, "%s before sheet %d was started", r->is_cancelled ? "" : " came",
		   runner_spec(r)->num);
	r->result.outcome = OUTCOME_CANCELLED;
	r->result.cause.kind = r->is_cancelled ? CAUSE_CANCELLED : CAUSE_SIGNAL;
	r->result.reason = runner_keep_text(r, &why);
	r->result.shell_status = 128 + r->cancel_signal;
}

/* ---- a try ends ---- */

/* Whether another try or sheet is to run; moves on to it. */
static bool advance(struct runner *r)
{
	const struct sheet_record *record = runner_record(r);
	const struct sheet_spec *spec = runner_spec(r);
	bool is_ok = record->outcome == OUTCOME_SUCCESS, ends_job;

	if (!is_ok && !r->cancel_signal && record->try_num <= spec->retries)
		return true;
	if (is_ok)
		r->result.last_completed_sheet = record->num;
	ends_job = !is_ok && (spec->stop_on_failure || r->cancel_signal);
	runner_note_result(r, record, ends_job);
	if (ends_job)
		return false;
	if (++r->sheet_index == r->options.spec->n_sheets)
		return false;
	if (r->cancel_signal) {
		runner_cancel_rest(r);
		return false;
	}
	return true;
}

static void end_try(struct runner *r)
{
	uint64_t ended_ns = runner_last_root(r)->ended_boot_ns;

	loop_timer_stop(r->timeout_timer);
	loop_timer_stop(r->grace_timer);
	loop_timer_stop(r->kill_timer);
	runner_take_terminal(r);
	runner_judge_try(r);
	r->phase = PHASE_IDLE;
	r->options.ops->sheet_ended(r->options.ctx, runner_record(r),
				    u64_known(ended_ns)
					    ? u64_max_known(ended_ns, r->last_death_boot_ns)
					    : clock_boot_ns());
	if (advance(r))
		loop_timer_set(r->step_timer, 0, 0);
	else
		finish(r);
}

/* The same moment on the boot clock. Not to be trusted if it lies far back. */
static uint64_t boot_time_of(const struct runner *r, uint64_t wall_ns)
{
	uint64_t now = clock_boot_ns(), ago = u64_delta(runner_now(r), wall_ns);

	return u64_known(ago) && ago < MAX_DEATH_AGE_NS ? now - ago : now;
}

void runner_on_children_changed(struct runner *r)
{
	bool is_busy = r->phase == PHASE_RUNNING || r->phase == PHASE_DRAINING;

	if (!is_busy || (any_root_runs(r) && !r->gave_up))
		return;
	if (r->options.leave_background && !r->is_ending) {
		/* What is first seen later would be the next sheet's, and be ended with it. */
		r->options.ops->rescan(r->options.ctx);
		end_try(r);
		return;
	}
	/* What an earlier sheet left running on purpose does not count. */
	if (r->gave_up || !(r->options.leave_background ? shows_processes(r, runner_record(r)->num)
							: runner_has_processes(r))) {
		end_try(r);
	} else if (r->phase == PHASE_RUNNING) {
		/* Most of what outlives a command is just finishing: the tee behind "exec > >(tee
		 * log)". */
		r->phase = PHASE_DRAINING;
		loop_timer_stop(r->timeout_timer);
		if (!r->is_ending)
			loop_timer_set(r->grace_timer, r->options.grace_ms, 0);
	}
}

/* ---- timers ---- */

/* A signal may have come between two tries, when there was nobody to pass it on to. */
static void on_step(void *ctx)
{
	struct runner *r = ctx;
	uint64_t wait_ms;

	if (r->cancel_signal) {
		runner_cancel_rest(r);
		finish(r);
		return;
	}
	wait_ms = r->options.ops->hold_ms(r->options.ctx);
	if (wait_ms > 0)
		loop_timer_set(r->step_timer, wait_ms, 0);
	else
		start_try(r);
}

static void on_timeout(void *ctx)
{
	struct runner *r = ctx;

	CLEANUP(buf_release) struct buf why = BUF_INIT;

	if (r->phase != PHASE_RUNNING)
		return;
	r->options.ops->time_is_up(r->options.ctx, &why, &runner_record(r)->cause);
	if (why.len > 0)
		r->doing = runner_keep_text(r, &why);
	runner_end_tree(r, STOP_TIMEOUT);
}

void runner_stop(struct runner *r, enum outcome outcome, const char *why)
{
	if (r->phase != PHASE_RUNNING || r->stop_cause != STOP_NONE)
		return;
	r->limit_outcome = outcome;
	r->doing = arena_strdup(&r->arena, why);
	runner_end_tree(r, STOP_LIMIT);
}

static void on_grace_timer(void *ctx)
{
	struct runner *r = ctx;

	if (r->phase == PHASE_DRAINING && !r->is_ending)
		r->result.n_ended_background += runner_end_tree(r, STOP_NONE);
}

static void on_kill_timer(void *ctx)
{
	struct runner *r = ctx;

	if (r->phase == PHASE_RUNNING || r->phase == PHASE_DRAINING)
		runner_kill_tree(r, STOP_NONE);
}

/* ---- reaping: commands, and the orphans that come to their subreaper, which we are ---- */

/* The next child that has ended, left as a zombie; 0 if there is none. */
static pid_t next_zombie(void)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		if (errno != EINTR)
			return 0;
	return info.si_pid;
}

static void reap_one(struct runner *r, pid_t pid)
{
	struct root *root = runner_find_root(r, pid);
	struct reaped reaped = {
		.pid = pid,
		.pre_exec_rss_bytes = root ? root->pre_exec_rss_bytes : U64_UNKNOWN,
	};
	uint64_t wall_ns;

	r->options.ops->process_ending(r->options.ctx, pid);
	if (wait4(pid, &reaped.wait_status, WNOHANG, &reaped.usage) != pid)
		return;
	wall_ns = r->options.ops->process_reaped(r->options.ctx, &reaped);
	if (!u64_known(wall_ns))
		wall_ns = runner_now(r); /* it died just now */
	r->last_death_wall_ns = u64_max_known(r->last_death_wall_ns, wall_ns);
	r->last_death_boot_ns = u64_max_known(r->last_death_boot_ns, boot_time_of(r, wall_ns));
	if (root) {
		root->is_running = false;
		root->rank.status = exit_status_from_wait(reaped.wait_status);
		root->rank.ended_wall_ns = wall_ns;
		root->ended_boot_ns = boot_time_of(r, wall_ns);
		if (runner_is_failed(root->rank.status) && !r->is_ending && any_root_runs(r))
			runner_end_tree(r, STOP_RANK_FAILED);
	}
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

void runner_reap(struct runner *r)
{
	pid_t pid;

	while ((pid = next_zombie()) > 0) {
		if (!runner_find_root(r, pid) && membership_is_stranger(r->options.members, pid)) {
			/* Our child before the job began: waited for, as init would, and no more.
			 */
			waitpid(pid, NULL, WNOHANG);
			membership_forget_stranger(r->options.members, pid);
		} else {
			reap_one(r, pid);
		}
	}
	for (size_t i = 0; i < r->n_roots; i++) {
		pid_t root_pid = r->roots[i].rank.pid;
		siginfo_t info = { 0 };
		sigset_t set;

		if (!r->roots[i].is_running)
			continue;
		if (waitid(P_PID, (id_t)root_pid, &info, WSTOPPED | WNOHANG) < 0 ||
		    info.si_pid == 0)
			continue;
		if (!is_to_be_followed(r, info.si_status))
			continue;
		r->options.ops->stopped(r->options.ctx, true);
		/* The signal is blocked, as signal_fd reads it otherwise: we stop until continued.
		 */
		sigemptyset(&set);
		sigaddset(&set, info.si_status);
		raise(info.si_status);
		sigprocmask(SIG_UNBLOCK, &set, NULL); /* here we stop, and here we go on */
		sigprocmask(SIG_BLOCK, &set, NULL);
		r->options.ops->stopped(r->options.ctx, false);
	}
	runner_on_children_changed(r);
}
