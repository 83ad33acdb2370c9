/*
 * daemon - the process of "proctor start": all jobs of a host, for all who ask.
 *
 * Start reading at service_run() in service.h, and at the stages of a tick in service_tick.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "base/mask.h"
#include "bus/bus.h"		   /* how what happens to jobs is told */
#include "daemon/process_handle.h" /* whose a process is */
#include "daemon/phase_owner.h"	   /* whose a phase is */
#include "daemon/queue/queue.h"	   /* what waits: for who lists jobs without a daemon */
#include "daemon/service.h"
#include "model/job.h"
#include "recorder/recorder.h"
#include "store/store.h"

/*
 * Says to a runner that its stdin is its job file, in the queue (queue.h): no command
 * inherits either. The value tells whether it has a log, or makes its own.
 */
#define QUEUED_VARIABLE "PROCTOR_QUEUED"
#define QUEUED_WITHOUT_LOG "without-log"

/*
 * And where the daemon that has started it keeps its records, if it is of the same user: the
 * configuration may name another database since, where nobody who waits for the job would look.
 */
#define QUEUED_DB_VARIABLE "PROCTOR_QUEUED_DB"
