/*
 * run_args - what "proctor run" is told: by its options, and by the daemon that starts it for a
 * submitted job.
 */
#ifndef PROCTOR_CLI_RUN_ARGS_H
#define PROCTOR_CLI_RUN_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/unknown.h"
#include "daemon/daemon.h"

struct run_args {
	const char *job_id;
	const char *file;
	const char *output;
	int sheet_num;
	double interval_seconds; /* NaN: what the configuration says */
	double grace_seconds, kill_after_seconds;
	bool json, quiet, report, leave_background;
	enum run_syscalls_how syscalls;
	bool is_sampled;     /* and only some of them timed */
	int queue_fd;	     /* the job file, if a daemon has started us; else -1 */
	bool makes_log;	     /* and says that we are to keep one */
	struct err log_err;  /* why it could not be made */
	const char *db_path; /* its own database, where it is our user's; NULL */
	uint64_t submission; /* which it is; U64_UNKNOWN */
	const char *slips;   /* of the configuration; borrowed */
	char **command;
	int n_command;
};

/* As it is if nothing is said. */
#define RUN_ARGS_INIT                                                                       \
	{                                                                                   \
		.queue_fd = -1, .submission = U64_UNKNOWN, .interval_seconds = F64_UNKNOWN, \
		.grace_seconds = 2.0, .kill_after_seconds = 5.0                             \
	}

/* Its input is a struct run_args. */
extern const struct argp run_argp;

#endif
