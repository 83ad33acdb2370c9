#include "learn/gather_runs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "learn/run_class.h"

#define PID_LIMIT (1 << 22) /* no kernel hands out this pid or a larger one */
#define PIDS_PER_WORD 64
#define QUIET_TICKS 16 /* without a sample: such a process may be dropped when room is short */

/* The largest sum of a moment: of a tick, by the rules of compat of a sample. */
struct peak {
	double max;
	double sum; /* of the moment that is being added up */
	uint64_t moment;
};

struct sheet_peaks {
	int num;
	struct peak rss_mb, cpu_percent;
};

/* The latest process that had a pid. */
struct followed {
	struct proc_key key;
	uint64_t cpu_ns; /* the most that was sampled */
	uint64_t tick;	 /* of its last sample */
};

struct profile {
	enum profile_rules rules;
	char *job_id;
	char boot_id[BOOT_ID_BYTES];
	uint64_t tick, n_samples, n_spawns;
	struct peak rss_mb;

	uint64_t *pids; /* a bit for each; the kernel gives memory to the parts that are used */
	uint64_t n_pids;

	struct map by_pid; /* -> index into followed */
	struct followed *followed;
	size_t n_followed, cap_followed;
	uint64_t swept_tick;
	uint64_t dropped_ticks; /* the latest start of those dropped; U64_UNKNOWN: none */
	uint64_t cpu_ns;
	bool has_cpu;

	struct map by_sheet; /* number -> index into sheets */
	struct sheet_peaks *sheets;
	size_t n_sheets, cap_sheets;

	struct syscall_share hotspots[PROFILE_MAX_SYSCALLS];
	size_t n_hotspots;
	struct arena names;
};

struct profile *profile_new(const char *job_id, enum profile_rules rules)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->rules = rules;
	p->rss_mb.max = F64_UNKNOWN;
	p->dropped_ticks = U64_UNKNOWN;
	p->job_id = strdup(job_id);
	p->pids = calloc(PID_LIMIT / PIDS_PER_WORD, sizeof(*p->pids));
	return p->job_id && p->pids ? p : profile_free(p);
}

struct profile *profile_free(struct profile *p)
{
	if (!p)
		return NULL;
	free(p->job_id);
	free(p->pids);
	free(p->followed);
	map_release(&p->by_pid);
	free(p->sheets);
	map_release(&p->by_sheet);
	arena_release(&p->names);
	free(p);
	return NULL;
}

void profile_begin_tick(struct profile *p, const char *boot_id)
{
	p->tick++;
	if (!boot_id || !boot_id[0] || strncmp(p->boot_id, boot_id, BOOT_ID_BYTES - 1) == 0)
		return;
	if (p->boot_id[0]) {
		map_clear(&p->by_pid);
		p->n_followed = 0;
		p->dropped_ticks = U64_UNKNOWN;
	}
	snprintf(p->boot_id, sizeof(p->boot_id), "%s", boot_id);
}

/* ---- processes and their CPU time ---- */

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

/*
 * Drops the processes without a recent sample. One without a start time stays: it could not be
 * recognised when it returns. Once per tick at most, else a host with too many processes would do
 * nothing else. -ENOSPC: there is none to drop.
 */
static int sweep(struct profile *p)
{
	size_t n = 0;

	if (p->swept_tick == p->tick)
		return -ENOSPC;
	p->swept_tick = p->tick;
	for (size_t i = 0; i < p->n_followed; i++) {
		struct followed f = p->followed[i];

		if (p->tick - f.tick > QUIET_TICKS && u64_known(f.key.start_ticks))
			p->dropped_ticks = u64_max_known(p->dropped_ticks, f.key.start_ticks);
		else
			p->followed[n++] = f;
	}
	if (n == p->n_followed)
		return -ENOSPC;
	p->n_followed = n;
	map_clear(&p->by_pid);
	for (size_t i = 0; i < n; i++) /* cannot fail: it held more */
		map_put(&p->by_pid, pid_key(p->followed[i].key.pid), i);
	return 0;
}

/* -ESTALE: the pid belongs to a younger process by now. */
static int follow(struct profile *p, struct proc_key key, struct followed **ret)
{
	struct followed *f;
	uint64_t i;

	if (!map_get(&p->by_pid, pid_key(key.pid), &i)) {
		/* -ENOSPC: there is no room, or it started before some that were dropped and may be
		 * one of them. */
		int r = p->n_followed == PROFILE_MAX_PROCESSES
				? sweep(p)
				: ARRAY_RESERVE(p->followed, p->cap_followed, p->n_followed + 1);

		if (r < 0)
			return r;
		if (u64_known(p->dropped_ticks) &&
		    (!u64_known(key.start_ticks) || key.start_ticks <= p->dropped_ticks))
			return -ENOSPC;
		r = map_put(&p->by_pid, pid_key(key.pid), p->n_followed);
		if (r < 0)
			return r;
		*ret = &p->followed[p->n_followed++];
		**ret = (struct followed){ .key = key };
		return 0;
	}
	f = &p->followed[i];
	if (u64_known(key.start_ticks) && u64_known(f->key.start_ticks)) {
		if (key.start_ticks < f->key.start_ticks)
			return -ESTALE;
		if (key.start_ticks > f->key.start_ticks)
			f->cpu_ns = 0;
	}
	if (u64_known(key.start_ticks))
		f->key = key;
	*ret = f;
	return 0;
}

static int add_process(struct profile *p, struct proc_key key, uint64_t cpu_ns)
{
	struct followed *f;
	uint64_t bit, *word;
	int r;

	if (key.pid < 0 || key.pid >= PID_LIMIT)
		return 0;
	bit = UINT64_C(1) << (key.pid % PIDS_PER_WORD);
	word = &p->pids[key.pid / PIDS_PER_WORD];
	p->n_pids += !(*word & bit);
	*word |= bit;

	r = follow(p, key, &f);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	f->tick = p->tick;
	if (!u64_known(cpu_ns))
		return 0;
	p->has_cpu = true;
	if (cpu_ns > f->cpu_ns) {
		p->cpu_ns = u64_add(p->cpu_ns, cpu_ns - f->cpu_ns);
		f->cpu_ns = cpu_ns;
	}
	return 0;
}

/* ---- peaks ---- */

static void peak_add(const struct profile *p, struct peak *peak, double value)
{
	uint64_t moment = p->rules == PROFILE_COMPAT ? p->n_samples : p->tick;

	if (!isfinite(value))
		return;
	peak->sum = peak->moment == moment ? peak->sum + value : value;
	peak->moment = moment;
	peak->max = f64_max_known(peak->sum, peak->max);
}

static int add_to_sheet(struct profile *p, const struct profile_sample *s)
{
	uint64_t i = p->n_sheets;

	if (s->sheet_num < 0)
		return 0;
	if (!map_get(&p->by_sheet, (uint64_t)s->sheet_num, &i)) {
		if (p->n_sheets == PROFILE_MAX_SHEETS)
			return 0;
		if (ARRAY_RESERVE(p->sheets, p->cap_sheets, p->n_sheets + 1) < 0 ||
		    map_put(&p->by_sheet, (uint64_t)s->sheet_num, i) < 0)
			return -ENOMEM;
		p->sheets[p->n_sheets++] = (struct sheet_peaks){ .num = s->sheet_num,
								 .rss_mb.max = F64_UNKNOWN,
								 .cpu_percent.max = F64_UNKNOWN };
	}
	peak_add(p, &p->sheets[i].rss_mb, s->rss_mb);
	peak_add(p, &p->sheets[i].cpu_percent, s->cpu_percent);
	return 0;
}

/* ---- system calls ---- */

/* hint: where it may be, since samples name them in much the same order. NULL: no room for it. */
static struct syscall_share *find_hotspot(struct profile *p, const char *name, size_t hint)
{
	for (size_t i = 0; i < p->n_hotspots; i++) {
		struct syscall_share *h = &p->hotspots[(hint + i) % p->n_hotspots];

		if (strcmp(h->name, name) == 0)
			return h;
	}
	if (p->n_hotspots == PROFILE_MAX_SYSCALLS ||
	    strnlen(name, PROFILE_MAX_SYSCALL_BYTES + 1) > PROFILE_MAX_SYSCALL_BYTES)
		return NULL;
	name = arena_strdup(&p->names, name);
	if (!name)
		return NULL;
	p->hotspots[p->n_hotspots] = (struct syscall_share){ .name = name, .pct = 0.0 };
	return &p->hotspots[p->n_hotspots++];
}

/* ---- samples and events ---- */

static bool is_ours(const struct profile *p, const char *job_id)
{
	return job_id && strcmp(job_id, p->job_id) == 0;
}

int profile_add_sample(struct profile *p, const struct profile_sample *s)
{
	int r;
	size_t hint = 0;

	if (!is_ours(p, s->job_id))
		return 0;
	p->n_samples++;
	peak_add(p, &p->rss_mb, s->rss_mb);
	for (size_t i = 0; i < s->n_syscalls; i++) {
		struct syscall_share *h;

		if (!isfinite(s->syscalls[i].pct))
			continue;
		h = find_hotspot(p, s->syscalls[i].name, hint);
		if (!h)
			continue;
		h->pct += s->syscalls[i].pct;
		hint = (size_t)(h - p->hotspots) + 1;
	}
	r = add_process(p, s->key, s->cpu_ns);
	return r < 0 ? r : add_to_sheet(p, s);
}

int profile_add_snapshot(struct profile *p, const struct snapshot *s)
{
	profile_begin_tick(p, s->boot_id);
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct proc_sample *process = &s->processes[i];
		const struct profile_sample sample = {
			.job_id = process->job_id,
			.key = process->key,
			.sheet_num = process->sheet_num,
			.rss_mb = u64_to_mb(process->rss_bytes),
			.cpu_percent = process->cpu_percent,
			.cpu_ns = u64_max_known(process->cpu_ns,
						u64_add(process->user_ns, process->system_ns)),
		};
		int r = profile_add_sample(p, &sample);

		if (r < 0)
			return r;
	}
	return 0;
}

void profile_add_event(struct profile *p, const struct proc_event *ev)
{
	if (ev->type == EVENT_SPAWN && is_ours(p, ev->job_id))
		p->n_spawns++;
}

/* ---- results ---- */

double profile_peak_rss_mb(const struct profile *p)
{
	return p->rss_mb.max;
}

double profile_cpu_seconds(const struct profile *p)
{
	return p->has_cpu ? u64_to_seconds(p->cpu_ns) : F64_UNKNOWN;
}

static void key_f64(struct json *j, const char *key, double v)
{
	json_key_f64(j, key, isfinite(v) ? v : 0.0);
}

void profile_write_json(struct json *j, const struct profile *p)
{
	json_begin_object(j);
	json_key_string(j, "job_id", p->job_id);
	key_f64(j, "peak_rss_mb", profile_peak_rss_mb(p));
	key_f64(j, "total_cpu_seconds", profile_cpu_seconds(p));
	json_key_u64(j, "process_spawn_count", p->n_spawns);

	json_key_object(j, "syscall_hotspots");
	for (size_t i = 0; i < p->n_hotspots; i++)
		key_f64(j, p->hotspots[i].name, p->hotspots[i].pct);
	json_end_object(j);

	json_key_object(j, "sheet_metrics");
	for (size_t i = 0; i < p->n_sheets; i++) {
		char num[16];

		snprintf(num, sizeof(num), "%d", p->sheets[i].num);
		json_key_object(j, num);
		key_f64(j, "peak_rss_mb", p->sheets[i].rss_mb.max);
		key_f64(j, "max_cpu_pct", p->sheets[i].cpu_percent.max);
		json_end_object(j);
	}
	json_end_object(j);

	json_key_u64(j, "unique_pid_count", p->n_pids);
	json_end_object(j);
}

#define MIN_SLOPE_POINTS 3

/* How long some tasks of the host stalled: a counter, from the first sight to the last. */
struct stall {
	uint64_t first_us, last_us;
};

struct gather {
	const struct attempt *attempt;
	struct profile *samples;
	uint64_t first_ns, last_ns; /* of the snapshots */
	struct stall memory, io, cpu;
};

struct gather *gather_new(const struct attempt *a)
{
	struct gather *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->attempt = a;
	g->first_ns = U64_UNKNOWN;
	g->samples = profile_new(a->job_id, PROFILE_PROCTOR);
	return g->samples ? g : gather_free(g);
}

struct gather *gather_free(struct gather *g)
{
	if (g)
		profile_free(g->samples);
	free(g);
	return NULL;
}

/* ---- snapshots ---- */

static void note_stall(struct stall *stall, const struct psi *psi, bool is_first)
{
	if (is_first)
		stall->first_us = psi->some.total_us;
	stall->last_us = psi->some.total_us;
}

int gather_add_snapshot(struct gather *g, const struct snapshot *snap)
{
	bool is_first = !u64_known(g->first_ns);

	if (is_first)
		g->first_ns = snap->wall_ns;
	g->last_ns = snap->wall_ns;
	note_stall(&g->memory, &snap->system.psi_memory, is_first);
	note_stall(&g->io, &snap->system.psi_io, is_first);
	note_stall(&g->cpu, &snap->system.psi_cpu, is_first);
	return profile_add_snapshot(g->samples, snap);
}

static double stall_pct(const struct gather *g, const struct stall *stall)
{
	uint64_t us = u64_delta(stall->last_us, stall->first_us);

	if (!u64_known(g->first_ns) || g->last_ns <= g->first_ns || !u64_known(us))
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
		for (size_t i = 0; i < a->n_series; i++) {
			const struct series_point *p = &a->series[i];
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

static void take_usage(const struct usage *u, struct run_record *run)
{
	run->max_process_rss_mb = u64_to_mb(u->max_process_rss_bytes);
	run->wall_seconds = u64_to_seconds(u->wall_ns);
	run->io_mb = u64_to_mb(u64_add(u->rchar, u->wchar));
	run->major_faults = count_of(u->major_faults);
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

/* Samples improve a figure that is unknown, or a lower bound: sampled memory was in use. */
static double better_of(double accounted, enum evidence evidence, double sampled)
{
	bool is_floor = evidence == EVIDENCE_SAMPLED || evidence == EVIDENCE_LOWER_BOUND;

	if (!f64_known(sampled))
		return accounted;
	if (!f64_known(accounted) || evidence == EVIDENCE_UNKNOWN)
		return sampled;
	return is_floor ? fmax(accounted, sampled) : accounted;
}

/* The share of each call in the time that all of them took on a CPU. NULL stays if none was timed.
 */
static int take_syscalls(const struct attempt *a, struct run_record *run, struct arena *arena)
{
	CLEANUP(free_ptr) struct syscall_share *shares = calloc(a->n_syscalls + 1, sizeof(*shares));
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	double total_ns = 0;

	if (!shares)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_syscalls; i++) {
		uint64_t cpu_ns = a->syscalls[i].cpu_ns;

		shares[i].name = a->syscalls[i].name;
		shares[i].pct = u64_known(cpu_ns) ? (double)cpu_ns : 0;
		total_ns += shares[i].pct;
	}
	if (!(total_ns > 0))
		return 0;
	for (size_t i = 0; i < a->n_syscalls; i++)
		shares[i].pct = 100.0 * shares[i].pct / total_ns;
	run_write_shares(shares, a->n_syscalls, &text);
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
	take_usage(u, run);
	take_processes(a, run, 0);
	take_curve(a, run, 0);
	run->peak_rss_mb = better_of(u64_to_mb(u->peak_rss_bytes), u->peak_rss_evidence,
				     profile_peak_rss_mb(g->samples));
	run->cpu_seconds = better_of(u64_to_seconds(u64_add(u->user_ns, u->system_ns)),
				     u->cpu_evidence, profile_cpu_seconds(g->samples));
	run->spawn_count = count_of(u->spawn_count);
	run->memory_stall_pct = stall_pct(g, &g->memory);
	run->io_stall_pct = stall_pct(g, &g->io);
	run->cpu_stall_pct = stall_pct(g, &g->cpu);
	/* The job's own share of the GPU: others may use it too. */
	run->gpu_memory_mb = u64_to_mb(u->peak_gpu_bytes);
	if (u64_known(u->gpu_busy_ns) && u64_known(u->wall_ns) && u->wall_ns > 0)
		run->gpu_utilization_pct = 100.0 * (double)u->gpu_busy_ns / (double)u->wall_ns;
	run->anomalies = arena_strdup(&list->arena, anomalies);
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

	if (!run)
		return -ENOMEM;
	run->sheet_num = sheet->num;
	run->outcome = sheet->outcome;
	run->started_wall_ns = sheet->started_wall_ns;
	run->ended_wall_ns = sheet->ended_wall_ns;
	take_usage(&sheet->usage, run);
	run->peak_rss_mb = u64_to_mb(sheet->usage.peak_rss_bytes);
	run->cpu_seconds = u64_to_seconds(u64_add(sheet->usage.user_ns, sheet->usage.system_ns));
	run->spawn_count = count_of(sheet->usage.spawn_count);
	take_processes(a, run, sheet->num);
	take_curve(a, run, sheet->num);
	return describe(a, sheet->command, 1, run, &list->arena);
}

int gather_finish(struct gather *g, const char *anomalies, struct run_list *list)
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
