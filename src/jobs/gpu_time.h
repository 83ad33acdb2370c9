/*
 * gpu_time - how long GPUs worked for somebody, and how long they were held in vain.
 *
 * It is made of ticks, and at some of them the share is not told: a driver that does not
 * know it, one that fails for a while. Sums over the rest are said only where the rest is
 * the larger part, of the whole time and of the time in which memory was held. Only what was
 * before the first reading, which comes after a second or two, is taken to have been like it.
 * Who does nothing and may hold memory, of which nobody tells, may be idle: that time is in
 * neither sum, and must be the smaller part of that in which memory was held.
 */
#ifndef PROCTOR_JOBS_GPU_TIME_H
#define PROCTOR_JOBS_GPU_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "model/snapshot.h"

/* All 0 at first. */
struct gpu_time {
	uint64_t busy_ns, idle_ns;
	/* With and without a share that was told; [1]: of it, while memory was held. */
	uint64_t seen_ns[2], blind_ns[2];
	uint64_t idle_untold_ns; /* with a share, and without whether it was idle */
};

/* What somebody did with GPUs at a tick. */
struct gpu_use {
	uint64_t held_bytes;
	double percent; /* 100 = one GPU */
	/* Of which memory is held in vain; two of a process count twice. */
	double idle_devices;
	bool idle_is_least; /* of a sum: somebody's is not in it, as nobody tells of it */
};

/* Of a process; where nobody tells it by device, all that it holds are idle, as one, or none. */
struct gpu_use gpu_use_of(const struct proc_sample *p);

/* A tick; since_ns: since the one before, U64_UNKNOWN: there was none. */
void gpu_time_add(struct gpu_time *t, const struct gpu_use *use, uint64_t since_ns);

/* U64_UNKNOWN: not enough was told. */
uint64_t gpu_time_busy_ns(const struct gpu_time *t);
uint64_t gpu_time_idle_ns(const struct gpu_time *t);

/* For how long it was not told, which none of the two contains. */
uint64_t gpu_time_untold_ns(const struct gpu_time *t);

/* For how long the share was told, and not whether memory was held in vain. */
uint64_t gpu_time_idle_untold_ns(const struct gpu_time *t);

#endif
