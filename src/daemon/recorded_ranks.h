/*
 * recorded_ranks - the telemetry of the ranks of an attempt, from what was recorded of it.
 *
 * A rank's memory at a tick is that of its processes: GPU memory where any process of the
 * sheet used a GPU, resident memory otherwise, of which pages that several have count
 * once (rank_memory.h). It is made of their samples, so nothing is kept twice. Where several sheets
 * of a job have ranks, or a sheet was tried again, it is the last of them: rank 3 of one has
 * nothing to do with rank 3 of another.
 */
#ifndef PROCTOR_DAEMON_RECORDED_RANKS_H
#define PROCTOR_DAEMON_RECORDED_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/job.h"
#include "store/store.h"

/* One rank at one tick. */
struct rank_point {
	uint64_t wall_ns;
	int rank, sheet_num;
	uint64_t bytes, gpu_bytes; /* in memory; unknown if that of one of its processes is */
	bool uses_gpu;
};

/* Who a rank is: its first process, which is the nearest to the launcher. */
struct recorded_rank {
	int rank, local_rank;
	pid_t pid;
	size_t first, n;	/* of the points; none: it ended before it was sampled */
	uint64_t born_wall_ns;	/* its first process; unknown */
	uint64_t ended_wall_ns; /* of its last process; unknown while one may live */
	uint64_t peak_bytes;	/* the most that it can have held (rank_lives.h) */
};

struct recorded_ranks {
	const struct attempt *a;   /* borrowed */
	struct rank_point *points; /* by rank, then time */
	size_t n_points, cap;
	struct recorded_rank *ranks; /* by rank */
	size_t n_ranks;
	int world_size;
	int sheet_num;		/* of all points */
	uint64_t since_wall_ns; /* the try began */
	bool is_gpu;
	struct arena arena;
};

/* Of an attempt with all that the store has of it. No points: it has no ranks, or no samples. */
int recorded_ranks_read(struct store *store, const struct attempt *a, struct recorded_ranks *ret,
			struct err *err);
void recorded_ranks_release(struct recorded_ranks *r);

/*
 * All of it as telemetry records (crossrank/event.h), rank by rank: "rank_start" where it is known,
 * samples, then the phases that its processes entered and left, then "rank_end" where it has
 * ended. Non-zero stops and is
 * returned. -ENOMEM.
 */
struct telemetry_event;
typedef int rank_event_fn(void *ctx, const struct telemetry_event *ev);
int recorded_ranks_each(struct recorded_ranks *r, rank_event_fn *fn, void *ctx);

/* The same into t, for an analysis. */
struct telemetry;
int recorded_ranks_gather(struct recorded_ranks *r, struct telemetry *t);

/*
 * Analyses it and sets a->telemetry, where the attempt has ranks. -ENOMEM, and what reading
 * fails with.
 */
int recorded_ranks_judge(struct store *store, struct attempt *a, struct err *err);

#endif
