/*
 * workdir - whether a user may enter the folder that a job is to run in, and keep what it prints.
 *
 * Another process looks, as that user: root may enter what they may not, and a file system that
 * hangs is not to hang us.
 */
#ifndef PROCTOR_DAEMON_QUEUE_WORKDIR_H
#define PROCTOR_DAEMON_QUEUE_WORKDIR_H

#include <sys/types.h>

#include "base/err.h"

/*
 * -EINVAL: no, and err says why. 0: yes, or it cannot be told now (there is no such user, it takes
 * too long): then it is seen when the job begins. On any thread.
 */
int workdir_check(const char *path, uid_t uid, struct err *err);

/*
 * Makes the folder where the output of jobs of another user goes, as that user, in their home.
 * -errno: it cannot be made, and what they print will be lost. 0: it is there, or it cannot be told
 * now. On any thread.
 */
int workdir_make_logs(uid_t uid);

#endif
