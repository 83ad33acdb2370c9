/*
 * rungs - the names of the rungs, for those who have taken one.
 */
#ifndef PROCTOR_SOURCES_RUNGS_H
#define PROCTOR_SOURCES_RUNGS_H

#include <stdbool.h>

#include "model/job.h"

/* Process samples, by the task iterator or by /proc because of why (borrowed). */
struct rung rung_of_samples(bool is_ebpf, const char *why);

#endif
