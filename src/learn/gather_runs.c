#include "learn/gather_runs.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "learn/run_class.h"

#define MIN_SLOPE_POINTS 3

/* ---- snapshots ---- */

static void note_stall(struct gather_stall *stall, const struct psi *psi, bool is_first)
{
	if (is_first)
		stall->first_us = psi->some.total_us;
	stall->last_us = psi->some.total_us;
}

void gather_add_snapshot(struct gather *g, const struct snapshot *snap)
{
	bool is_first = g->first_ns == 0;

	if (is_first)
		g->first_ns = snap->wall_ns;
	g->last_ns = snap->wall_ns;
	note_stall(&g->memory, &snap->system.psi_memory, is_first);
	note_stall(&g->io, &snap->system.psi_io, is_first);
	note_stall(&g->cpu, &snap->system.psi_cpu, is_first);
}

static double stall_pct(const struct gather *g, const struct gather_stall *stall)
{
	uint64_t us = u64_delta(stall->last_us, stall->first_us);

	if (g->last_ns <= g->first_ns || !u64_known(us))
		return F64_UNKNOWN;
	return 100 * (double)us / ((double)(g->last_ns - g->first_ns) / 1e3);
}

/* ---- the curve ---- */

/*
 * The most memory up to each horizon, and its slope by least squares: of points of the sheet (0: of
 * all). Not of one that was over by then: its end would be part of the value.
 */
static void take_curve(const struct attempt *a, struct run_record *run, int sheet_num)
{
	for (size_t h = 0; h < RUN_HORIZONS; h++) {
		double n = 0, sum_t = 0, sum_y = 0, sum_tt = 0, sum_ty = 0, spread;

		if (!u64_known(run->started_wall_ns) || !(run->wall_seconds > run_horizons[h]))
			continue;
		run->early_rss_mb[h] = F64_UNKNOWN;
		for (size_t i = 0; i < a->details.n_series; i++) {
			const struct series_point *p = &a->details.series[i];
			double t = ((double)p->wall_ns - (double)run->started_wall_ns) / 1e9;
			double y = u64_to_mb(p->rss_bytes);

			if (t < 0 || t > run_horizons[h] || !f64_known(y) ||
			    (sheet_num && p->sheet_num != sheet_num))
				continue;
			n++;
			sum_t += t;
			sum_y += y;
			sum_tt += t * t;
			sum_ty += t * y;
			run->early_rss_mb[h] = f64_max_known(y, run->early_rss_mb[h]);
		}
		spread = n * sum_tt - sum_t * sum_t;
		run->rss_slope_mb_s[h] = n >= MIN_SLOPE_POINTS && spread > 0
						 ? (n * sum_ty - sum_t * sum_y) / spread
						 : F64_UNKNOWN;
	}
}

/* ---- usage ---- */

static double count_of(uint64_t v)
{
	return u64_known(v) ? (double)v : F64_UNKNOWN;
}

static int take_usage(const struct usage *u, struct run_record *run, struct arena *arena)
{
	run->time = arena_strdup(arena, u->time);
	run->peak_rss_mb = u64_to_mb(usage_memory_bytes(u));
	run->cpu_seconds = u64_to_seconds(u64_add(u->user_ns, u->system_ns));
	run->spawn_count = count_of(u->spawn_count);
	run->max_process_rss_mb = u64_to_mb(u->max_process_rss_bytes);
	run->wall_seconds = u64_to_seconds(u->wall_ns);
	run->io_mb = u64_to_mb(u64_add(u->rchar, u->wchar));
	run->major_faults = count_of(u->major_faults);
	return u->time && !run->time ? -ENOMEM : 0;
}

static void take_processes(const struct attempt *a, struct run_record *run, int sheet_num)
{
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		if (sheet_num && p->sheet_num != sheet_num)
			continue;
		run->max_threads = f64_max_known(count_of(p->max_threads), run->max_threads);
		run->max_fds = f64_max_known(count_of(p->max_fds), run->max_fds);
	}
}

/* ---- runs ---- */

static const struct sheet_record *last_try(const struct attempt *a, int num)
{
	const struct sheet_record *last = NULL;

	for (size_t i = 0; i < a->n_sheets; i++)
		if (a->sheets[i].num == num && (!last || a->sheets[i].try_num > last->try_num))
			last = &a->sheets[i];
	return last;
}

static bool has_one_sheet(const struct attempt *a)
{
	for (size_t i = 1; i < a->n_sheets; i++)
		if (a->sheets[i].num != a->sheets[0].num)
			return false;
	return a->n_sheets > 0 && a->total_sheets <= 1;
}

static int describe(const struct attempt *a, const char *command, int n_sheets,
		    struct run_record *run, struct arena *arena)
{
	const struct class_source source = {
		.command = command,
		.n_sheets = n_sheets,
		.argv_hash = a->argv_hash,
		.sheet_num = run->sheet_num,
		.uid = a->uid,
		.input_bytes = a->input_bytes,
	};

	run->attempt = a->id;
	run->attempt_num = a->attempt_num;
	run->argv_hash = a->argv_hash;
	run->input_hash = a->input_hash;
	run->job_id = arena_strdup(arena, a->job_id);
	run->host = arena_strdup(arena, a->host);
	if (!run->job_id || (a->host && !run->host))
		return -ENOMEM;
	return class_describe(&source, arena, &run->class);
}

/* The share of each call in the time that all of them took on a CPU. NULL stays if none was timed.
 */
static int take_syscalls(const struct attempt *a, struct run_record *run, struct arena *arena)
{
	CLEANUP(free_ptr)
	struct syscall_share *shares = calloc(a->details.n_syscalls + 1, sizeof(*shares));
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	double total_ns = 0;

	if (!shares)
		return -ENOMEM;
	for (size_t i = 0; i < a->details.n_syscalls; i++) {
		uint64_t cpu_ns = a->details.syscalls[i].cpu_ns;

		shares[i].name = a->details.syscalls[i].name;
		shares[i].pct = u64_known(cpu_ns) ? (double)cpu_ns : 0;
		total_ns += shares[i].pct;
	}
	if (!(total_ns > 0))
		return 0;
	for (size_t i = 0; i < a->details.n_syscalls; i++)
		shares[i].pct = 100.0 * shares[i].pct / total_ns;
	run_write_shares(shares, a->details.n_syscalls, &text);
	run->syscalls = arena_strndup(arena, text.data, text.len);
	return run->syscalls ? 0 : -ENOMEM;
}

static int add_whole(const struct gather *g, const char *anomalies, struct run_list *list)
{
	const struct attempt *a = g->attempt;
	bool is_single = has_one_sheet(a);
	const struct usage *u = &a->usage;
	struct run_record *run = run_list_add(list);
	int r;

	if (!run)
		return -ENOMEM;
	run->is_whole = true;
	run->sheet_num = is_single ? a->sheets[0].num : 0;
	run->outcome = a->outcome;
	run->started_wall_ns = a->started_wall_ns;
	run->ended_wall_ns = a->ended_wall_ns;
	r = take_usage(u, run, &list->arena);
	take_processes(a, run, 0);
	take_curve(a, run, 0);
	run->memory_stall_pct = stall_pct(g, &g->memory);
	run->io_stall_pct = stall_pct(g, &g->io);
	run->cpu_stall_pct = stall_pct(g, &g->cpu);
	/* The job's own share of the GPU: others may use it too. */
	run->gpu_memory_mb = u64_to_mb(u->peak_gpu_bytes);
	if (u64_known(u->gpu_busy_ns) && u64_known(u->wall_ns) && u->wall_ns > 0)
		run->gpu_utilization_pct = 100.0 * (double)u->gpu_busy_ns / (double)u->wall_ns;
	run->anomalies = arena_strdup(&list->arena, anomalies);
	if (r == 0)
		r = take_syscalls(a, run, &list->arena);
	if (r == 0)
		r = describe(a, a->n_sheets ? a->sheets[0].command : a->command,
			     is_single ? 1 : a->total_sheets, run, &list->arena);
	return anomalies && !run->anomalies ? -ENOMEM : r;
}

/* What the host was like is not told apart by sheet. */
static int add_sheet(const struct attempt *a, const struct sheet_record *sheet,
		     struct run_list *list)
{
	struct run_record *run = run_list_add(list);
	int r;

	if (!run)
		return -ENOMEM;
	run->sheet_num = sheet->num;
	run->outcome = sheet->outcome;
	run->started_wall_ns = sheet->started_wall_ns;
	run->ended_wall_ns = sheet->ended_wall_ns;
	r = take_usage(&sheet->usage, run, &list->arena);
	take_processes(a, run, sheet->num);
	take_curve(a, run, sheet->num);
	return r < 0 ? r : describe(a, sheet->command, 1, run, &list->arena);
}

int gather_finish(const struct gather *g, const char *anomalies, struct run_list *list)
{
	const struct attempt *a = g->attempt;
	int r = add_whole(g, anomalies, list);

	if (has_one_sheet(a))
		return r;
	for (size_t i = 0; r == 0 && i < a->n_sheets; i++)
		if (last_try(a, a->sheets[i].num) == &a->sheets[i])
			r = add_sheet(a, &a->sheets[i], list);
	return r;
}
