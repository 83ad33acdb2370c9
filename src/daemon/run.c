#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "base/file_limit.h"
#include "daemon/late_word.h"
#include "daemon/run_internal.h"

/*
 * A sheet's first samples come quickly and then more slowly, each after a tenth
 * of the time it has run, up to the interval: so a sheet of a second has a curve
 * too. Until then the looking may cost no more than a fiftieth of a core.
 */
#define FIRST_TICK_MS 20
#define TICK_PER_ELAPSED 10
#define TICK_COST_LIMIT 50

/* ---- time ---- */

/*
 * The wall clock as it was when the run began, gone on with the boot clock: what
 * is recorded stays in order and keeps its distances when the clock is set.
 */
static uint64_t run_now(const struct run *run)
{
	return run->attempt->started_wall_ns + (clock_boot_ns() - run->boot_ns);
}

/* A moment of the wall clock of now, on the run's. */
static uint64_t run_time_of(const struct run *run, uint64_t wall_ns)
{
	return u64_known(wall_ns) ? wall_ns + (run_now(run) - clock_wall_ns()) : U64_UNKNOWN;
}

static uint64_t on_now(void *ctx)
{
	return run_now(ctx);
}

/* ---- births and deaths ---- */

static void on_fork_event(struct run *run, const struct life_event *ev)
{
	struct birth birth = {
		.pid = ev->pid,
		.ppid = ev->parent_pid,
		.wall_ns = run_time_of(run, ev->wall_ns),
		.uid = U64_UNKNOWN,
	};
	const struct tree_member *member;

	if (!tree_on_fork(run->tree, ev->parent_pid, ev->pid))
		return;
	member = tree_find(run->tree, ev->pid);
	birth.sheet_num = member->sheet_num;
	birth.rank = member->rank;
	tally_fork(run->tally, &birth);
}

static void on_exec_event(struct run *run, const struct life_event *ev)
{
	CLEANUP(buf_release) struct buf command = BUF_INIT;
	bool is_read;

	if (!tree_find(run->tree, ev->pid))
		return;
	is_read = sources_read_command(run->root_fd, ev->pid, run->options->mask, &command) == 0;
	tally_exec(run->tally, ev->pid, is_read ? command.data : NULL);
}

static void on_exit_event(struct run *run, const struct life_event *ev)
{
	if (!tree_on_exit(run->tree, ev->pid, ev->parent_pid))
		return;
	tally_account(run->tally, ev->pid, &ev->account);
	tally_exit(run->tally, ev->pid, ev->wait_status, run_time_of(run, ev->wall_ns));
}

static void on_life_event(void *ctx, const struct life_event *ev)
{
	struct run *run = ctx;

	if (ev->pid == run->failed_pid)
		return;
	switch (ev->type) {
	case LIFE_FORK:
		on_fork_event(run, ev);
		return;
	case LIFE_EXEC:
		on_exec_event(run, ev);
		return;
	case LIFE_EXIT:
		on_exit_event(run, ev);
		return;
	case LIFE_ACCOUNT:
		tally_account(run->tally, ev->pid, &ev->account);
		return;
	default:
		return; /* the rung that a run takes has no others */
	}
}

static void stop_life(struct run *run)
{
	run->life_watch = loop_fd_close(run->life_watch);
	run->life = life_close(run->life);
	run->forget_missing = true;
}

static void drain_life(struct run *run)
{
	int64_t lost;

	if (!run->life)
		return;
	lost = life_drain(run->life, on_life_event, run);
	if (lost == 0)
		return;
	tally_lost(run->tally, lost > 0 ? (uint64_t)lost : 1);
	run->forget_missing = true;
	if (lost < 0) {
		err_set(&run->life_err, (int)lost, "the kernel's news of births ended: %s",
			strerror((int)-lost));
		stop_life(run);
	}
}

static void on_life_fd(void *ctx)
{
	drain_life(ctx);
}

static void open_life(struct run *run)
{
	run->forget_missing = true;
	if (life_open(&run->life, &run->life_err) < 0)
		return;
	run->life_watch = loop_watch_fd(run->loop, life_fd(run->life), on_life_fd, run);
	if (run->life_watch) {
		run->forget_missing = false;
		return;
	}
	err_set(&run->life_err, -ENOMEM, "out of memory");
	stop_life(run);
}

/* ---- one tick ---- */

/*
 * Where the kernel has told of every birth, the members are all there is to look
 * at, and a job on a host with ten thousand processes costs no more than at home.
 * Else everybody's parents have to be looked at.
 */
static int look(struct run *run, bool at_all, struct err *err)
{
	size_t n;
	const pid_t *pids = tree_pids(run->tree, &n);

	if (at_all || run->forget_missing || !pids)
		return collector_scan(run->collector, &run->snap, err);
	return collector_scan_some(run->collector, pids, n, &run->snap, err);
}

/* Which processes there are, and which of them are ours. */
static bool scan(struct run *run, bool at_all)
{
	enum tree_missing missing;
	struct err err = ERR_INIT;
	int r;

	drain_life(run);
	if (!run->collector)
		return false;
	missing = run->forget_missing ? TREE_FORGET_MISSING : TREE_KEEP_ONCE;
	r = look(run, at_all, &err);
	if (r == 0 && tree_assign(run->tree, &run->snap, missing) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	if (r < 0 && !run->scan_failed)
		log_error("cannot look at the job's processes: %s", err.text);
	if (r < 0) {
		run->scan_failed = true;
		return false;
	}
	run->forget_missing = !run->life;
	run->snap.wall_ns = run_time_of(run, run->snap.wall_ns);
	return true;
}

static int current_sheet_num(const struct run *run)
{
	const struct sheet_record *sheet = runner_current_sheet(run->runner);

	return sheet ? sheet->num : SHEET_NONE;
}

/* Two neighbours of one sheet become one, with the higher values of both. */
static void thin_series(struct run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n_series; i++) {
		struct series_point *p = &run->series[i], *last = n ? &run->series[n - 1] : NULL;

		if (!last || i % 2 == 0 || last->sheet_num != p->sheet_num) {
			run->series[n++] = *p;
			continue;
		}
		last->rss_bytes = u64_max_known(last->rss_bytes, p->rss_bytes);
		last->cpu_percent = fmax(last->cpu_percent, p->cpu_percent);
		last->n_processes = u64_max_known(last->n_processes, p->n_processes);
	}
	run->n_series = n;
}

static void keep_point(struct run *run, const struct series_point *point)
{
	run->last_point = *point;
	if (run->n_series == SERIES_MAX_POINTS)
		thin_series(run);
	if (run->n_series == run->cap_series) {
		size_t cap = run->cap_series ? run->cap_series * 2 : 256;
		struct series_point *grown = reallocarray(run->series, cap, sizeof(*grown));

		if (!grown)
			return;
		run->series = grown;
		run->cap_series = cap;
	}
	run->series[run->n_series++] = *point;
}

static void tell_progress(struct run *run, enum progress_state state)
{
	struct run_progress progress = {
		.sheet = runner_current_sheet(run->runner),
		.total_sheets = (int)run->options->spec->n_sheets,
		.done_sheets = run->done_sheets,
		.elapsed_ns = clock_boot_ns() - run->boot_ns,
		.rss_bytes = run->last_point.rss_bytes,
		.cpu_percent = run->last_point.cpu_percent,
		.state = state,
	};

	if (run->options->progress)
		run->options->progress(run->options->progress_ctx, &progress);
}

/* Of the jobs in this snapshot, which is one. */
static void tell_own_job(struct run *run)
{
	struct snapshot *s = &run->snap;
	const struct attempt *a = run->attempt;

	s->running_jobs = 1;
	s->active_sheets = a->current_sheet != SHEET_NONE;
	s->progress = arena_alloc(&s->arena, sizeof(*s->progress));
	if (!s->progress)
		return;
	s->n_progress = 1;
	s->progress[0] = (struct job_progress){
		.job_id = a->job_id,
		.total_sheets = a->total_sheets,
		.last_completed_sheet = a->last_completed_sheet,
		.current_sheet = a->current_sheet,
		.status = attempt_status_name(a),
	};
}

/* Collect, assign to the job, add up, store, show. */
static void run_tick(struct run *run)
{
	struct series_point point;

	runner_look_after(run->runner);
	if (scan(run, false)) {
		collector_fill(run->collector, &run->snap, SNAPSHOT_JOBS);
		if (run->calls)
			run_calls_fill(run->calls, &run->snap);
		tally_snapshot(run->tally, &run->snap, current_sheet_num(run), &point);
		keep_point(run, &point);
		tell_own_job(run);
		record_tick(run, &point);
	}
	tell_progress(run, PROGRESS_RUNNING);
}

static uint64_t next_tick_ms(const struct run *run, uint64_t cost_ns)
{
	uint64_t interval_ms = (uint64_t)(run->options->interval_seconds * 1000.0);
	uint64_t elapsed_ms = (clock_boot_ns() - run->sheet_boot_ns) / 1000000u;
	uint64_t afford_ms = cost_ns * TICK_COST_LIMIT / 1000000u;
	uint64_t delay_ms = elapsed_ms / TICK_PER_ELAPSED;
	uint64_t closer_ms = closer_wait_ms(&run->closer, 0);

	if (delay_ms < FIRST_TICK_MS)
		delay_ms = FIRST_TICK_MS;
	if (closer_is_on(&run->closer, clock_boot_ns()) && delay_ms > closer_ms)
		delay_ms = closer_ms;
	if (delay_ms < afford_ms)
		delay_ms = afford_ms;
	return delay_ms < interval_ms ? delay_ms : interval_ms;
}

static void on_tick_timer(void *ctx)
{
	struct run *run = ctx;
	uint64_t before_ns = clock_cpu_ns();

	run_tick(run);
	loop_timer_set(run->tick_timer, next_tick_ms(run, clock_cpu_ns() - before_ns), 0);
}

static void start_ticks(struct run *run)
{
	run->sheet_boot_ns = clock_boot_ns();
	loop_timer_set(run->tick_timer, FIRST_TICK_MS, 0);
}

/* ---- what the runner tells ---- */

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
	start_ticks(run);
	tell_progress(run, PROGRESS_RUNNING);
}

/* Somebody who has asked for one way hears at once that it cannot be. */
static void warn_uncounted(const struct run *run)
{
	enum run_syscalls_how how = run->options->syscalls.how;

	if (!run->calls && (how == RUN_SYSCALLS_EBPF || how == RUN_SYSCALLS_STRACE))
		log_warning("system calls are not counted, and the job goes on: %s",
			    run->calls_err.text);
}

/* It may where we may not, and costs less than strace. */
static void ask_daemon(struct run *run)
{
	struct err err = ERR_INIT, why = ERR_INIT;

	run->asks_daemon = false;
	run->is_daemon_asked = record_ask_to_count(run, &err) == 0;
	if (run->is_daemon_asked) {
		run->calls = run_calls_close(run->calls);
		return;
	}
	if (!run->calls && err.code != -ENOENT) /* a daemon there is */
		err_set(&why, run->calls_err.code, "%.250s; %.200s", run->calls_err.text, err.text);
	if (why.code != 0)
		run->calls_err = why;
	warn_uncounted(run);
}

/* Nothing of the command has run, and nothing of it is missed. */
static void on_process_held(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	if (run->asks_daemon)
		ask_daemon(run);
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
	drain_life(run);
	run->failed_pid = 0;
}

static void on_process_ending(void *ctx, pid_t pid)
{
	struct run *run = ctx;

	drain_life(run);
	sources_read_ending(run->root_fd, pid, &run->zombie);
	sources_read_waited_io(run->root_fd, &run->waited);
	run->zombie.sheet_num = current_sheet_num(run);
}

/* What waiting for the zombie has added to our account. */
static void take_io(struct run *run)
{
	struct io_counts now;

	sources_read_waited_io(run->root_fd, &now);
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
	tree_on_exit(run->tree, reaped->pid, getpid());
	return tally_reap(run->tally, reaped, &run->zombie, run_now(run), clock_boot_ns());
}

static void on_process_signalled(void *ctx, pid_t pid, int sig, uint64_t wall_ns)
{
	struct run *run = ctx;

	if (sig != SIGCONT)
		tally_signal(run->tally, pid, current_sheet_num(run), sig, wall_ns);
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
 * The count of our own cgroup is about the job. That of the host is about anybody,
 * so it takes more, and is called a guess.
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
		tally_oom(run->tally, pid, current_sheet_num(run), why->data, run_now(run));
	return is_oom;
}

/* Before signals are sent, no trust in news alone. */
static void on_rescan(void *ctx)
{
	scan(ctx, true);
}

static void on_sheet_ended(void *ctx, struct sheet_record *sheet, uint64_t boot_ns)
{
	struct run *run = ctx;

	drain_life(run);
	loop_timer_stop(run->tick_timer);
	run->ended_boot_ns = boot_ns;
	tally_end_sheet(run->tally, boot_ns, !runner_has_processes(run->runner), &sheet->usage);
	if (sheet->outcome == OUTCOME_SUCCESS) {
		run->done_sheets++;
		run->attempt->last_completed_sheet = sheet->num;
	}
	run->attempt->current_sheet = SHEET_NONE;
	record_sheet_soon(run);
	tell_progress(run, PROGRESS_RUNNING);
}

/* The shell is to find its terminal as it was. */
static void on_stopping(void *ctx)
{
	tell_progress(ctx, PROGRESS_PAUSED);
}

static void on_continued(void *ctx)
{
	tell_progress(ctx, PROGRESS_RUNNING);
}

static void on_finished(void *ctx)
{
	struct run *run = ctx;

	loop_stop(run->loop);
}

static const struct runner_ops run_ops = {
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

/* ---- set-up ---- */

/* Comes after the first command was started: recording never delays it. */
static void on_record_timer(void *ctx)
{
	record_now(ctx);
}

static void on_drain_timer(void *ctx)
{
	record_waiting(ctx);
}

static void tell_background(const struct runner_result *result)
{
	size_t n = result->n_ended_background;

	if (n > 0)
		log_warning("%zu background %s still running when the command ended and %s ended "
			    "(--leave-background keeps them)",
			    n, n == 1 ? "process was" : "processes were", n == 1 ? "was" : "were");
}

/* Without /proc there are no samples; statuses, CPU time and the kernel's marks are there still. */
static void open_sources(struct run *run)
{
	struct collector_options options = { .root_fd = run->root_fd,
					     .mask = run->options->mask,
					     .gpus = run->gpus };
	struct err err = ERR_INIT;

	open_life(run);
	if (collector_new(&options, &run->collector, &err) < 0) {
		log_error("the job cannot be sampled: %s", err.text);
		run->collector = NULL;
	}
}

/* Before we become the one that processes without a parent fall to: its process is not the job's.
 */
static void open_gpus(struct run *run)
{
	const struct gpus_options options = { .root_fd = run->root_fd,
					      .interval_seconds = run->options->interval_seconds };
	struct err err = ERR_INIT;

	if (run->options->reads_gpus && gpus_open(&options, &run->gpus, &err) < 0)
		log_warning("GPUs are not read: %s", err.text);
}

/* A shell may have started helpers before it became us by exec: they are not the job's. */
static void note_strangers(struct run *run)
{
	struct err err = ERR_INIT;

	if (!runner_has_children() || !run->collector)
		return;
	if (collector_scan(run->collector, &run->snap, &err) == 0)
		tree_note_strangers(run->tree, &run->snap);
}

/* By whom nobody has said: by a daemon, or by strace if the configuration wants that. */
static bool counts_calls(const struct run_syscalls *o)
{
	return o->how == RUN_SYSCALLS_DEFAULT ? o->may_strace : o->how != RUN_SYSCALLS_OFF;
}

static void open_calls(struct run *run)
{
	const struct run_syscalls *o = &run->options->syscalls;

	if (o->how == RUN_SYSCALLS_OFF) {
		err_set(&run->calls_err, -EOPNOTSUPP, "--syscalls=off");
		return;
	}
	if (!counts_calls(o)) {
		err_set(&run->calls_err, -EOPNOTSUPP,
			"a run counts them only if asked to (--syscalls); a daemon of root does");
		return;
	}
	run_calls_open(o, run->tree, &run->calls, &run->calls_err);
	run->asks_daemon =
		o->how != RUN_SYSCALLS_STRACE && (!run->calls || run_calls_traces(run->calls));
	if (!run->asks_daemon)
		warn_uncounted(run);
}

static int open_runner(struct run *run, struct err *err)
{
	const struct run_options *o = run->options;
	struct runner_options options = {
		.spec = o->spec,
		.mask = o->mask,
		.hides_commands = o->is_submitted && !o->db_path,
		.inherited = &run->inherited,
		.leave_background = o->leave_background,
		.grace_ms = (uint64_t)(o->grace_seconds * 1000.0),
		.kill_after_ms = (uint64_t)(o->kill_after_seconds * 1000.0),
		.ops = &run_ops,
		.ctx = run,
	};

	run->tree = tree_new(o->spec->job_id, getpid());
	options.tree = run->tree;
	if (!run->tree)
		return err_set(err, -ENOMEM, "out of memory");
	open_calls(run);
	options.is_traceable = run_calls_traces(run->calls);
	options.holds_commands = run->calls || run->asks_daemon;
	return runner_new(run->loop, &options, &run->runner, err);
}

static int open_run(struct run *run, struct err *err)
{
	int r;

	inherited_note(&run->inherited); /* before anything is changed */
	file_limit_raise(NULL);
	run->loop = loop_new();
	if (!run->loop)
		return err_set(err, -ENOMEM, "cannot make an event loop");
	run->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run->root_fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	open_gpus(run);
	phase_box_open(&run->phases);
	r = open_runner(run, err);
	if (r < 0)
		return r;
	open_sources(run);
	note_strangers(run);
	run->tally = tally_new(run->options->spec->job_id, run->life != NULL);
	run->tick_timer = loop_timer_new(run->loop, on_tick_timer, run);
	run->link = link_new(run->loop);
	run->upkeep = upkeep_new(run->loop, run->options->retention, run->options->jsonl_path);
	run->detect = detect_new(run->options->anomaly, DETECT_ALL);
	if (run->options->jsonl_path)
		run->jsonl = jsonl_new(run->options->jsonl_path, run->options->jsonl_max_bytes);
	if (run->jsonl)
		jsonl_set_patience(run->jsonl, LOOP_PATIENCE_MS);
	run->record_timer = loop_timer_new(run->loop, on_record_timer, run);
	run->drain_timer = loop_timer_new(run->loop, on_drain_timer, run);
	if (!run->tally || !run->tick_timer || !run->record_timer || !run->drain_timer ||
	    !run->link || !run->upkeep || !run->detect)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void close_run(struct run *run)
{
	run->store = store_close(run->store);
	backlog_release(&run->backlog);
	unsaved_release(&run->unsaved);
	phase_box_close(&run->phases);
	run->jsonl = jsonl_free(run->jsonl);
	run->link = link_free(run->link);
	hold_release(&run->hold);
	run->upkeep = upkeep_free(run->upkeep);
	run->detect = detect_free(run->detect);
	loop_fd_close(run->life_watch);
	run->life = life_close(run->life);
	run->runner = runner_free(run->runner);
	run->loop = loop_free(run->loop);
	run->calls = run_calls_close(run->calls);
	run->collector = collector_free(run->collector);
	run->gpus = gpus_close(run->gpus);
	run->tally = tally_free(run->tally);
	run->tree = tree_free(run->tree);
	free(run->series);
	snapshot_release(&run->snap);
	close_fd(&run->root_fd);
}

static void execute(struct run *run, int *ret_shell_status)
{
	struct runner_result result;

	record_describe(run);
	runner_start(run->runner);
	loop_timer_set(run->record_timer, 0, 0);
	loop_run(run->loop);
	drain_life(run);
	runner_get_result(run->runner, &result);
	record_end(run, &result);
	tell_progress(run, PROGRESS_FINISHED);
	tell_background(&result);
	*ret_shell_status = result.shell_status;
}

int run_job(const struct run_options *options, struct attempt *ret, int *ret_shell_status,
	    struct err *err)
{
	struct run run = {
		.options = options,
		.root_fd = -1,
		.attempt = ret,
		.phases = PHASE_BOX_INIT,
		.waiting_since_boot_ns = U64_UNKNOWN,
		.last_point = { .rss_bytes = U64_UNKNOWN, .cpu_percent = F64_UNKNOWN },
	};
	int r;

	snapshot_init(&run.snap);
	r = open_run(&run, err);
	if (r == 0)
		execute(&run, ret_shell_status);
	close_run(&run);
	if (run.is_untold)
		late_word_leave(ret, options->is_submitted);
	if (r < 0)
		inherited_restore(&run.inherited); /* the caller may want to exec the command */
	return r;
}
