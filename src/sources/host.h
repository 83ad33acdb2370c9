/*
 * host - what the kernel says of the whole machine and of its cgroups.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/snapshot.h"

/* What the kernel counts in. */
struct host_units {
	long clock_ticks; /* per second */
	uint64_t page_bytes;
};

/*
 * Fills s->boot_id and s->system but for process_count, from files below
 * proc_fd. What cannot be read stays as it is: unknown. text is for its own use.
 * -EMFILE, -ENFILE: some of it for want of files; who closes some may ask again.
 */
int host_read(int proc_fd, const struct host_units *units, struct buf *text, struct snapshot *s);

/* ---- the memory of the cgroups that jobs' processes are in, and how many may be there ---- */

#define CGROUPS_MAX 64 /* the first so many of a snapshot are read */

/*
 * Fills s->cgroups from files below root_fd's sys/fs/cgroup, of v2 or of v1's memory
 * controller: one for each cgroup of a process that belongs to a job. One of which nothing can be
 * read is left out. NULL stays where memory runs out.
 */
void cgroups_read(int root_fd, struct snapshot *s);
