/*
 * progress - the last line of a terminal says how far a job is.
 *
 * The line is taken out of the region that scrolls, so what the job prints goes
 * on above it, unfinished lines included, as if it were not there.
 */
#ifndef PROCTOR_CLI_PROGRESS_H
#define PROCTOR_CLI_PROGRESS_H

#include <stdbool.h>

#include "daemon/daemon.h"

struct progress {
	int fd;	       /* the terminal, opened anew so that nothing of ours ever waits for it; -1 */
	unsigned rows; /* of the terminal when the line was taken; 0: not taken */
};

#define PROGRESS_INIT \
	{             \
		-1, 0 \
	}

/* False: stderr is no terminal that can do it. */
bool progress_open(struct progress *progress);

/* Gives the line back. */
void progress_close(struct progress *progress);

/* A run_progress_fn; ctx is the struct progress. */
void progress_show(void *ctx, const struct run_progress *p);

#endif
