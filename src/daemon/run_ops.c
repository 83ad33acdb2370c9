#include "daemon/run_ops.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unknown.h"
#include "daemon/record.h"
#include "daemon/run_clock.h"
#include "daemon/run_counting.h"
#include "daemon/run_internal.h"
#include "daemon/run_life.h"
#include "daemon/run_tick.h"

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
	return hold_ask_ms(&run->hold, run->attempt->job_id);
}

static void on_sheet_started(void *ctx, const struct sheet_record *sheet)
{
	struct run *run = ctx;

	run->attempt->current_sheet = sheet->num;
	sources_read_oom(run->root_fd, &run->oom_before);
	tally_begin_sheet(run->tally, clock_boot_ns(), !runner_has_processes(run->runner));
	record_sheet_soon(run);
	run_start_ticks(run);
	run_tell_progress(run, PROGRESS_RUNNING);
}

/* Nothing of the command has run, and nothing of it is missed. */
static void on_process_held(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	if (run->asks_daemon)
		run_counting_ask(run);
	if (run->calls)
		run_calls_begin(run->calls, pid);
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

	tally_root(run->tally, &birth);
}

/* Its birth and death wait in the queue by now: let them pass unheeded. */
static void on_process_failed(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	run->failed_pid = pid;
	run_life_drain(run);
	run->failed_pid = 0;
}

static void on_process_ending(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	run_life_drain(run);
	sources_read_ending(run->root_fd, pid, &run->zombie);
	run->leaves_out_threads = settler_is_working(run->settler);
	sources_read_waited_io(run->root_fd, run->leaves_out_threads, &run->waited);
	run->zombie.sheet_num = run_current_sheet(run);
}

/* What waiting for the zombie has added to our account. */
static void take_io(struct run *run)
{
	struct io_counts now;

	sources_read_waited_io(run->root_fd, run->leaves_out_threads, &now);
	run->zombie.rchar = u64_delta(now.rchar, run->waited.rchar);
	run->zombie.wchar = u64_delta(now.wchar, run->waited.wchar);
	run->zombie.syscr = u64_delta(now.syscr, run->waited.syscr);
	run->zombie.syscw = u64_delta(now.syscw, run->waited.syscw);
	run->zombie.read_bytes = u64_delta(now.read_bytes, run->waited.read_bytes);
	run->zombie.write_bytes = u64_delta(now.write_bytes, run->waited.write_bytes);
}

static uint64_t on_process_reaped(void *ctx, const struct reaped *reaped)
{
	struct run *run = ctx;

	take_io(run);
	membership_exit(run->members, reaped->pid, getpid());
	return tally_reap(run->tally, reaped, &run->zombie, run_now(run), clock_boot_ns());
}

static void on_process_signalled(void *ctx, pid_t pid, int sig, uint64_t wall_ns)
{
	struct run *run = ctx;

	if (sig != SIGCONT)
		tally_signal(run->tally, pid, run_current_sheet(run), sig, wall_ns);
}

/* The job held a good part of the memory, or there was hardly any left, when it was last seen. */
static bool was_short_of_memory(const struct run *run)
{
	const struct system_sample *sys = &run->snap.system;
	uint64_t total = sys->memory_total_bytes, rss = run->last_point.rss_bytes;

	if (!u64_known(total))
		return false;
	return (u64_known(rss) && rss > total / 4) ||
	       (u64_known(sys->memory_available_bytes) && sys->memory_available_bytes < total / 10);
}

/*
 * The count of our own cgroup is about the job. That of the host is about anybody, so it takes
 * more: the word of a daemon, who hears of each kill, as the job may stand in a cgroup of its own;
 * or else it is called a guess.
 */
static bool on_was_oom_kill(void *ctx, pid_t pid, struct buf *why)
{
	struct run *run = ctx;
	struct oom_counts now;
	uint64_t here, host;
	bool is_oom;

	sources_read_oom(run->root_fd, &now);
	here = u64_delta(now.cgroup, run->oom_before.cgroup);
	host = u64_delta(now.host, run->oom_before.host);
	if (u64_known(here) && here > 0) {
		buf_printf(why, "its cgroup's count of out-of-memory kills rose by %llu",
			   (unsigned long long)here);
		is_oom = true;
	} else if (u64_known(host) && host > 0 && link_saw_oom_kill(run->link, pid, why)) {
		return true; /* which it writes down */
	} else if (u64_known(host) && host > 0) {
		is_oom = was_short_of_memory(run);
		buf_printf(
			why,
			is_oom ? "probably out of memory: the host's count of such kills rose by %llu, "
				 "and memory was short"
			       : "the host's count of out-of-memory kills rose by %llu meanwhile, which "
				 "need not be this job's",
			(unsigned long long)host);
	} else {
		return false;
	}
	if (is_oom)
		tally_oom(run->tally, pid, run_current_sheet(run), why->data, run_now(run));
	return is_oom;
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
	run->ended_boot_ns = boot_ns;
	tally_end_sheet(run->tally, boot_ns, !runner_has_processes(run->runner), &sheet->usage);
	if (sheet->outcome == OUTCOME_SUCCESS) {
		run->done_sheets++;
		run->attempt->last_completed_sheet = sheet->num;
	}
	run->attempt->current_sheet = SHEET_NONE;
	record_sheet_soon(run);
	run_tell_progress(run, PROGRESS_RUNNING);
}

/* The shell is to find its terminal as it was. */
static void on_stopping(void *ctx)
{
	run_tell_progress(ctx, PROGRESS_PAUSED);
}

static void on_continued(void *ctx)
{
	run_tell_progress(ctx, PROGRESS_RUNNING);
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
	.process_failed = on_process_failed,
	.process_ending = on_process_ending,
	.process_reaped = on_process_reaped,
	.was_oom_kill = on_was_oom_kill,
	.rescan = on_rescan,
	.process_signalled = on_process_signalled,
	.sheet_ended = on_sheet_ended,
	.stopping = on_stopping,
	.continued = on_continued,
	.finished = on_finished,
};
