/*
 * compat - the five checks of the reference implementation, exactly as it computes them.
 *
 * For comparison: proctor's own checks are those of detect.h. A process is told by its pid
 * alone here, numbers are in the units of the contract, and quotients are
 * quotients, since a product gives another answer at the edge.
 *
 *	memory_spike	memory over that of the earliest snapshot inside the window (the last
 *			one where all are older); critical from twice the threshold
 *	runaway_process	at or over the threshold for so long, in consecutive snapshots
 *	zombie		there is one
 *	fd_exhaustion	1,000 files are open
 *	memory_spike	less than 10 % of the host's memory is available (of no process)
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "model/anomaly.h"

struct compat_process {
	int64_t pid;
	char state;
	double cpu_percent, rss_mb;
	int64_t open_fds;
	const char *job_id; /* or NULL */
};

struct compat_snapshot {
	double timestamp;
	double memory_total_mb, memory_available_mb;
	int64_t zombie_count;
	const int64_t *zombie_pids;
	size_t n_zombie_pids;
	const struct compat_process *processes;
	size_t n_processes;
};

/* The anomaly is valid during the call only. */
typedef void compat_fn(void *ctx, const struct anomaly *a);

/*
 * Calls fn for each anomaly, in the order of the list above, and of one check in
 * that of the processes. history: oldest first. -ENOMEM.
 */
int compat_detect(const struct config_anomaly *config, const struct compat_snapshot *history,
		  size_t n_history, const struct compat_snapshot *current, compat_fn *fn,
		  void *ctx);
