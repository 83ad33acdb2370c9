/*
 * phase_box - markers of phases: what one has, and where programs leave them for their runner if no
 * daemon is there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/record.h"
#include "rpc/rpc.h"

/* ---- what a marker has: the params of the method "phase" ---- */

struct phase_params {
	const char *enter, *exit; /* one of them is a name, or none where some were lost */
	uint64_t pid;		  /* U64_UNKNOWN: that of who asks */
	bool is_for_another;	  /* pid was named */
	double at;		  /* unix seconds; unknown: now */
	uint64_t lost;		  /* markers of the caller that were never sent */
};

#define N_PHASE_FIELDS 5
extern const struct rpc_field phase_fields[N_PHASE_FIELDS];

/* Before they are read. */
void phase_params_init(struct phase_params *params);

/* After that. -EINVAL, and what is wrong. */
int phase_params_check(const struct phase_params *params, struct err *err);

/* When it was, which is not in the future. */
uint64_t phase_params_wall_ns(const struct phase_params *params);

/*
 * ---- the box ----
 *
 * A file in memory, to which programs append a line for each marker, as they would send it to a
 * daemon. The commands find its path in their environment; it is gone when all that have it open
 * are.
 */

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
