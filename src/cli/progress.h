/*
 * progress - one line at the bottom of a terminal that says how far a job is.
 */
#ifndef PROCTOR_CLI_PROGRESS_H
#define PROCTOR_CLI_PROGRESS_H

#include <stdbool.h>

#include "daemon/daemon.h"

struct progress {
	bool is_drawn;
};

#define PROGRESS_INIT \
	{             \
		false \
	}

/* stderr is a terminal that can do it. */
bool progress_is_wanted(void);

/* A run_progress_fn; ctx is the struct progress. Clears the line at the end. */
void progress_show(void *ctx, const struct run_progress *p);

#endif
