/*
 * doctor_gpu - what the drivers of GPUs answer here, and what that costs.
 */
#ifndef PROCTOR_CLI_DOCTOR_GPU_H
#define PROCTOR_CLI_DOCTOR_GPU_H

#include "base/arena.h"
#include "base/buf.h"
#include "sources/sources.h"

/*
 * The worst of what drivers do: none tells anything, one does, one crashes, hangs or has lost a
 * GPU.
 */
enum doctor_gpu { DOCTOR_GPU_SILENT, DOCTOR_GPU_ANSWERS, DOCTOR_GPU_BROKEN };

/*
 * One line for each answer: "NVML: memory takes 0.005 ms". Each driver is asked by a child of
 * its own that is ended if it hangs; then, or if it crashes, a line says so.
 */
enum doctor_gpu doctor_ask_gpus(int root_fd, struct buf *out);

/* Asks as a run would, and writes who answered among the rungs. */
void doctor_tell_gpu_rung(int root_fd, struct arena *arena, struct rung *rungs, size_t n);

#endif
