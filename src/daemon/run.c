#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unknown.h"
#include "daemon/run_internal.h"

/*
 * A sheet's first samples come quickly and then more slowly, each after a tenth
 * of the time it has run, up to the interval: so a sheet of a second has a curve
 * too. Until then the looking may cost no more than a fiftieth of a core.
 */
#define FIRST_TICK_MS 20
#define TICK_PER_ELAPSED 10
#define TICK_COST_LIMIT 50

/* ---- births and deaths ---- */

static void on_life_event(void *ctx, const struct life_event *ev)
{
	struct run *run = ctx;
	const struct tree_member *member;

	switch (ev->type) {
	case LIFE_FORK:
		if (!tree_on_fork(run->tree, ev->parent_pid, ev->pid))
			return;
		member = tree_find(run->tree, ev->pid);
		tally_fork(run->tally, ev->pid, ev->parent_pid, member->sheet_num, member->rank,
			   ev->wall_ns);
		return;
	case LIFE_EXEC:
		if (tree_find(run->tree, ev->pid)) {
			CLEANUP(buf_release) struct buf command = BUF_INIT;
			bool is_read = sources_read_command(run->root_fd, ev->pid,
							    run->options->mask, &command) == 0;

			tally_exec(run->tally, ev->pid, is_read ? command.data : NULL);
		}
		return;
	case LIFE_EXIT:
		if (tree_on_exit(run->tree, ev->pid))
			tally_exit(run->tally, ev->pid, ev->wait_status, ev->wall_ns);
		return;
	}
}

static void drain_life(struct run *run)
{
	int64_t lost;

	if (!run->life)
		return;
	lost = life_drain(run->life, on_life_event, run);
	if (lost > 0) {
		tally_lost(run->tally, (uint64_t)lost);
		run->forget_missing = true;
	}
}

static void on_life_fd(void *ctx)
{
	drain_life(ctx);
}

static void open_life(struct run *run)
{
	struct err err = ERR_INIT;

	run->forget_missing = true;
	if (life_open(&run->life, &err) < 0) {
		log_debug("births and deaths: %s", err.text);
		return;
	}
	run->life_watch = loop_watch_fd(run->loop, life_fd(run->life), on_life_fd, run);
	if (run->life_watch)
		run->forget_missing = false;
	else
		run->life = life_close(run->life);
}

/* ---- one tick ---- */

/* Which processes there are, and which of them are ours. */
static bool scan(struct run *run)
{
	enum tree_missing missing;
	struct err err = ERR_INIT;

	drain_life(run);
	missing = run->forget_missing ? TREE_FORGET_MISSING : TREE_KEEP_MISSING;
	if (collector_scan(run->collector, &run->snap, &err) < 0 ||
	    tree_assign(run->tree, &run->snap, missing) < 0) {
		record_say_once(&run->scan_failed, "cannot look at the job's processes", &err);
		return false;
	}
	run->forget_missing = !run->life;
	return true;
}

static int current_sheet_num(const struct run *run)
{
	const struct sheet_record *sheet = runner_current_sheet(run->runner);

	return sheet ? sheet->num : SHEET_NONE;
}

static void tell_progress(struct run *run, bool is_finished)
{
	struct run_progress progress = {
		.sheet = runner_current_sheet(run->runner),
		.total_sheets = (int)run->options->spec->n_sheets,
		.done_sheets = run->done_sheets,
		.elapsed_ns = clock_boot_ns() - run->boot_ns,
		.rss_bytes = run->last_point.rss_bytes,
		.cpu_percent = run->last_point.cpu_percent,
		.is_finished = is_finished,
	};

	if (run->options->progress)
		run->options->progress(run->options->progress_ctx, &progress);
}

/* Collect, assign to the job, add up, store, show. */
static void run_tick(struct run *run)
{
	struct series_point point;

	if (!scan(run))
		return;
	collector_fill(run->collector, &run->snap, SNAPSHOT_JOBS);
	tally_snapshot(run->tally, &run->snap, current_sheet_num(run), &point);
	run->last_point = point;
	record_tick(run, &point);
	tell_progress(run, false);
}

static uint64_t next_tick_ms(const struct run *run, uint64_t cost_ns)
{
	uint64_t interval_ms = (uint64_t)(run->options->interval_seconds * 1000.0);
	uint64_t elapsed_ms = (clock_boot_ns() - run->sheet_boot_ns) / 1000000u;
	uint64_t afford_ms = cost_ns * TICK_COST_LIMIT / 1000000u;
	uint64_t delay_ms = elapsed_ms / TICK_PER_ELAPSED;

	if (delay_ms < FIRST_TICK_MS)
		delay_ms = FIRST_TICK_MS;
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

static void on_sheet_started(void *ctx, const struct sheet_record *sheet)
{
	struct run *run = ctx;

	run->attempt->current_sheet = sheet->num;
	run->oom_kills_before = sources_read_oom_kills(run->root_fd);
	tally_begin_sheet(run->tally, clock_boot_ns(), !runner_has_children());
	record_sheet(run, sheet);
	start_ticks(run);
	tell_progress(run, false);
}

static void on_process_started(void *ctx, pid_t pid, int sheet_num, int rank)
{
	struct run *run = ctx;

	tally_root(run->tally, pid, getpid(), sheet_num, rank, clock_wall_ns());
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
	tree_on_exit(run->tree, reaped->pid);
	return tally_reap(run->tally, reaped, &run->zombie, clock_wall_ns());
}

static void on_process_signalled(void *ctx, pid_t pid, int sig)
{
	struct run *run = ctx;

	if (sig != SIGCONT)
		tally_signal(run->tally, pid, current_sheet_num(run), sig, clock_wall_ns());
}

static bool on_was_oom_kill(void *ctx, struct buf *why)
{
	struct run *run = ctx;
	uint64_t now = sources_read_oom_kills(run->root_fd);
	uint64_t kills = u64_delta(now, run->oom_kills_before);

	if (!u64_known(kills) || kills == 0)
		return false;
	buf_printf(why,
		   "the kernel's count of out-of-memory kills on this host rose by %llu meanwhile",
		   (unsigned long long)kills);
	tally_oom(run->tally, current_sheet_num(run), why->data, clock_wall_ns());
	return true;
}

static void on_rescan(void *ctx)
{
	scan(ctx);
}

static void on_sheet_ended(void *ctx, struct sheet_record *sheet)
{
	struct run *run = ctx;

	drain_life(run);
	loop_timer_stop(run->tick_timer);
	tally_end_sheet(run->tally, clock_boot_ns(), !runner_has_children(), &sheet->usage);
	if (sheet->outcome == OUTCOME_SUCCESS) {
		run->done_sheets++;
		run->attempt->last_completed_sheet = sheet->num;
	}
	run->attempt->current_sheet = SHEET_NONE;
	record_sheet(run, sheet);
	tell_progress(run, false);
}

static void on_finished(void *ctx)
{
	struct run *run = ctx;

	loop_stop(run->loop);
}

static const struct runner_ops run_ops = {
	.sheet_started = on_sheet_started,
	.process_started = on_process_started,
	.process_ending = on_process_ending,
	.process_reaped = on_process_reaped,
	.was_oom_kill = on_was_oom_kill,
	.rescan = on_rescan,
	.process_signalled = on_process_signalled,
	.sheet_ended = on_sheet_ended,
	.finished = on_finished,
};

/* ---- set-up ---- */

/* Comes after the first command was started: recording never delays it. */
static void on_open_timer(void *ctx)
{
	record_open(ctx);
}

static void tell_background(const struct runner_result *result)
{
	size_t n = result->n_ended_background;

	if (n > 0)
		log_warning("%zu background %s still running when the command ended and %s ended "
			    "(--leave-background keeps them)",
			    n, n == 1 ? "process was" : "processes were", n == 1 ? "was" : "were");
}

/* Kept-open files of /proc make samples cheap. The commands get the limit we were started with. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_sources(struct run *run, struct err *err)
{
	struct collector_options options = { .mask = run->options->mask };

	run->root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run->root_fd < 0)
		return err_set(err, -errno, "cannot open /: %s", strerror(errno));
	options.root_fd = run->root_fd;
	open_life(run);
	return collector_new(&options, &run->collector, err);
}

static int open_runner(struct run *run, struct err *err)
{
	const struct run_options *o = run->options;
	struct runner_options options = {
		.spec = o->spec,
		.mask = o->mask,
		.leave_background = o->leave_background,
		.kill_after_ms = (uint64_t)(o->kill_after_seconds * 1000.0),
		.ops = &run_ops,
		.ctx = run,
	};

	run->tree = tree_new(o->spec->job_id, getpid());
	options.tree = run->tree;
	if (!run->tree)
		return err_set(err, -ENOMEM, "out of memory");
	return runner_new(run->loop, &options, &run->runner, err);
}

static int open_run(struct run *run, struct err *err)
{
	int r;

	run->loop = loop_new();
	if (!run->loop)
		return err_set(err, -ENOMEM, "cannot make an event loop");
	r = open_runner(run, err); /* first: it notes what the commands inherit */
	if (r < 0)
		return r;
	raise_file_limit();
	r = open_sources(run, err);
	if (r < 0)
		return r;
	run->tally = tally_new(run->options->spec->job_id, run->life != NULL);
	run->tick_timer = loop_timer_new(run->loop, on_tick_timer, run);
	run->open_timer = loop_timer_new(run->loop, on_open_timer, run);
	if (!run->tally || !run->tick_timer || !run->open_timer)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void close_run(struct run *run)
{
	run->store = store_close(run->store);
	loop_fd_close(run->life_watch);
	run->life = life_close(run->life);
	run->runner = runner_free(run->runner);
	run->loop = loop_free(run->loop);
	run->collector = collector_free(run->collector);
	run->tally = tally_free(run->tally);
	run->tree = tree_free(run->tree);
	snapshot_release(&run->snap);
	close_fd(&run->root_fd);
}

int run_job(const struct run_options *options, struct attempt *ret, int *ret_shell_status,
	    struct err *err)
{
	struct run run = {
		.options = options,
		.root_fd = -1,
		.attempt = ret,
		.last_point = { .rss_bytes = U64_UNKNOWN, .cpu_percent = F64_UNKNOWN },
	};
	struct runner_result result;
	int r;

	snapshot_init(&run.snap);
	r = open_run(&run, err);
	if (r == 0) {
		run.boot_ns = clock_boot_ns();
		record_describe(&run);
		runner_start(run.runner);
		loop_timer_set(run.open_timer, 0, 0);
		loop_run(run.loop);
		drain_life(&run);
		runner_get_result(run.runner, &result);
		record_end(&run, &result);
		tell_background(&result);
		*ret_shell_status = result.shell_status;
		tell_progress(&run, true);
	}
	close_run(&run);
	return r;
}
