/*
 * host - reads the files of /proc about the whole machine.
 */
#ifndef PROCTOR_SOURCES_HOST_H
#define PROCTOR_SOURCES_HOST_H

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

#endif
