/*
 * rank_memory - the memory of all processes of a rank, with a page that several share counted once.
 *
 * The kernel counts a page for every process that has it in memory: a rank that forks eight
 * workers seems to hold nine times as much. The memory that a process and its forks share cannot be
 * read cheaply, but samples bound it. The anonymous memory of a fork at first sight is its
 * parent's, up to the size of the parent then; all growth since is its own. Of mapped files and of
 * shared memory the process with the most stands for all. So a page is counted once at most. A page
 * that a fork has copied by writing to it is not seen, as in resident memory itself.
 *
 * A rank of one process holds exactly the resident memory of that process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "model/snapshot.h"

/* One rank of one sheet at a tick. A value is unknown if that of one of its processes is. */
struct rank_holding {
	int rank, sheet_num;
	uint64_t bytes, gpu_bytes;
	uint64_t cpu_ns;    /* CPU time of its processes so far, and of children they waited for */
	double gpu_percent; /* GPU time since the tick before, on all its GPUs; 100 is one GPU */
	bool uses_gpu;
};

struct rank_member;
struct rank_fork;

struct rank_memory {
	struct rank_member *members; /* of the tick */
	size_t n_members, cap_members;
	struct rank_fork *forks; /* of all processes so far */
	size_t n_forks, cap_forks;
	struct map by_process; /* the number of its fork */
	uint64_t n_ticks;
};

#define RANK_MEMORY_INIT \
	{                \
		0        \
	}

void rank_memory_release(struct rank_memory *m);

/* One process of a rank, of the tick that is being gathered. -ENOMEM. */
int rank_memory_add(struct rank_memory *m, const struct proc_sample *p);

/*
 * Ends the tick, and calls fn for each rank and sheet of it, by rank. Ticks come in their order.
 * Non-zero stops and is returned. -ENOMEM.
 */
typedef int rank_memory_fn(void *ctx, const struct rank_holding *holding);
int rank_memory_end_tick(struct rank_memory *m, rank_memory_fn *fn, void *ctx);
