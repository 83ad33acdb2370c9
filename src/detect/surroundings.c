#include "detect/surroundings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

#define GPU_HELD_SHARE 0.05
#define GPU_IDLE_PERCENT 1
#define FORGET_AFTER_TICKS 3

void surroundings_init(struct surroundings *s)
{
	*s = (struct surroundings){ .host_kills = U64_UNKNOWN };
	surroundings_forget(s);
}

void surroundings_release(struct surroundings *s)
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

/* MB per second since the last tick, in and out; NaN. */
static double swap_rate(const struct surroundings *s, const struct tick *t)
{
	const struct system_sample *now = &t->snap->system;

	if (!s->has_before || !(t->step > 0))
		return F64_UNKNOWN;
	return u64_to_mb(u64_add(u64_delta(now->swap_in_bytes, s->before.swap_in_bytes),
				 u64_delta(now->swap_out_bytes, s->before.swap_out_bytes))) /
	       t->step;
}

static void note_swap(struct surroundings *s, const struct config_anomaly *config, struct tick *t)
{
	double before = f64_known(t->step) ? t->now - t->step : t->now;
	double rate = swap_rate(s, t);

	t->swap_rate = rate;
	t->calm_swap_rate = s->calm_swap_rate;
	note_since(&s->swapping, rate >= config->swap_storm_mb_per_second, before);
	t->swapping = s->swapping;
	if (rate < config->swap_storm_mb_per_second)
		s->calm_swap_rate = rate;
}

void surroundings_begin(struct surroundings *s, const struct config_anomaly *config, struct tick *t)
{
	const struct system_sample *now = &t->snap->system;

	s->n_ticks++;
	note_since(&s->io_stalled, now->psi_io.full.avg10 >= config->io_stall_percent, t->now);
	note_swap(s, config, t);
	s->has_psi_memory |= f64_known(now->psi_memory.full.avg10);
	t->around = s;
	t->before = s->has_before ? &s->before : NULL;
	t->io_stalled = s->io_stalled;
	t->has_psi_memory = s->has_psi_memory;
}

uint64_t surroundings_hash_path(const char *path)
{
	return hash_bytes(HASH_INIT, path, strlen(path));
}

struct cgroup_past *surroundings_find_cgroup(const struct surroundings *s, const char *path)
{
	uint64_t i;

	return map_get(&s->by_cgroup, surroundings_hash_path(path), &i) ? &s->cgroups[i] : NULL;
}

static void see_cgroup(struct surroundings *s, const char *path, size_t at)
{
	struct cgroup_past *past = surroundings_find_cgroup(s, path);

	if (!past && s->cgroups && s->n_cgroups < SURROUNDINGS_CGROUPS &&
	    map_put(&s->by_cgroup, surroundings_hash_path(path), s->n_cgroups) == 0) {
		past = &s->cgroups[s->n_cgroups++];
		*past = (struct cgroup_past){ .hash = surroundings_hash_path(path),
					      .oom_kills = U64_UNKNOWN,
					      .sheet_num = SHEET_NONE,
					      .sheet_before = SHEET_NONE,
					      .killed_sheet = SHEET_NONE,
					      .stall = F64_UNKNOWN };
		snprintf(past->path, sizeof(past->path), "%s", path);
	}
	if (!past)
		return;
	past->seen = s->n_ticks;
	past->at = at;
}

void surroundings_see_cgroups(struct surroundings *s, const struct snapshot *snap)
{
	if (!s->cgroups && snap->n_cgroups > 0)
		s->cgroups = calloc(SURROUNDINGS_CGROUPS, sizeof(*s->cgroups));
	for (size_t i = 0; i < s->n_cgroups; i++)
		s->cgroups[i].at = SIZE_MAX;
	for (size_t i = 0; i < snap->n_cgroups; i++)
		see_cgroup(s, snap->cgroups[i].path, i);
}

void surroundings_set_job(const struct surroundings *s, struct cgroup_past *past,
			  const struct proc_sample *p)
{
	const bool is_same =
		strcmp(past->job_id, p->job_id) == 0 && past->attempt_id == p->attempt_id;

	snprintf(past->job_id, sizeof(past->job_id), "%s", p->job_id);
	past->attempt_id = p->attempt_id;
	past->sheet_before = is_same ? past->sheet_num : SHEET_NONE;
	past->sheet_num = p->sheet_num;
	past->job_seen = s->n_ticks;
}

/* One that cannot be read for a moment is still there, and kills may wait to be told. */
static void drop_cgroups(struct surroundings *s, double now)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_cgroups; i++)
		if (s->n_ticks - s->cgroups[i].seen < FORGET_AFTER_TICKS ||
		    kills_is_open(&s->cgroups[i].kills, now))
			s->cgroups[n++] = s->cgroups[i];
	if (n == s->n_cgroups)
		return;
	s->n_cgroups = n;
	map_clear(&s->by_cgroup);
	for (size_t i = 0; i < n; i++)
		map_put(&s->by_cgroup, s->cgroups[i].hash, i); /* there was room for more */
}

void surroundings_see_gpu(struct surroundings *s, const struct gpu_sample *gpu, struct tick *t)
{
	/* The use is of a moment, in which short work may not be seen; shares are of a time. */
	bool is_idle = gpu->utilization_pct < GPU_IDLE_PERCENT && !(gpu->top_share_pct > 0) &&
		       gpu->memory_used_mb >= GPU_HELD_SHARE * gpu->memory_total_mb;
	struct gpu_past *past;

	t->gpu_idle = t->gpu_percent = t->gpu_celsius = F64_UNKNOWN;
	t->gpu_has_brakes = t->gpu_has_celsius = false;
	if (gpu->index < 0 || gpu->index >= SURROUNDINGS_GPUS)
		return;
	past = &s->gpus[gpu->index];
	note_since(&past->idle, is_idle, t->now);
	t->gpu_idle = past->idle;
	t->gpu_percent = past->percent;
	t->gpu_celsius = past->celsius;
	past->percent = 100 * gpu->memory_used_mb / gpu->memory_total_mb;
	past->celsius = gpu->temperature_c;
	past->has_brakes |= u64_known(gpu->throttle);
	past->has_celsius |= f64_known(gpu->temperature_c);
	t->gpu_has_brakes = past->has_brakes;
	t->gpu_has_celsius = past->has_celsius;
}

void surroundings_pass_kills(struct surroundings *s, const struct snapshot *snap)
{
	s->host_kills = u64_max_known(snap->system.oom_kills_total, s->host_kills);
}

void surroundings_forget(struct surroundings *s)
{
	s->has_before = false;
	s->io_stalled = s->swapping = s->calm_swap_rate = F64_UNKNOWN;
	for (size_t i = 0; i < SURROUNDINGS_GPUS; i++)
		s->gpus[i].idle = s->gpus[i].percent = s->gpus[i].celsius = F64_UNKNOWN;
}

void surroundings_end(struct surroundings *s, const struct tick *t)
{
	s->before = t->snap->system;
	s->has_before = true;
	drop_cgroups(s, t->now);
}
