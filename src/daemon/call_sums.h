/*
 * call_sums - what many processes have called, added up by the name of the call.
 *
 * Of so many names as samples can have; what a program makes up beyond that is left out,
 * and counted.
 */
#ifndef PROCTOR_DAEMON_CALL_SUMS_H
#define PROCTOR_DAEMON_CALL_SUMS_H

#include <stddef.h>

#include "base/map.h"
#include "model/snapshot.h"

/* All zero is a good beginning. Owns the names. */
struct call_sums {
	struct syscall_use *uses;
	size_t n, cap;
	uint64_t n_left_out; /* calls */
	struct map by_name;  /* from the hash of a name, or the next free number, to its place */
};

void call_sums_release(struct call_sums *sums);

/* Unknown and anything is unknown. What there is no room or memory for is left out. */
void call_sums_add(struct call_sums *sums, const struct syscall_use *uses, size_t n);

/* The most time on a CPU first, as reports show them. Nothing can be added any more. */
void call_sums_sort(struct call_sums *sums);

#endif
