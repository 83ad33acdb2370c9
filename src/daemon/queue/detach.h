/*
 * detach - starts a runner for a submitted job, which is nobody's child and has
 * nothing of the daemon's: a session of its own, signals as a shell leaves them, no
 * files but stdin, stdout and stderr. For another user it is theirs from before it
 * goes to the job's folder (user.h).
 */
#ifndef PROCTOR_DAEMON_QUEUE_DETACH_H
#define PROCTOR_DAEMON_QUEUE_DETACH_H

#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/snapshot.h"

struct detached {
	const char *job_id;
	const char *name; /* of the job file, for records and messages */
	const char *workdir;
	uid_t uid;		    /* ours, or (as root) somebody's */
	const struct rlimit *files; /* file_limit_raise() */
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

/* What has become of it: 1: nothing yet. 0, or as above: *fd is closed, and -1. */
int detach_check(int *fd, struct err *err);

#endif
