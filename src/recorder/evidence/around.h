/*
 * around - who has the most memory of all processes, when something begins.
 *
 * A tick without eBPF reads the memory of nobody but jobs, as it costs a file of each process. So
 * that is read where it is told.
 */
#ifndef PROCTOR_RECORDER_EVIDENCE_AROUND_H
#define PROCTOR_RECORDER_EVIDENCE_AROUND_H

#include <stddef.h>
#include <stdint.h>

#include "model/anomaly.h"
#include "model/snapshot.h"

/* All zero: nobody has looked. */
struct around {
	uint64_t boot_ns; /* the tick that it is of */
	size_t n_top_rss;
	struct anomaly_process top_rss[ANOMALY_TOP];
};

/* By the processes of the snapshot, in which the memory that is unknown is filled in. */
void around_look(int root_fd, struct snapshot *all, uint64_t boot_ns, struct around *ret);

/* Makes it what is told. */
void around_tell(const struct around *around, struct anomaly_host *host);

#endif
