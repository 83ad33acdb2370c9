/*
 * daemon - the process of "proctor start": all jobs of a host, for all who ask.
 *
 * Start reading at service_run(), and at daemon_tick() in service_tick.c. The daemon runs no job
 * itself: runners do. It can be killed and started again at any time without a job noticing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/config.h"
#include "base/err.h"
#include "base/mask.h"
#include "base/path.h"
#include "bus/bus.h"		   /* how what happens to jobs is told */
#include "daemon/process_handle.h" /* whose a process is */
#include "daemon/phase_owner.h"	   /* whose a phase is */
#include "daemon/queue/queue.h"	   /* what waits: for who lists jobs without a daemon */
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

/* No sentence begins with it. */
#define SERVICE_READY '\n'

struct service_options {
	const struct paths *paths;
	const struct config *config;
	const struct mask *mask; /* NULL: none is wanted */
	const char *socket_path;
	mode_t socket_mode;
	const char *log_path; /* where stderr goes; NULL: that is another's business */
	int ready_fd; /* gets SERVICE_READY when clients are served, and is closed; -1: nobody waits
		       */
};

/* The folder of a socket, open to those who may use it; others' folders are left as they are. */
int service_make_socket_folder(const char *path, mode_t socket_mode, struct err *err);

/* Runs until it is told to stop. -EADDRINUSE: another daemon listens there, or has the queue. */
int service_run(const struct service_options *options, struct err *err);
