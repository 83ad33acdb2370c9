/*
 * surroundings - what is remembered of the host, its GPUs and the cgroups of jobs from tick to
 * tick. Bounded: GPUs and cgroups beyond the first so many are looked at as if for the first
 * time at each tick.
 */
#ifndef PROCTOR_DETECT_SURROUNDINGS_H
#define PROCTOR_DETECT_SURROUNDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "detect/checks.h"
#include "model/snapshot.h"

#define SURROUNDINGS_GPUS 64
#define SURROUNDINGS_CGROUPS 1024

struct cgroup_past {
	uint64_t hash; /* of its path */
	uint64_t oom_kills;
	uint64_t seen;
};

struct surroundings {
	struct system_sample before;
	bool has_before;
	double io_stalled, swapping; /* since when; NaN */
	double gpu_idle[SURROUNDINGS_GPUS];
	uint64_t n_oom_events; /* at the last tick */
	struct cgroup_past *cgroups;
	size_t n_cgroups;
	uint64_t n_ticks;
};

void surroundings_init(struct surroundings *s);
void surroundings_release(struct surroundings *s);

/* Fills in what the tick says of the host. */
void surroundings_begin(struct surroundings *s, const struct config_anomaly *config,
			struct tick *t);

/* OOM kills in it since the last tick; U64_UNKNOWN: it is new, or nobody counts. */
uint64_t surroundings_new_kills(struct surroundings *s, const struct cgroup_sample *c);

/* Since when its memory is held while it does nothing; NaN: that is not so. */
double surroundings_gpu_idle(struct surroundings *s, const struct gpu_sample *gpu, double now);

/* Keeps what the next tick needs. */
void surroundings_end(struct surroundings *s, const struct tick *t);

#endif
