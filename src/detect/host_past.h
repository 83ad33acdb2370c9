/*
 * host_past - state of the host, its GPUs and the cgroups of jobs that is kept from tick to
 * tick. Bounded: GPUs and cgroups beyond the first so many are evaluated as if for the first
 * time at each tick.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/map.h"
#include "detect/checks.h"
#include "model/anomaly.h"
#include "model/job.h"
#include "model/snapshot.h"

/*
 * ---- kills: OOM kills that a count has and no event ----
 *
 * The same kill is reported by an event (which process it was), by the count of its cgroup, by
 * those of the cgroups above, and by that of the host, in any order and not at the same
 * tick. A ledger is of one count: a counted kill waits a little for an event that explains
 * it, and an event waits a little for its count. The rest is reported; an event that comes
 * even later adds to that, and is no other kill.
 */

/* All zeros is empty. Times are seconds. */
struct kill_ledger {
	uint64_t n_counted, n_known; /* that have no counterpart yet */
	double counted, known;	     /* since when */
	uint64_t n_reported;	     /* by the count alone */
	double reported;	     /* the last of them */
	uint64_t n_late;	     /* events of these since the last tick */
};

#define KILLS_EVENT_LATE_SECONDS 2 /* a runner writes it down, and others read that */

/*
 * So many more were counted (U64_UNKNOWN: nobody counts) and so many more are known since the
 * last tick, which was step seconds ago (NaN: there was none). What is counted waits for so long.
 * Returns how many are to be told as
 * nobody knows whose they are; U64_UNKNOWN: nobody counts, and none waits.
 */
uint64_t kills_settle(struct kill_ledger *l, uint64_t n_counted, uint64_t n_known, double now,
		      double step, double wait_seconds);

/*
 * Whether an event is late: of a kill that was told already, so it happened before that (at).
 * Each takes one of these.
 */
bool kills_is_late(struct kill_ledger *l, double now, double at);

/* ---- from tick to tick ---- */

#define HOST_PAST_GPUS 64
#define HOST_PAST_CGROUPS 1024

struct cgroup_past {
	uint64_t hash;	/* of its path */
	char path[128]; /* the beginning of it, for words */
	uint64_t oom_kills;
	double stall; /* of its tasks, at the last tick */
	bool has_psi; /* that was known once: now unknown, it is lost, and not none */
	struct kill_ledger kills;
	uint64_t rose; /* the tick of tracks.h at which its count last rose while none waited */
	bool reported_of_job;	     /* what its count told last was of the job */
	bool is_shared;		     /* another job was in it at the same time, once */
	char job_id[JOB_ID_MAX + 1]; /* whose it is, or was last; "": not known */
	int64_t attempt_id;
	uint64_t job;		     /* the hash of these two; 0: not known */
	uint64_t n_events;	     /* of kills of this job at this tick */
	int sheet_num, sheet_before; /* that the job was in at this look, and at the one before */
	int killed_sheet;	     /* that it was in when the count last rose while none waited */
	uint64_t seen, job_seen;     /* at which ticks */
	size_t at;		     /* in the snapshot of this tick; SIZE_MAX: it is not there */
};

struct host_past {
	struct system_sample before; /* at the last tick; all unknown: there was none */
	double io_stalled, swapping; /* since when it is over its threshold; NaN: it is not */
	double calm_swap_rate;	     /* MB per second when it last did not swap much; NaN */
	bool has_psi_memory;	     /* that was known once */
	uint64_t host_kills; /* the last known count; U64_UNKNOWN. Of this boot: it only rises */
	struct gpu_past gpus[HOST_PAST_GPUS];
	struct kill_ledger kills; /* of the host */
	struct map by_cgroup;	  /* hash -> index */
	struct cgroup_past *cgroups;
	size_t n_cgroups;
	uint64_t n_ticks;
};

/* What a cgroup is known by, and a job. */
uint64_t host_past_hash_path(const char *path);
uint64_t host_past_hash_job(const char *job_id, int64_t attempt_id);

void host_past_init(struct host_past *s);
void host_past_release(struct host_past *s);

/* Fills in what the tick says of the host. */
void host_past_begin(struct host_past *s, const struct config_anomaly *config, struct tick *t);

/* Those of this tick are remembered from now on, as far as there is room. */
void host_past_see_cgroups(struct host_past *s, const struct snapshot *snap);

/* NULL: nothing is remembered of it. Valid until the next tick. */
struct cgroup_past *host_past_find_cgroup(const struct host_past *s, const char *path);
/* Fills in what the tick says of this one. */
void host_past_see_gpu(struct host_past *s, const struct gpu_sample *gpu, struct tick *t);

/* Nobody looked for a while: what was so then says nothing of now. */
void host_past_forget(struct host_past *s);

/* Keeps what the next tick needs, and forgets cgroups that are gone. */
void host_past_end(struct host_past *s, const struct tick *t);
