/*
 * call_sums - what many processes have called, added up by the name of the call.
 *
 * Where times are from a sample of the calls, a process of which none was timed counts with the
 * mean of the others; else unknown and anything is unknown.
 *
 * Of so many names as samples can have; what a program makes up beyond that is left out,
 * and counted.
 */
#ifndef PROCTOR_DAEMON_CALL_SUMS_H
#define PROCTOR_DAEMON_CALL_SUMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "model/snapshot.h"

/* All zero is a good beginning. Owns the names. */
struct call_sums {
	struct syscall_use *uses;
	size_t n, cap;
	uint64_t *n_timed;   /* where is_sampled: how many calls of each name the times are of */
	bool is_sampled;     /* set before the first is added */
	uint64_t n_left_out; /* calls */
	struct map by_name;  /* from the hash of a name, or the next free number, to its place */
};

void call_sums_release(struct call_sums *sums);

/* What there is no room or memory for is left out. */
void call_sums_add(struct call_sums *sums, const struct syscall_use *uses, size_t n);

/* Times as if all calls had been timed. Nothing can be added any more; once more is no harm. */
void call_sums_settle(struct call_sums *sums);

/* The same, and the most time on a CPU first, as reports show them. */
void call_sums_sort(struct call_sums *sums);

#endif
