#include "detect/host_past.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"
#include "detect/detect.h"

/* ---- what the host is doing ---- */

static double cpu_of(const struct proc_sample *p)
{
	return f64_known(p->cpu_percent) ? p->cpu_percent : 0;
}

static double memory_of(const struct proc_sample *p)
{
	return u64_known(p->rss_bytes) ? (double)p->rss_bytes : 0;
}

typedef double rank_fn(const struct proc_sample *p);

/* The largest so many, in order; what has nothing is not among them. */
static size_t find_top(const struct snapshot *s, rank_fn *rank, struct anomaly_process *ret)
{
	const struct proc_sample *top[ANOMALY_TOP + 1]; /* and a place for one that is too small */
	size_t n = 0;

	for (size_t i = 0; i < s->n_processes; i++) {
		const struct proc_sample *p = &s->processes[i];
		size_t at = n;

		if (!(rank(p) > 0))
			continue;
		for (; at > 0 && rank(p) > rank(top[at - 1]); at--)
			top[at] = top[at - 1];
		top[at] = p;
		n += n < ANOMALY_TOP;
	}
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct anomaly_process){ .key = top[i]->key,
						   .cpu_percent = top[i]->cpu_percent,
						   .rss_bytes = top[i]->rss_bytes };
		memcpy(ret[i].comm, top[i]->comm, sizeof(ret[i].comm));
		snprintf(ret[i].job_id, sizeof(ret[i].job_id), "%s",
			 top[i]->job_id ? top[i]->job_id : "");
	}
	return n;
}

void detect_describe_host(const struct snapshot *s, struct anomaly_host *ret)
{
	const struct system_sample *sys = &s->system;

	*ret = (struct anomaly_host){
		.memory_total_bytes = sys->memory_total_bytes,
		.memory_available_bytes = sys->memory_available_bytes,
		.swap_free_bytes = sys->swap_free_bytes,
		.load1 = sys->load1,
		.cpu_some = sys->psi_cpu.some.avg10,
		.memory_some = sys->psi_memory.some.avg10,
		.memory_full = sys->psi_memory.full.avg10,
		.io_some = sys->psi_io.some.avg10,
		.io_full = sys->psi_io.full.avg10,
		.n_processes = sys->process_count,
		.running_jobs = s->covers == COVERS_HOST ? s->running_jobs : -1,
		.knows_cpu = s->covers == COVERS_HOST,
		.knows_rss = s->covers == COVERS_HOST,
	};
	if (s->covers != COVERS_HOST)
		return; /* the job itself is not what else there was */
	/* Of processes without a job it may be unknown, which is not little. A dead one has none.
	 */
	for (size_t i = 0; i < s->n_processes; i++)
		ret->knows_rss &= u64_known(s->processes[i].rss_bytes) ||
				  s->processes[i].state == 'Z' || s->processes[i].state == 'X';
	ret->n_top_cpu = find_top(s, cpu_of, ret->top_cpu);
	ret->n_top_rss = find_top(s, memory_of, ret->top_rss);
}

/* ---- kills ---- */

#define COUNT_LATE_SECONDS 10 /* and not before the next tick but one */
#define REPORTED_SECONDS 60   /* after which an event is of another kill */

static void enter(uint64_t *n, double *since, uint64_t more, double now)
{
	if (*n == 0)
		*since = now;
	*n += more;
}

uint64_t kills_settle(struct kill_ledger *l, uint64_t n_counted, uint64_t n_known, double now,
		      double step, double wait_seconds)
{
	uint64_t settled, n_new = 0;

	n_known -= n_known < l->n_late ? n_known : l->n_late;
	l->n_late = 0;
	enter(&l->n_known, &l->known, n_known, now);
	enter(&l->n_counted, &l->counted, u64_known(n_counted) ? n_counted : 0, now);
	settled = l->n_known < l->n_counted ? l->n_known : l->n_counted;
	l->n_known -= settled;
	l->n_counted -= settled;
	if (now - l->known > fmax(COUNT_LATE_SECONDS, 2 * step))
		l->n_known = 0;
	if (now - l->counted >= wait_seconds) {
		n_new = l->n_counted;
		l->n_counted = 0;
	}
	if (n_new > 0) {
		l->n_reported += n_new;
		l->reported = now;
	}
	return u64_known(n_counted) || n_new > 0 || l->n_counted > 0 ? n_new : U64_UNKNOWN;
}

static bool has_reported(const struct kill_ledger *l, double now)
{
	return l->n_reported > 0 && now - l->reported <= REPORTED_SECONDS;
}

/* Whether an event may still say more about it. */
static bool kills_is_open(const struct kill_ledger *l, double now)
{
	return l->n_counted > 0 || has_reported(l, now);
}

bool kills_is_late(struct kill_ledger *l, double now, double at)
{
	if (!has_reported(l, now)) {
		l->n_reported = 0;
		return false;
	}
	if (at > l->reported)
		return false;
	l->n_reported--;
	l->n_late++;
	return true;
}

/* ---- from tick to tick ---- */

#define GPU_HELD_SHARE 0.05
#define GPU_IDLE_PERCENT 1
#define FORGET_AFTER_TICKS 3

void host_past_init(struct host_past *s)
{
	*s = (struct host_past){ .host_kills = U64_UNKNOWN };
	host_past_forget(s);
}

void host_past_release(struct host_past *s)
{
	free(s->cgroups);
	map_release(&s->by_cgroup);
	s->cgroups = NULL;
	s->n_cgroups = 0;
}

/* Since when something is so; a break ends it. */
static void note_since(double *since, bool is_so, double from)
{
	if (!is_so)
		*since = F64_UNKNOWN;
	else if (!f64_known(*since))
		*since = from;
}

void host_past_begin(struct host_past *s, const struct config_anomaly *config, struct tick *t)
{
	const struct system_sample *now = &t->snap->system;
	double before = f64_known(t->step) ? t->now - t->step : t->now;
	double rate = F64_UNKNOWN; /* of swap: MB per second since the last tick, in and out */

	s->n_ticks++;
	note_since(&s->io_stalled, now->psi_io.full.avg10 >= config->io_stall_percent, t->now);
	if (t->step > 0)
		rate = u64_to_mb(
			       u64_add(u64_delta(now->swap_in_bytes, s->before.swap_in_bytes),
				       u64_delta(now->swap_out_bytes, s->before.swap_out_bytes))) /
		       t->step;
	t->swap_rate = rate;
	note_since(&s->swapping, rate >= config->swap_storm_mb_per_second, before);
	if (rate < config->swap_storm_mb_per_second)
		s->calm_swap_rate = rate;
	s->has_psi_memory |= f64_known(now->psi_memory.full.avg10);
	t->past = s;
}

uint64_t host_past_hash_path(const char *path)
{
	return hash_bytes(HASH_INIT, path, strlen(path));
}

uint64_t host_past_hash_job(const char *job_id, int64_t attempt_id)
{
	return hash_bytes(hash_bytes(HASH_INIT, &attempt_id, sizeof(attempt_id)), job_id,
			  strlen(job_id));
}

struct cgroup_past *host_past_find_cgroup(const struct host_past *s, const char *path)
{
	uint64_t i;

	return map_get(&s->by_cgroup, host_past_hash_path(path), &i) ? &s->cgroups[i] : NULL;
}

void host_past_see_cgroups(struct host_past *s, const struct snapshot *snap)
{
	if (!s->cgroups && snap->n_cgroups > 0)
		s->cgroups = calloc(HOST_PAST_CGROUPS, sizeof(*s->cgroups));
	for (size_t i = 0; i < s->n_cgroups; i++)
		s->cgroups[i].at = SIZE_MAX;
	for (size_t i = 0; i < snap->n_cgroups; i++) {
		const char *path = snap->cgroups[i].path;
		struct cgroup_past *past = host_past_find_cgroup(s, path);

		if (!past && s->cgroups && s->n_cgroups < HOST_PAST_CGROUPS &&
		    map_put(&s->by_cgroup, host_past_hash_path(path), s->n_cgroups) == 0) {
			past = &s->cgroups[s->n_cgroups++];
			*past = (struct cgroup_past){ .hash = host_past_hash_path(path),
						      .oom_kills = U64_UNKNOWN,
						      .sheet_num = SHEET_NONE,
						      .sheet_before = SHEET_NONE,
						      .killed_sheet = SHEET_NONE,
						      .stall = F64_UNKNOWN };
			snprintf(past->path, sizeof(past->path), "%s", path);
		}
		if (past) {
			past->seen = s->n_ticks;
			past->at = i;
		}
	}
}

void host_past_see_gpu(struct host_past *s, const struct gpu_sample *gpu, struct tick *t)
{
	/* The use is of a moment, in which short work may not be seen; shares are of a time. */
	bool is_idle = gpu->utilization_pct < GPU_IDLE_PERCENT && !(gpu->top_share_pct > 0) &&
		       gpu->memory_used_mb >= GPU_HELD_SHARE * gpu->memory_total_mb;
	struct gpu_past *past;

	t->gpu = (struct gpu_past){ F64_UNKNOWN, F64_UNKNOWN, F64_UNKNOWN, false, false };
	if (gpu->index < 0 || gpu->index >= HOST_PAST_GPUS)
		return;
	past = &s->gpus[gpu->index];
	note_since(&past->idle, is_idle, t->now);
	past->has_brakes |= u64_known(gpu->throttle);
	past->has_celsius |= f64_known(gpu->temperature_c);
	t->gpu = *past;
	past->percent = 100 * gpu->memory_used_mb / gpu->memory_total_mb;
	past->celsius = gpu->temperature_c;
}

void host_past_forget(struct host_past *s)
{
	struct snapshot unknown;

	snapshot_init(&unknown);
	s->before = unknown.system;
	s->io_stalled = s->swapping = s->calm_swap_rate = F64_UNKNOWN;
	for (size_t i = 0; i < HOST_PAST_GPUS; i++)
		s->gpus[i].idle = s->gpus[i].percent = s->gpus[i].celsius = F64_UNKNOWN;
}

void host_past_end(struct host_past *s, const struct tick *t)
{
	size_t n = 0;

	s->before = t->snap->system;
	/* One that cannot be read for a moment is still there, and kills may wait to be told. */
	for (size_t i = 0; i < s->n_cgroups; i++)
		if (s->n_ticks - s->cgroups[i].seen < FORGET_AFTER_TICKS ||
		    kills_is_open(&s->cgroups[i].kills, t->now))
			s->cgroups[n++] = s->cgroups[i];
	if (n == s->n_cgroups)
		return;
	s->n_cgroups = n;
	map_clear(&s->by_cgroup);
	for (size_t i = 0; i < n; i++)
		map_put(&s->by_cgroup, s->cgroups[i].hash, i); /* there was room for more */
}
