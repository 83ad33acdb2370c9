/*
 * phase_params - what a marker of a phase says: the params of the method "phase".
 */
#ifndef PROCTOR_RECORDER_PHASE_PARAMS_H
#define PROCTOR_RECORDER_PHASE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "rpc/rpc.h"

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

#endif
