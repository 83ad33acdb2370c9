/*
 * doctor_gpu - what the drivers of GPUs answer here, and what that costs.
 */
#ifndef PROCTOR_CLI_DOCTOR_GPU_H
#define PROCTOR_CLI_DOCTOR_GPU_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "sources/sources.h"

/*
 * One line for each answer: "NVML: memory 5.1 us". Asked by a child that is ended if it
 * hangs; then the last line says so. Returns whether a driver answered.
 */
bool doctor_ask_gpus(int root_fd, struct buf *out);

/* Asks as a run would, and writes who answered among the rungs. */
void doctor_tell_gpu_rung(int root_fd, struct arena *arena, struct rung *rungs, size_t n);

#endif
