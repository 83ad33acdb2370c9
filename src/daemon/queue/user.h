/*
 * user - becomes another user, for good and completely: the groups of the account,
 * no capability, no keys of ours, an environment as a login has it. Until exec only root
 * may trace it.
 *
 * Looking the account up may ask the network and takes memory, so it is done
 * before a fork; changing is for the child that is to be the user's process.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "sources/sources.h"

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

/* ---- one number that a child finds out, within a bound of time: sources/child.h ---- */

/* In the child: the answer. */
void child_word_tell(int word_fd, int word);

/*
 * In the child: from now on as that user, as after a login. It may ask the network for the account.
 * -ESRCH: there is no such account. After a failure it is half changed, and is to return.
 */
int child_word_become(uid_t uid);

/*
 * -ETIMEDOUT: it has not said it in time, -ENODATA: it has ended without a word; -EMFILE, -EAGAIN…:
 * there was no child. On any thread.
 */
int child_word_ask(child_fn *find, const void *ctx, int patience_ms, int *ret_word);

/*
 * Whether the user may enter the folder that a job is to run in: root may enter what they may not,
 * and a file system that hangs is not to hang us. -EINVAL: no, and err says why. 0: yes, or it
 * cannot be told now (there is no such user, it takes too long): then it is seen when the job
 * begins. On any thread.
 */
int workdir_check(const char *path, uid_t uid, struct err *err);

/*
 * Makes the folder where the output of jobs of another user goes, as that user, in their home.
 * -errno: it cannot be made, and what they print will be lost. 0: it is there, or it cannot be told
 * now. On any thread.
 */
int workdir_make_logs(uid_t uid);
