/*
 * so_far - what the recorded ticks of an attempt tell about it.
 */
#ifndef PROCTOR_STORE_SO_FAR_H
#define PROCTOR_STORE_SO_FAR_H

#include "base/err.h"
#include "store/store.h"

/* How many processes of an attempt there are, and of how many of them no end has told. */
struct process_count {
	size_t n, n_unaccounted;
};
int so_far_count_processes(struct store *store, int64_t attempt_id, struct process_count *ret,
			   struct err *err);

/*
 * a->processes, n at most: those that an end has told of as it did, the others by their samples,
 * as long as the attempt runs and when no more than its bare end was stored.
 */
int so_far_read_processes(struct store *store, struct attempt *a, size_t n, struct err *err);

/* a->series, by time. */
int series_read(struct store *store, struct attempt *a, struct err *err);

#endif
