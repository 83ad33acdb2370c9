/*
 * phase_box - where programs leave markers of phases for their runner, if no daemon is there.
 *
 * A file in memory, to which they append a line for each, as they would send it to a daemon. The
 * commands find its path in their environment; it is gone when all that have it open are.
 */
#ifndef PROCTOR_RECORDER_PHASE_BOX_H
#define PROCTOR_RECORDER_PHASE_BOX_H

#include <stdint.h>
#include <sys/types.h>

#include "model/record.h"

#define PHASE_BOX_VARIABLE "PROCTOR_PHASES"

struct phase_box {
	int fd;	  /* -1: there is none */
	off_t at; /* how far it was read */
};

#define PHASE_BOX_INIT \
	{              \
		-1, 0  \
	}

/* Makes it and sets the variable, for what is started from now on. Where that fails the variable
 * is not set, and markers need a daemon. */
void phase_box_open(struct phase_box *box);
void phase_box_close(struct phase_box *box);

/* Calls fn with what has come since the last time; n_lost marks made no sense. */
typedef void phase_box_fn(void *ctx, const struct phase_change *items, size_t n, uint64_t n_lost);
void phase_box_read(struct phase_box *box, int root_fd, phase_box_fn *fn, void *ctx);

#endif
