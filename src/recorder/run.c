#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/num.h"
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

/* ---- a look at the job's processes ---- */

/*
 * A sheet's first samples come quickly and then more slowly, each after a tenth
 * of the time it has run, up to the interval: so a sheet of a second has a curve
 * too. Until then the looking may cost no more than a fiftieth of a core.
 */
#define FIRST_TICK_MS 20
#define TICK_PER_ELAPSED 10
#define TICK_COST_LIMIT 50

/* Which processes there are, and which of them are ours. */
bool run_scan(struct run *run, bool at_all)
{
	enum membership_missing missing;
	struct err err = ERR_INIT;
	const pid_t *pids;
	size_t n;
	int r;

	run_life_drain(run);
	if (!run->collector)
		return false;
	missing = run->births.forget_missing ? MEMBERSHIP_FORGET_MISSING : MEMBERSHIP_KEEP_ONCE;
	/*
	 * Where the kernel has told of every birth, the members are all there is to look at, and a
	 * job on a host with ten thousand processes costs no more than at home. Else everybody's
	 * parents have to be looked at.
	 */
	pids = membership_pids(run->members, &n);
	if (run->feed.is_fresh && !at_all && !run->births.forget_missing && pids)
		r = collector_scan_fed(run->collector, pids, n, &run->snap, &err);
	else if (at_all || run->births.forget_missing || !pids)
		r = collector_scan(run->collector, &run->snap, &err);
	else
		r = collector_scan_some(run->collector, pids, n, &run->snap, &err);
	run->feed.is_fresh = false;
	if (r == 0 && membership_scan(run->members, &run->snap, missing, NULL) < 0)
		r = err_set(&err, -ENOMEM, "out of memory");
	if (r < 0 && !run->scan_failed)
		log_error("cannot look at the job's processes: %s", err.text);
	if (r < 0) {
		run->scan_failed = true;
		return false;
	}
	run->births.forget_missing = !run->births.life;
	run->snap.wall_ns = run_time_of(run, run->snap.wall_ns);
	return true;
}

int run_current_sheet(const struct run *run)
{
	const struct sheet_record *sheet = runner_current_sheet(run->runner);

	return sheet ? sheet->num : SHEET_NONE;
}

/* Two neighbours of one sheet become one, with the higher values of both. */
static void thin_series(struct run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->curve.n; i++) {
		struct series_point *p = &run->curve.points[i],
				    *last = n ? &run->curve.points[n - 1] : NULL;

		if (!last || i % 2 == 0 || last->sheet_num != p->sheet_num) {
			run->curve.points[n++] = *p;
			continue;
		}
		last->rss_bytes = u64_max_known(last->rss_bytes, p->rss_bytes);
		last->cpu_percent = fmax(last->cpu_percent, p->cpu_percent);
		last->n_processes = u64_max_known(last->n_processes, p->n_processes);
	}
	run->curve.n = n;
}

static void keep_point(struct run *run, const struct series_point *point)
{
	run->curve.last = *point;
	if (run->curve.n == SERIES_MAX_POINTS)
		thin_series(run);
	if (ARRAY_RESERVE(run->curve.points, run->curve.cap, run->curve.n + 1) == 0)
		run->curve.points[run->curve.n++] = *point;
}

void run_show_progress(struct run *run, enum progress_state state)
{
	struct run_progress progress = {
		.sheet = runner_current_sheet(run->runner),
		.total_sheets = (int)run->options->spec->n_sheets,
		.done_sheets = run->done_sheets,
		.elapsed_ns = clock_boot_ns() - run->boot_ns,
		.rss_bytes = run->curve.last.rss_bytes,
		.cpu_percent = run->curve.last.cpu_percent,
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
		.attempt_num = a->attempt_num,
		.uid = a->uid,
	};
}

/* ---- pages that processes share ---- */

#define SHARE_MIN_BYTES (UINT64_C(32) << 20) /* of one process */
#define SHARE_MAX_BYTES (UINT64_C(4) << 30)  /* of all in one look: the kernel walks the pages */
#define SHARE_COST 100			     /* no more than so small a part of the time */
#define SHARE_PROCESSES 64		     /* the others count as if they shared nothing */

static int compare_pids(const void *left, const void *right)
{
	const struct proc_sample *l = left, *r = right;

	return COMPARE(l->key.pid, r->key.pid);
}

/* A child that has executed no other program shares what it does not write. */
static bool may_share(const struct snapshot *s, const struct proc_sample *p)
{
	const struct proc_sample key = { .key = { .pid = p->ppid } };
	const struct proc_sample *parent =
		bsearch(&key, s->processes, s->n_processes, sizeof(key), compare_pids);

	return parent && parent->job_id && u64_known(p->rss_bytes) &&
	       u64_known(parent->rss_bytes) && p->rss_bytes >= SHARE_MIN_BYTES &&
	       parent->rss_bytes >= SHARE_MIN_BYTES && strcmp(p->comm, parent->comm) == 0;
}

/*
 * The memory of all processes with shared pages once, as a share of the sum of their RSS. To
 * measure it costs the host time: it is done where pages may be shared, and again when the job has
 * grown.
 */
static double memory_share(struct run *run, bool at_once)
{
	const struct snapshot *s = &run->snap;
	uint64_t rss_bytes = 0, once_bytes = 0, asked_bytes = 0, before_ns = clock_cpu_ns();
	size_t n_asked = 0;
	bool is_shared = false;

	for (size_t i = 0; i < s->n_processes; i++) {
		const struct proc_sample *p = &s->processes[i];

		if (!p->job_id || !u64_known(p->rss_bytes))
			continue;
		rss_bytes += p->rss_bytes;
		is_shared = is_shared || may_share(s, p);
	}
	/* Children go on sharing when their parent is gone. */
	if ((!is_shared && run->curve.share_boot_ns == 0) || rss_bytes == 0)
		return 1;
	if (s->boot_ns < run->curve.share_boot_ns && !at_once)
		return F64_UNKNOWN;
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct proc_sample *p = &s->processes[i];
		uint64_t pss = U64_UNKNOWN;

		if (!p->job_id || !u64_known(p->rss_bytes))
			continue;
		if (p->rss_bytes >= SHARE_MIN_BYTES && n_asked < SHARE_PROCESSES &&
		    asked_bytes + p->rss_bytes <= SHARE_MAX_BYTES) {
			pss = sources_read_pss(run->root_fd, p->key.pid);
			asked_bytes += p->rss_bytes;
			n_asked++;
		}
		once_bytes += u64_known(pss) && pss < p->rss_bytes ? pss : p->rss_bytes;
	}
	run->curve.share_boot_ns = s->boot_ns + (clock_cpu_ns() - before_ns) * SHARE_COST;
	return (double)once_bytes / (double)rss_bytes;
}

/* The limits that the kernel does not enforce here, by what the last sample has shown. */
static void watch_limits(struct run *run, const struct series_point *point, double share)
{
	CLEANUP(buf_release) struct buf why = BUF_INIT;
	const struct job_limits *l = &run->containing.watched;
	uint64_t bytes = point->rss_bytes, n_tasks = 0;

	for (size_t i = 0; i < run->snap.n_processes; i++) {
		const struct proc_sample *p = &run->snap.processes[i];

		if (p->job_id)
			n_tasks += u64_known(p->threads) ? p->threads : 1;
	}
	if (u64_known(l->memory_bytes) && u64_known(bytes) && bytes > l->memory_bytes) {
		if (isnan(share))
			share = memory_share(run, true);
		bytes = (uint64_t)((double)bytes * share);
	}
	if (u64_known(l->memory_bytes) && u64_known(bytes) && bytes > l->memory_bytes) {
		buf_add_str(&why, "memory limit of ");
		num_add_bytes(&why, l->memory_bytes);
		buf_add_str(&why, " exceeded: a sample shows ");
		num_add_bytes(&why, bytes);
		runner_stop(run->runner, OUTCOME_OOM, why.data);
	} else if (u64_known(l->max_processes) && n_tasks > l->max_processes) {
		buf_printf(&why,
			   "limit of %llu processes and threads exceeded: a sample shows %llu",
			   (unsigned long long)l->max_processes, (unsigned long long)n_tasks);
		runner_stop(run->runner, OUTCOME_FAILURE, why.data);
	}
}

/* Collect, assign to the job, add up, store, show. */
static void run_tick(struct run *run)
{
	struct series_point point;
	double share;

	runner_look_after(run->runner);
	if (run_scan(run, false)) {
		collector_fill(run->collector, &run->snap, SNAPSHOT_JOBS);
		run_counting_fill(run);
		time_sampler_add(&run->times, run->root_fd, &run->snap);
		share = memory_share(run, false);
		tally_set_share(run->tally, share);
		tally_snapshot(run->tally, &run->snap, run_current_sheet(run), &point);
		keep_point(run, &point);
		tell_own_job(run);
		record_tick(run, &point);
		watch_limits(run, &point, share);
	}
	run_show_progress(run, PROGRESS_RUNNING);
}

static uint64_t next_tick_ms(const struct run *run, uint64_t cost_ns)
{
	uint64_t interval_ms = (uint64_t)(run->options->interval_seconds * 1000.0);
	uint64_t elapsed_ms = (clock_boot_ns() - run->sheet_boot_ns) / 1000000u;
	uint64_t afford_ms = cost_ns * TICK_COST_LIMIT / 1000000u;
	uint64_t delay_ms = elapsed_ms / TICK_PER_ELAPSED;
	uint64_t closer_ms = closer_wait_ms(&run->watching.closer, 0);

	if (delay_ms < FIRST_TICK_MS)
		delay_ms = FIRST_TICK_MS;
	if (closer_is_on(&run->watching.closer, clock_boot_ns()) && delay_ms > closer_ms)
		delay_ms = closer_ms;
	if ((u64_known(run->containing.watched.memory_bytes) ||
	     u64_known(run->containing.watched.max_processes)) &&
	    delay_ms > WATCH_MS)
		delay_ms = WATCH_MS;
	if (delay_ms < afford_ms)
		delay_ms = afford_ms;
	return delay_ms < interval_ms ? delay_ms : interval_ms;
}

static void on_tick_timer(void *ctx)
{
	struct run *run = ctx;
	uint64_t before_ns = clock_cpu_ns(), began_ns = clock_boot_ns();
	uint64_t interval_ms = (uint64_t)(run->options->interval_seconds * 1000.0);
	uint64_t distance_ms, took_ms;

	run->feed.looked_boot_ns = began_ns;
	run_tick(run);
	distance_ms = next_tick_ms(run, clock_cpu_ns() - before_ns);
	run->feed.is_steady = distance_ms == interval_ms;
	if (run->feed.is_steady && run->births.life) /* else those are not known that came since */
		link_want_samples(run->link, run->options->interval_seconds);
	if (run->feed.is_steady && began_ns - run->feed.came_boot_ns < interval_ms * 1000000)
		distance_ms += interval_ms / 2;
	took_ms = (clock_boot_ns() - began_ns) / 1000000u;
	loop_timer_set(run->tick_timer, cadence_rest_ms(distance_ms, took_ms, FIRST_TICK_MS), 0);
}

/* Those of before the last look are no news, and those shortly behind it come too soon: the next
 * look waits for the ones that follow. */
bool run_take_samples(void *ctx, const void *bytes, size_t n)
{
	struct run *run = ctx;
	uint64_t interval_ms = (uint64_t)(run->options->interval_seconds * 1000.0);
	uint64_t passed_ms = (clock_boot_ns() - run->feed.looked_boot_ns) / 1000000;

	if (!run->collector || collector_take_feed(run->collector, bytes, n) < 0)
		return false;
	run->feed.came_boot_ns = clock_boot_ns();
	if (!run->feed.is_steady)
		return true;
	run->feed.is_fresh = passed_ms >= interval_ms / 2 &&
			     collector_feed_boot_ns(run->collector) > run->feed.looked_boot_ns;
	if (run->feed.is_fresh)
		loop_timer_set(run->tick_timer, 0, 0);
	else if (passed_ms < interval_ms / 2)
		loop_timer_set(run->tick_timer, interval_ms * 3 / 2 - passed_ms, 0);
	return true;
}

void run_start_ticks(struct run *run)
{
	run->feed.is_steady = run->feed.is_fresh = false;
	run->sheet_boot_ns = clock_boot_ns();
	loop_timer_set(run->tick_timer, FIRST_TICK_MS, 0);
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
	options.is_traceable = run_counting_traces(run);
	run->containing.watched = o->spec->limits;
	if (!o->makes_cgroup)
		err_set(&run->containing.err, -ENOENT, "none was to be made (--cgroup=off)");
	else if (run->root_fd < 0)
		err_set(&run->containing.err, -ENOENT, "/proc cannot be read");
	else
		(void)job_cgroup_new(run->root_fd, &run->containing.watched,
				     &run->containing.cgroup, &run->containing.err);
	if (!isnan(run->containing.watched.cpus))
		log_warning("--cpus has no effect here: %s",
			    run->containing.err.code ? run->containing.err.text
						     : "no cgroup above passes the controller on");
	options.holds_commands = run->counting.is_own || run->counting.asks_daemon;
	if (run->containing.cgroup)
		options.cgroup.n_entries =
			job_cgroup_entries(run->containing.cgroup, options.cgroup.entry_fds,
					   &options.cgroup.folder_fd);
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
	run->link = link_new(run->loop, &run->job, run_take_facts, run_take_samples, run);
	run->detect = detect_new(run->options->anomaly, DETECT_ALL);
	if (run->options->jsonl_path)
		run->jsonl = jsonl_new(run->options->jsonl_path, run->options->jsonl_max_bytes);
	if (run->jsonl)
		jsonl_set_lock_timeout(run->jsonl, LOOP_PATIENCE_MS);
	run->tick_timer = loop_timer_new(run->loop, on_tick_timer, run);
	run->record_timer = loop_timer_new(run->loop, on_record_timer, run);
	run->recording.events_timer = loop_timer_new(run->loop, on_events_timer, run);
	if (!run->tally || !run->tick_timer || !run->record_timer || !run->recording.events_timer ||
	    !run->link || !run->detect)
		return err_set(err, -ENOMEM, "out of memory");
	return check_files(START_FILES, err);
}

static void close_run(struct run *run)
{
	run->job.log = attempt_log_close(run->job.log);
	map_release(&run->kills.counted);
	phase_box_close(&run->phases);
	run->jsonl = jsonl_free(run->jsonl);
	run->link = link_free(run->link);
	run->detect = detect_free(run->detect);
	loop_fd_close(run->births.watch);
	run->births.life = life_close(run->births.life);
	run->runner = runner_free(run->runner);
	run->loop = loop_free(run->loop);
	run_counting_close(run);
	time_sampler_release(&run->times);
	run->collector = collector_free(run->collector);
	run->gpus = gpus_close(run->gpus);
	run->tally = tally_free(run->tally);
	run->members = membership_free(run->members);
	run->containing.cgroup = job_cgroup_free(run->containing.cgroup);
	free(run->curve.points);
	free(run->waits);
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
		.job.a = ret,
		.kills.host_count = U64_UNKNOWN,
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
