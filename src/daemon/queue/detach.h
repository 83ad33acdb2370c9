/*
 * detach - starts a runner for a submitted job, which is nobody's child and has
 * nothing of the daemon's: a session of its own, signals as a shell leaves them, no
 * files but stdin, stdout and stderr. For another user it is theirs from before it
 * goes to the job's folder (user.h).
 */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "daemon/queue/queue.h"

struct detached {
	const struct queued *job;   /* its user is ours, or (as root) somebody */
	const struct rlimit *files; /* file_limit_raise(); NULL: as ours */
	const char *db_path;	    /* for one of ours: QUEUED_DB_VARIABLE; NULL: as it finds it */
	int spool_fd;		    /* the job file: its stdin, see QUEUED_VARIABLE */
	const char *path;	    /* its name… */
	const char *started_path;   /* …and from the moment on when the runner is about to begin:
				     * until then whoever finds the file may start it */
	int queue_fd;		    /* its lock is the daemon's alone; -1: none */
	int log_fd;		    /* its stdout and stderr; -1: it keeps a log of its own */
};

/*
 * Begins to start it, and waits no longer than a moment: a directory of users or the job's
 * folder may be on a server that does not answer. *ret_fd is for detach_check() if there is more
 * to be heard, else -1: then the runner (or its launcher) has been executed. err says
 * which step failed if it could not be: -EAGAIN, -ENOMEM may pass, others will not. *ret_key is
 * its process, with unknown start_ticks if that could not be told.
 */
int detach_runner(const struct detached *d, struct proc_key *ret_key, int *ret_fd, struct err *err);

/* What has become of it within this time: 1: nothing yet. 0, or as above: *fd is closed, and -1. */
int detach_check(int *fd, int patience_ms, struct err *err);

/*
 * ---- a launcher ----
 *
 * A service manager that confines the daemon confines its children with it, for
 * good: a job could write nowhere, and would find sudo broken. So its unit names a
 * launcher in PROCTOR_LAUNCHER, a command with its options that is put before the
 * runner's own (systemd/proctor.service.in has systemd-run there), and has the
 * runner started by somebody who is not confined.
 *
 * Of the daemon's files only stdin, stdout and stderr reach a runner that is
 * launched so, and of its environment what the launcher hands on.
 */

/* Whom a launcher is to start it as, and where. */
struct launch_user {
	uid_t uid;
	gid_t gid;
	const char *workdir;
};

bool launch_is_set(void);

/*
 * For the child that is to be the runner: executes argv, whose first is the path of
 * the program. Where there is a launcher and a user, the launcher gets --uid=,
 * --gid= and --working-directory= as systemd-run has them, before its "--" or at
 * its end. Returns only if it cannot, with -errno.
 */
int launch_become(const char *const *argv, const struct launch_user *user);
