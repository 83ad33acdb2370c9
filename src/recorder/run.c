#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/recorder.h"
#include "recorder/run_internal.h"

/* ---- the time that a run records ---- */

uint64_t run_now(const struct run *run)
{
	return run->attempt->started_wall_ns + (clock_boot_ns() - run->boot_ns);
}

uint64_t run_time_of(const struct run *run, uint64_t wall_ns)
{
	return u64_known(wall_ns) ? wall_ns + (run_now(run) - clock_wall_ns()) : U64_UNKNOWN;
}

/* ---- who counts the system calls ---- */

/* Somebody who has asked for one way hears at once that it cannot be. */
static void warn_uncounted(const struct run *run)
{
	enum run_syscalls_how how = run->options->syscalls.how;

	if (!run->counting.calls && (how == RUN_SYSCALLS_EBPF || how == RUN_SYSCALLS_STRACE))
		log_warning("system calls are not counted, and the job goes on: %s",
			    run->counting.err.text);
}

/* It may where we may not, costs less than strace, and has what it needs loaded. */
void run_counting_ask(struct run *run)
{
	struct err err = ERR_INIT, why = ERR_INIT;

	run->counting.asks_daemon = false;
	run->counting.is_daemon_asked = record_ask_to_count(run, &err) == 0;
	if (run->counting.is_daemon_asked) {
		run->counting.calls = run_calls_close(run->counting.calls);
		return;
	}
	if (!run->counting.calls && err.code != -ENOENT) /* a daemon there is */
		err_set(&why, run->counting.err.code, "%.250s; %.200s", run->counting.err.text,
			err.text);
	if (why.code != 0)
		run->counting.err = why;
	warn_uncounted(run);
}

static void run_counting_open(struct run *run)
{
	const struct run_syscalls *o = &run->options->syscalls;

	if (o->how == RUN_SYSCALLS_OFF) {
		err_set(&run->counting.err, -EOPNOTSUPP, "--syscalls=off");
		return;
	}
	/* By whom nobody has said: by a daemon, or by strace if the configuration wants that. */
	if (o->how == RUN_SYSCALLS_DEFAULT && !o->may_strace) {
		err_set(&run->counting.err, -EOPNOTSUPP,
			"a run counts them only if asked to (--syscalls); a daemon of root does from "
			"when it has heard of the job, some tenths of a second after its beginning");
		run->counting.asks_daemon = run->options->is_submitted;
		return;
	}
	run_calls_open(o, run->members, &run->counting.calls, &run->counting.err);
	run->counting.asks_daemon =
		o->how == RUN_SYSCALLS_AUTO ||
		(o->how != RUN_SYSCALLS_STRACE &&
		 (!run->counting.calls || run_calls_traces(run->counting.calls)));
	if (!run->counting.asks_daemon)
		warn_uncounted(run);
}

void run_counting_fill(struct run *run)
{
	CLEANUP(process_calls_release)
	struct process_calls now = { .max_bytes = RUN_CALLS_MAX_TEXT_BYTES };

	bool is_all = false;

	if (run->counting.calls)
		run_calls_fill(run->counting.calls, &run->snap);
	else if (run->options->syscalls.how != RUN_SYSCALLS_OFF &&
		 link_take_counts(run->link, &now, &is_all) == 0)
		process_calls_fill_steps(&run->counting.before, &now, is_all, &run->snap);
}

/* ---- a run from its beginning to its end ---- */

#define LOOP_FILES 8  /* libuv ends the process where its own are more than there may be */
#define START_FILES 6 /* what it takes to start a command, and some that others take meanwhile */

static void on_record_timer(void *ctx)
{
	record_now(ctx);
	record_probe(ctx);
}

static void on_events_timer(void *ctx)
{
	struct run *run = ctx;

	run->recording.is_soon = false;
	record_events(run);
	record_tell_changed(run);
}

static int check_files(size_t n, struct err *err)
{
	if (file_limit_has_room(n))
		return 0;
	return err_set(err, -EMFILE, "too few files may be open: raise the limit (ulimit -n)");
}

static int open_run(struct run *run, struct err *err)
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
	struct gpus_options gpus_options = { .interval_seconds = o->interval_seconds };
	struct collector_options collector_options = { .mask = o->mask };
	struct err why = ERR_INIT;
	int r;

	inherited_note(&run->inherited); /* before anything is changed */
	file_limit_raise(NULL);
	run->root_fd = proc_open_root(err);
	if (run->root_fd < 0 && run->root_fd != -EXDEV) /* without /proc the collector says so */
		return run->root_fd;
	r = check_files(LOOP_FILES, err);
	if (r < 0)
		return r;
	run->loop = loop_new();
	if (!run->loop)
		return err_set(err, -ENOMEM, "cannot make an event loop");
	/* Before we become the one that processes without a parent fall to: its process is not the
	 * job's. */
	gpus_options.root_fd = run->root_fd;
	if (o->reads_gpus && gpus_open(&gpus_options, &run->gpus, &why) < 0)
		log_warning("GPUs are not read: %s", why.text);
	phase_box_open(&run->phases);
	run->members = membership_new_own(o->spec->job_id, getpid());
	options.members = run->members;
	if (!run->members)
		return err_set(err, -ENOMEM, "out of memory");
	run_counting_open(run);
	options.is_traceable = run_calls_traces(run->counting.calls);
	options.holds_commands = run->counting.calls || run->counting.asks_daemon;
	r = runner_new(run->loop, &options, &run->runner, err);
	if (r < 0)
		return r;
	run_life_open(run);
	/* Without /proc there are no samples; statuses, CPU time and the kernel's marks are there
	 * still. */
	collector_options.root_fd = run->root_fd;
	collector_options.gpus = run->gpus;
	if (collector_new(&collector_options, &run->collector, &why) < 0) {
		log_error("the job cannot be sampled: %s", why.text);
		run->collector = NULL;
	}
	/* A shell may have started helpers before it became us by exec: they are not the job's. */
	if (runner_has_children() && run->collector &&
	    collector_scan(run->collector, &run->snap, &why) == 0)
		membership_note_strangers(run->members, &run->snap);
	run->tally = tally_new(run->options->spec->job_id, run->births.life != NULL);
	run->link = link_new(run->loop, run_take_facts, run);
	run->detect = detect_new(run->options->anomaly, DETECT_ALL);
	if (run->options->jsonl_path)
		run->jsonl = jsonl_new(run->options->jsonl_path, run->options->jsonl_max_bytes);
	if (run->jsonl)
		jsonl_set_lock_timeout(run->jsonl, LOOP_PATIENCE_MS);
	run->record_timer = loop_timer_new(run->loop, on_record_timer, run);
	run->recording.events_timer = loop_timer_new(run->loop, on_events_timer, run);
	if (!run->tally || run_open_ticks(run) < 0 || !run->record_timer ||
	    !run->recording.events_timer || !run->link || !run->detect)
		return err_set(err, -ENOMEM, "out of memory");
	return check_files(START_FILES, err);
}

static void close_run(struct run *run)
{
	run->log = attempt_log_close(run->log);
	map_release(&run->watching.kills.counted);
	phase_box_close(&run->phases);
	run->jsonl = jsonl_free(run->jsonl);
	run->link = link_free(run->link);
	run->detect = detect_free(run->detect);
	loop_fd_close(run->births.watch);
	run->births.life = life_close(run->births.life);
	run->runner = runner_free(run->runner);
	run->loop = loop_free(run->loop);
	run->counting.calls = run_calls_close(run->counting.calls);
	process_calls_release(&run->counting.before);
	run->collector = collector_free(run->collector);
	run->gpus = gpus_close(run->gpus);
	run->tally = tally_free(run->tally);
	run->members = membership_free(run->members);
	free(run->curve.points);
	snapshot_release(&run->snap);
	close_fd(&run->root_fd);
}

static void execute(struct run *run, int *ret_shell_status)
{
	struct runner_result result;
	size_t n;

	record_describe(run);
	record_open(run);
	record_begin(run);
	runner_start(run->runner);
	loop_timer_set(run->record_timer, 0, 0);
	loop_run(run->loop);
	run_life_drain(run);
	runner_get_result(run->runner, &result);
	n = result.n_ended_background;
	record_end(run, &result);
	run_show_progress(run, PROGRESS_FINISHED);
	if (n > 0)
		log_warning("%zu background %s still running when the command ended and %s ended "
			    "(--leave-background keeps them)",
			    n, n == 1 ? "process was" : "processes were", n == 1 ? "was" : "were");
	*ret_shell_status = result.shell_status;
}

int run_job(const struct run_options *options, struct attempt *ret, int *ret_shell_status,
	    struct err *err)
{
	struct run run = {
		.options = options,
		.root_fd = -1,
		.attempt = ret,
		.watching.kills.host_count = U64_UNKNOWN,
		.phases = PHASE_BOX_INIT,
		.curve.last = { .rss_bytes = U64_UNKNOWN, .cpu_percent = F64_UNKNOWN },
	};
	int r;

	snapshot_init(&run.snap);
	r = open_run(&run, err);
	if (r == 0)
		execute(&run, ret_shell_status);
	close_run(&run);
	if (run.is_untold)
		late_word_leave(ret, run.untold_log, options->is_submitted);
	if (r < 0)
		inherited_restore(&run.inherited); /* the caller may want to exec the command */
	return r;
}
