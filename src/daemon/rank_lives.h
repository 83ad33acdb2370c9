/*
 * rank_lives - of each rank of an attempt: which process it is, when it ended, and what it can have
 * held at most.
 *
 * The kernel tells the peak of a process, and not when that was. Those of the processes that lived
 * at the same time, added up, are the most that a rank can have held: it may have been less.
 */
#ifndef PROCTOR_DAEMON_RANK_LIVES_H
#define PROCTOR_DAEMON_RANK_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/job.h"

struct rank_life {
	int rank, local_rank;	/* as the launcher has it, or the rank */
	pid_t pid;		/* of its first process, which is the nearest to the launcher */
	uint64_t born_wall_ns;	/* of that one; unknown */
	uint64_t ended_wall_ns; /* of its last process; unknown while one may live */
	uint64_t peak_bytes;	/* at most; unknown if that of a process is */
};

/* Which processes count. */
struct rank_lives_of {
	int sheet_num;
	uint64_t since_wall_ns; /* those that had died before do not */
	bool is_gpu;		/* GPU memory, or resident memory */
};

/* One for each rank that has a process, by rank; the caller frees them. -ENOMEM. */
int rank_lives_find(const struct attempt *a, const struct rank_lives_of *of, struct rank_life **ret,
		    size_t *ret_n);

#endif
