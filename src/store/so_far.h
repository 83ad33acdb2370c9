/*
 * so_far - what the recorded ticks of an attempt tell about it.
 */
#ifndef PROCTOR_STORE_SO_FAR_H
#define PROCTOR_STORE_SO_FAR_H

#include "base/err.h"
#include "store/store.h"

/* a->processes, of an attempt that has not ended, by their samples. */
int so_far_read_processes(struct store *store, struct attempt *a, struct err *err);

/* a->series, by time. */
int series_read(struct store *store, struct attempt *a, struct err *err);

#endif
