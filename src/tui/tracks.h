/*
 * track - what processes, jobs, sheets and ranks did over the last snapshots, for curves and rates.
 *
 * Pids are reused: a process is told apart by its start too. What is gone for a while is
 * forgotten, and so is the oldest of each curve.
 *
 * The kernel adds the I/O of a child to its parent's when that has waited for it. What was seen of
 * the child before is not the parent's rate: it has been told, as the child's own. Where it cannot
 * be known whether the parent got it, its rate is unknown for that once.
 *
 * With CPU time it is the same, but the kernel keeps the children's apart from the parent's own. A
 * process is shown with its own; what its children used that ended between two snapshots is the
 * job's, the sheet's and the rank's, which would not have it otherwise. What may have been told
 * before is left out of it: a sum has what is sure.
 */
#pragma once

#include "base/map.h"
#include "base/unknown.h"
#include "model/snapshot.h"

#define TRACK_POINTS 128

/* The newest is last; unknown is NaN. */
struct track {
	uint64_t key;
	uint64_t seen; /* number of the last snapshot that had it */
	unsigned n;    /* points that are there */
	unsigned next; /* where the next one goes */
	double rss_bytes[TRACK_POINTS];
	uint64_t wall_ns[TRACK_POINTS]; /* when each was */
	uint64_t parent;		/* key of the process that started it; 0: not there */
	uint64_t io_bytes;		/* read and written so far */
	uint64_t waited_bytes;		/* io_bytes of children that have ended since */
	uint64_t doubtful_bytes;	/* and of those that it may have heard of, or not */
	uint64_t cpu_ns;		/* used so far, by itself… */
	uint64_t ended_cpu_ns;		/* …and by children that it has waited for */
	uint64_t told_cpu_ns;		/* of the next ones that it may have waited for */
	uint64_t boot_ns;		/* when that was */
	bool has_waited;		/* ended_cpu_ns was seen to grow: it does wait for them */
	double io_rate;			/* bytes a second, since the snapshot before; NaN */
	double cpu_percent;		/* with children that ended since then; NaN */
};

struct track_point {
	uint64_t wall_ns;
	double rss_bytes;
};

struct tracks {
	struct track **items;
	size_t n, cap;
	struct map by_key;
	struct map by_pid; /* keys, of the last snapshot */
	uint64_t n_snapshots;
	uint64_t before_boot_ns; /* when the one before the last was made; U64_UNKNOWN */
	uint64_t boot_ns;
};

#define TRACKS_INIT                                                         \
	{                                                                   \
		NULL, 0, 0, MAP_INIT, MAP_INIT, 0, U64_UNKNOWN, U64_UNKNOWN \
	}

void tracks_release(struct tracks *t);

uint64_t track_key_of_process(const struct proc_key *key);
uint64_t track_key_of_job(const char *job_id);

/* One attempt of it: by its number, or as the processes of a snapshot have it. 0: the job itself,
 * of which no more is known. */
uint64_t track_key_of_attempt(const char *job_id, int64_t attempt);

/* A part of a job, below the job or another part. */
enum track_part { TRACK_SHEET, TRACK_RANK };
uint64_t track_key_below(uint64_t parent, enum track_part part, int number);

/* The next snapshot: adds its processes and jobs. -ENOMEM: some are missing. */
int tracks_add(struct tracks *t, const struct snapshot *s);

/* What is older than all that is there, oldest first, as far as there is room for it. */
void tracks_put_before(struct tracks *t, uint64_t key, const struct track_point *points, size_t n);

/* NULL: nothing is known of it. */
const struct track *tracks_find(const struct tracks *t, uint64_t key);

/* The i-th of n points, from the oldest. */
double track_rss(const struct track *t, unsigned i);
uint64_t track_wall_ns(const struct track *t, unsigned i);
