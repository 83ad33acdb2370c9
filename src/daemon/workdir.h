/*
 * workdir - whether a user may enter the folder that a job is to run in.
 *
 * Another process looks, as that user: root may enter what they may not, and a file system that
 * hangs is not to hang us.
 */
#ifndef PROCTOR_DAEMON_WORKDIR_H
#define PROCTOR_DAEMON_WORKDIR_H

#include <sys/types.h>

#include "base/err.h"

/*
 * -EINVAL: no, and err says why. 0: yes, or it cannot be told now (there is no such user, it takes
 * too long): then it is seen when the job begins. On any thread.
 */
int workdir_check(const char *path, uid_t uid, struct err *err);

#endif
