/*
 * launch - becomes a job's runner, by way of a launcher where one is named.
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
#ifndef PROCTOR_DAEMON_QUEUE_LAUNCH_H
#define PROCTOR_DAEMON_QUEUE_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

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

#endif
