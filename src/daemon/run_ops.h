/*
 * run_ops - what a run does when its runner tells that something began or ended.
 *
 * The context of every one is the struct run.
 */
#ifndef PROCTOR_DAEMON_RUN_OPS_H
#define PROCTOR_DAEMON_RUN_OPS_H

#include "jobs/jobs.h"

extern const struct runner_ops run_ops;

#endif
