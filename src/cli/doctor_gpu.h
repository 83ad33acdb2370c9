/*
 * doctor_gpu - what the drivers of GPUs answer here, and what that costs.
 */
#ifndef PROCTOR_CLI_DOCTOR_GPU_H
#define PROCTOR_CLI_DOCTOR_GPU_H

#include <stdbool.h>

#include "base/buf.h"

/*
 * One line for each answer: "NVML: memory 5.1 us". Asked by a child that is ended if it
 * hangs; then the last line says so. Returns whether a driver answered.
 */
bool doctor_ask_gpus(int root_fd, struct buf *out);

#endif
