#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "recorder/cadence.h"
#include "recorder/run_internal.h"

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
	if (at_all || run->births.forget_missing || !pids)
		r = collector_scan(run->collector, &run->snap, &err);
	else
		r = collector_scan_some(run->collector, pids, n, &run->snap, &err);
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

/* Collect, assign to the job, add up, store, show. */
static void run_tick(struct run *run)
{
	struct series_point point;

	runner_look_after(run->runner);
	if (run_scan(run, false)) {
		collector_fill(run->collector, &run->snap, SNAPSHOT_JOBS);
		run_counting_fill(run);
		tally_snapshot(run->tally, &run->snap, run_current_sheet(run), &point);
		keep_point(run, &point);
		tell_own_job(run);
		record_tick(run, &point);
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
	if (delay_ms < afford_ms)
		delay_ms = afford_ms;
	return delay_ms < interval_ms ? delay_ms : interval_ms;
}

static void on_tick_timer(void *ctx)
{
	struct run *run = ctx;
	uint64_t before_ns = clock_cpu_ns(), began_ns = clock_boot_ns();
	uint64_t distance_ms, took_ms;

	run_tick(run);
	distance_ms = next_tick_ms(run, clock_cpu_ns() - before_ns);
	took_ms = (clock_boot_ns() - began_ns) / 1000000u;
	loop_timer_set(run->tick_timer, cadence_rest_ms(distance_ms, took_ms, FIRST_TICK_MS), 0);
}

void run_start_ticks(struct run *run)
{
	run->sheet_boot_ns = clock_boot_ns();
	loop_timer_set(run->tick_timer, FIRST_TICK_MS, 0);
}

int run_open_ticks(struct run *run)
{
	run->tick_timer = loop_timer_new(run->loop, on_tick_timer, run);
	return run->tick_timer ? 0 : -ENOMEM;
}
