#include "detect/surroundings.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

#define GPU_HELD_SHARE 0.05
#define GPU_IDLE_PERCENT 1

void surroundings_init(struct surroundings *s)
{
	*s = (struct surroundings){ .io_stalled = F64_UNKNOWN, .swapping = F64_UNKNOWN };
	for (size_t i = 0; i < SURROUNDINGS_GPUS; i++)
		s->gpu_idle[i] = F64_UNKNOWN;
}

void surroundings_release(struct surroundings *s)
{
	free(s->cgroups);
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

static bool is_swapping(const struct surroundings *s, const struct config_anomaly *config,
			const struct tick *t)
{
	const struct system_sample *now = &t->snap->system;
	uint64_t bytes;

	if (!s->has_before || !(t->step > 0))
		return false;
	bytes = u64_add(u64_delta(now->swap_in_bytes, s->before.swap_in_bytes),
			u64_delta(now->swap_out_bytes, s->before.swap_out_bytes));
	return u64_to_mb(bytes) / t->step >= config->swap_storm_mb_per_second;
}

void surroundings_begin(struct surroundings *s, const struct config_anomaly *config, struct tick *t)
{
	double before = f64_known(t->step) ? t->now - t->step : t->now;

	s->n_ticks++;
	note_since(&s->io_stalled, t->snap->system.psi_io.full.avg10 >= config->io_stall_percent,
		   t->now);
	note_since(&s->swapping, is_swapping(s, config, t), before);
	t->before = s->has_before ? &s->before : NULL;
	t->io_stalled = s->io_stalled;
	t->swapping = s->swapping;
	t->n_oom_events = s->n_oom_events;
}

/* The one with this hash, or a place for it; NULL: there is no room. */
static struct cgroup_past *find_cgroup(struct surroundings *s, uint64_t hash)
{
	struct cgroup_past *oldest = NULL;

	for (size_t i = 0; i < s->n_cgroups; i++) {
		if (s->cgroups[i].hash == hash)
			return &s->cgroups[i];
		if (!oldest || s->cgroups[i].seen < oldest->seen)
			oldest = &s->cgroups[i];
	}
	if (!s->cgroups)
		s->cgroups = calloc(SURROUNDINGS_CGROUPS, sizeof(*s->cgroups));
	if (!s->cgroups)
		return NULL;
	if (s->n_cgroups < SURROUNDINGS_CGROUPS)
		oldest = &s->cgroups[s->n_cgroups++];
	*oldest = (struct cgroup_past){ hash, U64_UNKNOWN, 0 };
	return oldest;
}

uint64_t surroundings_new_kills(struct surroundings *s, const struct cgroup_sample *c)
{
	struct cgroup_past *past = find_cgroup(s, hash_bytes(HASH_INIT, c->path, strlen(c->path)));
	uint64_t n;

	if (!past)
		return U64_UNKNOWN;
	n = u64_delta(c->oom_kills, past->oom_kills);
	past->oom_kills = c->oom_kills;
	past->seen = s->n_ticks;
	return n;
}

double surroundings_gpu_idle(struct surroundings *s, const struct gpu_sample *gpu, double now)
{
	bool is_idle = gpu->utilization_pct < GPU_IDLE_PERCENT &&
		       gpu->memory_used_mb >= GPU_HELD_SHARE * gpu->memory_total_mb;

	if (gpu->index < 0 || gpu->index >= SURROUNDINGS_GPUS)
		return F64_UNKNOWN;
	note_since(&s->gpu_idle[gpu->index], is_idle, now);
	return s->gpu_idle[gpu->index];
}

void surroundings_end(struct surroundings *s, const struct tick *t)
{
	s->before = t->snap->system;
	s->has_before = true;
}
