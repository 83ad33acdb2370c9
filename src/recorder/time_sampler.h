/*
 * time_sampler - where the time of a job's threads went, from samples (model/time_ledger.h).
 *
 * CPU time and the wait for a CPU are what the scheduler has counted. The rest of each interval is
 * divided by what the threads wait for at its two ends. What no sample has met is divided like the
 * other waits of the process. Of a process that lived between two samples only its CPU time is
 * known.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "model/time_ledger.h"

struct timed_process;

/* All zero is a good beginning. */
struct time_sampler {
	struct timed_process *items;
	size_t n, cap;
	struct map by_key;
	size_t n_looked_at; /* processes, since the beginning: where the next look starts */
};

void time_sampler_release(struct time_sampler *s);

/* The processes of a job in a snapshot that is filled. */
void time_sampler_add(struct time_sampler *s, int root_fd, const struct snapshot *snap);

/*
 * What is known of a process, to its end; begun_wall_ns and begun_boot_ns are one moment. Nothing:
 * evidence is EVIDENCE_UNKNOWN.
 */
void time_sampler_get(const struct time_sampler *s, const struct proc_record *p,
		      uint64_t begun_wall_ns, uint64_t begun_boot_ns, struct time_ledger *ret);

/*
 * Into the attempt, whose processes and sheets are there, once. Of each process the ledger that is
 * there already, by eBPF, or the sampled one where that covers much more of its life; sheets have
 * the sums of theirs. all: of the processes that are counted, also of those that are not listed.
 */
void time_sampler_keep(const struct time_sampler *s, uint64_t begun_boot_ns,
		       const struct time_ledger *all, struct attempt *a);
