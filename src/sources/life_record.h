/*
 * life_record - from a record of the eBPF ring to an event.
 */
#ifndef PROCTOR_SOURCES_LIFE_RECORD_H
#define PROCTOR_SOURCES_LIFE_RECORD_H

#include <linux/types.h>
#include <stddef.h>

#include "bpf/life.h"
#include "sources/sources.h"

/* What the numbers in a record are counted in, and a moment on both clocks. */
struct life_units {
	uint64_t page_bytes;
	long clock_ticks;
	uint64_t mono_ns, wall_ns;
};

/* -EBADMSG: none that this version knows. */
int life_record_parse(const void *bytes, size_t len, const struct life_units *units,
		      struct life_event *ret);

#endif
