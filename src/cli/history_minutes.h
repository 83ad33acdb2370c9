/*
 * history_minutes - recorded samples a minute at a time: all there is of what is
 * older than full_resolution_hours.
 */
#ifndef PROCTOR_CLI_HISTORY_MINUTES_H
#define PROCTOR_CLI_HISTORY_MINUTES_H

#include <stdbool.h>

#include "store/store.h"

/*
 * Where there is nothing to print: says why, and returns the exit status. It is a failure only
 * where the process was never recorded, as a job that never was is one.
 */
int history_tell_none(struct store *store, const struct history_filter *filter);

/* Behind what was printed, which began then: says what older ones have become, if there are. */
void history_tell_older(struct store *store, const struct history_filter *filter,
			uint64_t first_wall_ns);

/* The exit status. */
int history_print_minutes(struct store *store, const struct history_filter *filter, bool json,
			  struct err *err);

#endif
