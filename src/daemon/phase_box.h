/*
 * phase_box - where programs leave markers of phases for their runner, if no daemon is there.
 *
 * A file in memory, to which they append a line for each, as they would send it to a daemon. The
 * commands find its path in their environment; it is gone when all that have it open are.
 */
#ifndef PROCTOR_DAEMON_PHASE_BOX_H
#define PROCTOR_DAEMON_PHASE_BOX_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "store/store.h"

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

/* Writes down what has come since the last time. What fails is tried again at the next. */
int phase_box_empty(struct phase_box *box, struct store *store, int64_t attempt_id, int root_fd,
		    struct err *err);

#endif
