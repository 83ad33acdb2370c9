/*
 * history_minutes - recorded samples a minute at a time: all there is of what is
 * older than full_resolution_hours.
 */
#ifndef PROCTOR_CLI_HISTORY_MINUTES_H
#define PROCTOR_CLI_HISTORY_MINUTES_H

#include <stdbool.h>

#include "store/store.h"

/* Where there is nothing to print: a job that is there may have no samples, a process cannot. */
int history_status_of_none(const struct history_filter *filter);

/* The exit status. */
int history_print_minutes(struct store *store, const struct history_filter *filter, bool json,
			  struct err *err);

#endif
