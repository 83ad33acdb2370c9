#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "recorder/run_internal.h"

/* ---- births and deaths, as the kernel reports them ---- */

static void on_fork_event(struct run *run, const struct life_event *ev)
{
	struct birth birth = {
		.pid = ev->pid,
		.ppid = ev->parent_pid,
		.wall_ns = run_time_of(run, ev->wall_ns),
		.uid = U64_UNKNOWN,
	};
	const struct proc_key key = { ev->pid, U64_UNKNOWN };
	const struct job_member *member =
		membership_start(run->members, ev->parent_pid, &key, ev->wall_ns, NULL);

	if (!member)
		return;
	run->births.has_own = true;
	birth.sheet_num = member->sheet_num;
	birth.rank = member->rank;
	tally_birth(run->tally, &birth, false);
}

static void on_exec_event(struct run *run, const struct life_event *ev)
{
	CLEANUP(buf_release) struct buf command = BUF_INIT;
	bool is_read;

	if (!membership_find(run->members, ev->pid))
		return;
	run->births.has_own = true;
	is_read = sources_read_command(run->root_fd, ev->pid, run->options->mask, &command) == 0;
	tally_exec(run->tally, ev->pid, is_read ? command.data : NULL);
}

/* An end, or an account that comes after it. */
static void on_end_event(struct run *run, const struct life_event *ev)
{
	CLEANUP(arena_release) struct arena arena = ARENA_INIT;
	struct proc_record end;

	if (ev->type == LIFE_EXIT && !membership_exit(run->members, ev->pid, ev->parent_pid))
		return;
	run->births.has_own |= ev->type == LIFE_EXIT;
	death_read(ev, run->options->mask, &arena, &end);
	end.died_wall_ns = run_time_of(run, end.died_wall_ns);
	tally_merge_end(run->tally, &end, false);
}

static void on_life_event(void *ctx, const struct life_event *ev)
{
	struct run *run = ctx;

	run->births.has_any = true;
	if (ev->pid == run->births.failed_pid)
		return;
	switch (ev->type) {
	case LIFE_FORK:
		on_fork_event(run, ev);
		return;
	case LIFE_EXEC:
		on_exec_event(run, ev);
		return;
	case LIFE_EXIT:
	case LIFE_ACCOUNT:
		on_end_event(run, ev);
		return;
	default:
		return; /* the rung that a run takes has no others */
	}
}

static void stop_life(struct run *run)
{
	run->births.watch = loop_fd_close(run->births.watch);
	run->births.life = life_close(run->births.life);
	run->births.forget_missing = true;
}

void run_life_drain(struct run *run)
{
	int64_t lost;

	if (!run->births.life)
		return;
	lost = life_drain(run->births.life, SIZE_MAX, on_life_event, run);
	if (lost == 0)
		return;
	tally_lost(run->tally, lost > 0 ? (uint64_t)lost : 1);
	run->births.forget_missing = true;
	if (lost < 0) {
		err_set(&run->births.err, (int)lost, "the kernel's news of births ended: %s",
			strerror((int)-lost));
		stop_life(run);
	}
}

/* The kernel reports all of the host, and to be woken for each costs more than a tick. Where none
 * is of the job, what comes within this time is taken together. */
#define GATHER_MS 20

static void take_life(struct run *run, bool is_woken)
{
	bool is_gathered;

	run->births.has_own = run->births.has_any = false;
	run_life_drain(run);
	record_events_soon(run);
	if (!run->births.watch)
		return;
	is_gathered = !run->births.has_own && (is_woken || run->births.has_any);
	loop_fd_set_interest(run->births.watch, is_gathered ? 0 : LOOP_READABLE);
	if (is_gathered)
		loop_timer_set(run->births.timer, GATHER_MS, 0);
}

static void on_life_fd(void *ctx)
{
	take_life(ctx, true);
}

/* On a busy host there is always something. */
static void on_gathered(void *ctx)
{
	take_life(ctx, false);
}

static void add_masked_lines(struct buf *out, const struct mask *mask, const char *text)
{
	struct failed_call call;

	while (failed_call_next(&text, &call)) {
		CLEANUP(buf_release) struct buf object = BUF_INIT;

		buf_add(&object, call.object, call.object_len);
		buf_printf(out, "%s %s %" PRIu64 " ", call.call, call.error, call.before_end_ms);
		if (object.len > 0)
			mask_command(mask, object.data, object.len + 1, out);
		buf_add_char(out, '\n');
	}
}

/* What we hear ourselves comes first: an end that the daemon knows more of is known by then. */
void run_take_facts(void *ctx, const struct link_facts *facts)
{
	struct run *run = ctx;

	run_life_drain(run);
	for (size_t i = 0; i < facts->n_ends; i++) {
		CLEANUP(buf_release) struct buf calls = BUF_INIT, tail = BUF_INIT;
		struct proc_record end = facts->ends[i];

		if (end.failed_calls) { /* by the mask of the user, too */
			add_masked_lines(&calls, run->options->mask, end.failed_calls);
			end.failed_calls = calls.data;
		}
		if (end.stderr_tail && run->options->captures)
			mask_lines(run->options->mask, end.stderr_tail, strlen(end.stderr_tail),
				   &tail);
		end.stderr_tail = tail.len > 0 ? tail.data : NULL;
		end.died_wall_ns = run_time_of(run, end.died_wall_ns);
		if (end.key.pid != run->births.failed_pid)
			tally_merge_end(run->tally, &end, true);
	}
	for (size_t i = 0; i < facts->n_events; i++) {
		struct proc_event ev = facts->events[i];

		ev.wall_ns = run_time_of(run, ev.wall_ns);
		ev.sheet_num = run_current_sheet(run);
		tally_merge_signal(run->tally, &ev);
	}
	record_events_soon(run);
}

void run_life_open(struct run *run)
{
	run->births.forget_missing = true;
	if (life_open_with(NULL, &run->births.life, &run->births.err) < 0)
		return;
	run->births.watch = loop_watch_fd(run->loop, life_fd(run->births.life), on_life_fd, run);
	run->births.timer = loop_timer_new(run->loop, on_gathered, run);
	if (run->births.watch && run->births.timer) {
		run->births.forget_missing = false;
		return;
	}
	err_set(&run->births.err, -ENOMEM, "out of memory");
	stop_life(run);
}

/* ---- what the runner reports ---- */

void run_read_oom(const struct run *run, struct oom_counts *ret)
{
	uint64_t own;

	sources_read_oom(run->root_fd, ret);
	own = run->containing.cgroup ? job_cgroup_count_oom(run->containing.cgroup) : U64_UNKNOWN;
	if (u64_known(own))
		ret->cgroup = own;
}

static uint64_t on_now(void *ctx)
{
	return run_now(ctx);
}

/* What somebody runs at a terminal is not held up; and before the first sheet the queue has done
 * so. */
static uint64_t on_hold(void *ctx)
{
	struct run *run = ctx;
	size_t n_begun;

	runner_sheets(run->runner, &n_begun);
	if (!run->options->is_submitted || n_begun == 0)
		return 0;
	return link_hold_ms(run->link, &run->hold);
}

static void on_sheet_started(void *ctx, const struct sheet_record *sheet)
{
	struct run *run = ctx;

	run->attempt->current_sheet = sheet->num;
	run->n_waits = 0;
	run_read_oom(run, &run->ending.oom_before);
	tally_begin_sheet(run->tally, clock_boot_ns(), !runner_has_processes(run->runner));
	record_sheet_soon(run);
	run_start_ticks(run);
	run_show_progress(run, PROGRESS_RUNNING);
}

/* Nothing of the command has run, and nothing of it is missed. */
static void on_process_held(void *ctx, pid_t pid)
{
	run_counting_begin(ctx, pid);
}

static void on_cgroup_failed(void *ctx)
{
	struct run *run = ctx;

	err_set(&run->containing.err, -EPERM,
		"the kernel has kept a command out of the job's cgroup");
	run->containing.watched = run->options->spec->limits;
	run->containing.cgroup = job_cgroup_free(run->containing.cgroup);
	run_read_oom(run, &run->ending.oom_before); /* of the caller's cgroup from now on */
}

static void on_process_started(void *ctx, pid_t pid, int sheet_num, int rank, uint64_t wall_ns)
{
	struct run *run = ctx;
	struct birth birth = {
		.pid = pid,
		.ppid = getpid(),
		.sheet_num = sheet_num,
		.rank = rank,
		.wall_ns = wall_ns,
		.command = runner_current_sheet(run->runner)->command,
		.uid = geteuid(),
	};

	tally_birth(run->tally, &birth, true);
	record_events_soon(run);
}

/* Its birth and death wait in the queue by now: let them pass unheeded. */
static void on_process_failed(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	run->births.failed_pid = pid;
	run_life_drain(run);
	run->births.failed_pid = 0;
}

static void on_process_ending(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	run_life_drain(run);
	sources_read_ending(run->root_fd, pid, &run->ending.zombie);
	run->ending.leaves_out_threads = attempt_log_is_syncing(run->job.log);
	sources_read_waited_io(run->root_fd, run->ending.leaves_out_threads, &run->ending.waited);
	run->ending.zombie.sheet_num = run_current_sheet(run);
}

/* What waiting for the zombie has added to our account. */
static void take_io(struct run *run)
{
	struct io_counts now;

	sources_read_waited_io(run->root_fd, run->ending.leaves_out_threads, &now);
	run->ending.zombie.rchar = u64_delta(now.rchar, run->ending.waited.rchar);
	run->ending.zombie.wchar = u64_delta(now.wchar, run->ending.waited.wchar);
	run->ending.zombie.syscr = u64_delta(now.syscr, run->ending.waited.syscr);
	run->ending.zombie.syscw = u64_delta(now.syscw, run->ending.waited.syscw);
	run->ending.zombie.read_bytes = u64_delta(now.read_bytes, run->ending.waited.read_bytes);
	run->ending.zombie.write_bytes = u64_delta(now.write_bytes, run->ending.waited.write_bytes);
}

static uint64_t on_process_reaped(void *ctx, const struct reaped *reaped)
{
	struct run *run = ctx;

	take_io(run);
	membership_exit(run->members, reaped->pid, getpid());
	record_events_soon(run);
	return tally_reap(run->tally, reaped, &run->ending.zombie, run_now(run), clock_boot_ns());
}

static void on_process_signalled(void *ctx, pid_t pid, int sig, uint64_t wall_ns)
{
	CLEANUP(buf_release) struct buf details = BUF_INIT;
	struct run *run = ctx;

	if (sig != SIGCONT) {
		buf_add_str(&details, EVENT_BY_PROCTOR);
		if (sig == SIGTERM)
			explain_signalled(run, pid, &details);
		tally_signal(run->tally, pid, run_current_sheet(run), sig, details.data, wall_ns);
	}
	record_events_soon(run);
}

static void on_time_is_up(void *ctx, struct buf *why, struct cause *ret)
{
	struct run *run = ctx;

	if (run_scan(run, true))
		explain_time_limit(run, why, ret);
}

static enum outcome on_explain_failure(void *ctx, pid_t pid, struct exit_status status,
				       struct buf *why, struct cause *ret)
{
	struct run *run = ctx;

	run_life_drain(run);
	return explain_failure(run, pid, status, run_now(run), why, ret);
}

static void on_name_sender(void *ctx, pid_t pid, char *text, size_t size)
{
	explain_sender(ctx, pid, text, size);
}

static size_t on_kill_rest(void *ctx)
{
	struct run *run = ctx;
	int n = run->containing.cgroup ? job_cgroup_kill(run->containing.cgroup) : 0;

	return n > 0 ? (size_t)n : 0;
}

/* Before signals are sent, no trust in news alone. */
static void on_rescan(void *ctx)
{
	run_scan(ctx, true);
}

static void on_sheet_ended(void *ctx, struct sheet_record *sheet, uint64_t boot_ns)
{
	struct run *run = ctx;

	run_life_drain(run);
	loop_timer_stop(run->tick_timer);
	run->feed.is_steady = false;
	run->ended_boot_ns = boot_ns;
	explain_kills(run, sheet, run_now(run));
	tally_end_sheet(run->tally, boot_ns, !runner_has_processes(run->runner), &sheet->usage);
	if (sheet->outcome == OUTCOME_SUCCESS) {
		run->done_sheets++;
		run->attempt->last_completed_sheet = sheet->num;
	}
	run->attempt->current_sheet = SHEET_NONE;
	record_sheet_soon(run);
	run_show_progress(run, PROGRESS_RUNNING);
}

/* The shell is to find its terminal as it was. */
static void on_stopped(void *ctx, bool is_stopped)
{
	run_show_progress(ctx, is_stopped ? PROGRESS_PAUSED : PROGRESS_RUNNING);
}

static void on_finished(void *ctx)
{
	struct run *run = ctx;

	loop_stop(run->loop);
}

const struct runner_ops run_ops = {
	.now = on_now,
	.hold_ms = on_hold,
	.sheet_started = on_sheet_started,
	.process_held = on_process_held,
	.process_started = on_process_started,
	.cgroup_failed = on_cgroup_failed,
	.process_failed = on_process_failed,
	.process_ending = on_process_ending,
	.process_reaped = on_process_reaped,
	.time_is_up = on_time_is_up,
	.explain_failure = on_explain_failure,
	.name_sender = on_name_sender,
	.rescan = on_rescan,
	.kill_rest = on_kill_rest,
	.process_signalled = on_process_signalled,
	.sheet_ended = on_sheet_ended,
	.stopped = on_stopped,
	.finished = on_finished,
};
