/*
 * child_word - one number that a child finds out, within a bound of time.
 *
 * For questions that only another user can answer, or that may hang. The child may become that
 * user: it has none of our files, its memory, which is a copy of ours, is not for them to read, and
 * whatever they do to it (a SIGSTOP at any moment) we do not wait for longer. When we have its
 * word, or it takes too long, it is killed.
 */
#ifndef PROCTOR_DAEMON_QUEUE_CHILD_WORD_H
#define PROCTOR_DAEMON_QUEUE_CHILD_WORD_H

#include <sys/types.h>

/* In the child, of which nothing is left when it returns. */
typedef void child_word_find(const void *ctx, int word_fd);

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
int child_word_ask(child_word_find *find, const void *ctx, int patience_ms, int *ret_word);

#endif
