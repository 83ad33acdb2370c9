/*
 * service - the daemon: watches all jobs of the host. Start reading at
 * daemon_tick() in service_tick.c.
 *
 * It runs no job itself: runners do, and it can be killed and started again at
 * any time without a job noticing.
 */
#pragma once

#include <sys/types.h>

#include "base/config.h"
#include "base/err.h"
#include "base/mask.h"
#include "base/path.h"

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
