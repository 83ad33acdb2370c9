/*
 * user - becomes another user, for good and completely: the groups of the account,
 * no capability, no keys of ours, an environment as a login has it. Until exec only root
 * may trace it.
 *
 * Looking the account up may ask the network and takes memory, so it is done
 * before a fork; changing is for the child that is to be the user's process.
 */
#ifndef PROCTOR_DAEMON_QUEUE_USER_H
#define PROCTOR_DAEMON_QUEUE_USER_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct user {
	uid_t uid;
	gid_t gid;
	char *name, *home, *shell;
	gid_t *groups; /* with gid among them */
	size_t n_groups;
};

/* -ESRCH: there is no such account. Release it after success. */
int user_find(uid_t uid, struct user *ret, struct err *err);
void user_release(struct user *user);

/*
 * Groups, then the user; checked, and that there is no way back. -EPERM: this
 * process may not. After a failure it is half changed, and is to end.
 */
int user_become(const struct user *user);

/* Nothing but HOME, USER, LOGNAME, SHELL, PATH, and LANG if we have it. -ENOMEM. */
int user_set_environment(const struct user *user);

#endif
