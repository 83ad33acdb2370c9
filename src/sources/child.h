/*
 * child - asks a question in a child of this process, within a bound of time.
 *
 * For questions that may hang in the kernel, or that only another user can answer. The child may
 * become that user: it has none of our files, its memory, which is a copy of ours, is not for them
 * to read, and whatever they do to it (a SIGSTOP at any moment) we do not wait for longer. When the
 * answer is there, or takes too long, the child is killed.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define CHILD_CARRIED_FD 4 /* the file that was handed on, in the child */

/* In the child, of which nothing is left when it returns: writes the answer to the file. */
typedef void child_fn(const void *ctx, int fd);

struct child_question {
	child_fn *fn;
	const void *ctx;
	int carried_fd; /* -1: none */
	int patience_ms;
};

/*
 * Fills answer with at most size bytes, until the child closes the file. Returns how many;
 * -ETIMEDOUT: it is not all there in time; -ENODATA: there is none; -EMFILE, -EAGAIN…: there was no
 * child. *ret_pid (may be NULL): the child, or 0, for a caller who follows processes: it is of no
 * job. As a rule it was waited for; one that no signal has ended yet is left. On any thread.
 */
ssize_t child_ask(const struct child_question *q, void *answer, size_t size, pid_t *ret_pid);
