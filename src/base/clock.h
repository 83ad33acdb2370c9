/*
 * clock - the two clocks proctor uses.
 *
 * Wall time names a moment for people; boot time (which also runs while the
 * machine sleeps) measures lengths, and is the clock of a process's start time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t clock_wall_ns(void);
uint64_t clock_boot_ns(void);

/* CPU time that this process has used so far. */
uint64_t clock_cpu_ns(void);

/* How far the wall clock may be from the true time, as the kernel knows it. */
struct clock_quality {
	uint64_t error_ns;   /* at most; U64_UNKNOWN: not known, or unbounded */
	int is_synchronised; /* with another clock; -1: unknown */
};

/* Both unknown where this process may not ask. */
struct clock_quality clock_read_quality(void);

/* Unix seconds. */
static inline double clock_ns_to_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Local time as "2026-11-15 03:45:08" into text; returns text. */
const char *clock_format_local(uint64_t wall_ns, char *text, size_t size);
