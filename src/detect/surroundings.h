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
#include "base/map.h"
#include "detect/checks.h"
#include "detect/kills.h"
#include "model/job.h"
#include "model/snapshot.h"

#define SURROUNDINGS_GPUS 64
#define SURROUNDINGS_CGROUPS 1024

struct cgroup_past {
	uint64_t hash;	/* of its path */
	char path[128]; /* the beginning of it, for words */
	uint64_t oom_kills;
	double stall; /* of its tasks, at the last tick */
	bool has_psi; /* that was known once */
	struct kill_ledger kills;
	uint64_t rose;	  /* the tick of tracks.h at which its count last rose while none waited */
	bool told_of_job; /* what its count told last was of the job */
	bool is_shared;	  /* another job was in it at the same time, once */
	char job_id[JOB_ID_MAX + 1]; /* whose it is, or was last; "": not known */
	int64_t attempt_id;
	int sheet_num, sheet_before; /* that the job was in at this look, and at the one before */
	int killed_sheet;	     /* that it was in when the count last rose while none waited */
	uint64_t seen, job_seen;     /* at which ticks */
	size_t at;		     /* in the snapshot of this tick; SIZE_MAX: it is not there */
};

struct gpu_past {
	double idle;		      /* since when its memory is held while it does nothing; NaN */
	double percent, celsius;      /* memory in use, and how hot it was, at the last tick; NaN */
	bool has_brakes, has_celsius; /* that was known once */
};

struct surroundings {
	struct system_sample before;
	bool has_before;
	double io_stalled, swapping; /* since when; NaN */
	double calm_swap_rate;	     /* MB per second when it last did not swap much; NaN */
	bool has_psi_memory;	     /* that was known once */
	uint64_t host_kills; /* the last known count; U64_UNKNOWN. Of this boot: it only rises */
	struct gpu_past gpus[SURROUNDINGS_GPUS];
	struct kill_ledger kills; /* of the host */
	struct map by_cgroup;	  /* hash -> index */
	struct cgroup_past *cgroups;
	size_t n_cgroups;
	uint64_t n_ticks;
};

/* What a cgroup is known by. */
uint64_t surroundings_hash_path(const char *path);

void surroundings_init(struct surroundings *s);
void surroundings_release(struct surroundings *s);

/* Fills in what the tick says of the host. */
void surroundings_begin(struct surroundings *s, const struct config_anomaly *config,
			struct tick *t);

/* Those of this tick are remembered from now on, as far as there is room. */
void surroundings_see_cgroups(struct surroundings *s, const struct snapshot *snap);

/* NULL: nothing is remembered of it. Valid until the next tick. */
struct cgroup_past *surroundings_find_cgroup(const struct surroundings *s, const char *path);
/* It is of the job of this process. */
void surroundings_set_job(const struct surroundings *s, struct cgroup_past *past,
			  const struct proc_sample *p);

/* Fills in what the tick says of this one. */
void surroundings_see_gpu(struct surroundings *s, const struct gpu_sample *gpu, struct tick *t);

/* Kills that the host has counted are for somebody else to tell. */
void surroundings_pass_kills(struct surroundings *s, const struct snapshot *snap);

/* Nobody looked for a while: what was so then says nothing of now. */
void surroundings_forget(struct surroundings *s);

/* Keeps what the next tick needs, and forgets cgroups that are gone. */
void surroundings_end(struct surroundings *s, const struct tick *t);

#endif
