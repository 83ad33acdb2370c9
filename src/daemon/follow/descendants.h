/*
 * descendants - the processes that a process has started, and those that they have.
 */
#ifndef PROCTOR_DAEMON_FOLLOW_DESCENDANTS_H
#define PROCTOR_DAEMON_FOLLOW_DESCENDANTS_H

#include <sys/types.h>

typedef void descendants_fn(void *ctx, pid_t pid);

/*
 * Calls fn for each, parents before their children, and before it is looked which children it
 * has: what fn marks so that its children inherit it misses none. pid itself is left out. Reads
 * below root_fd; where the kernel does not list children (CONFIG_PROC_CHILDREN) there are none.
 */
void descendants_each(int root_fd, pid_t pid, descendants_fn *fn, void *ctx);

#endif
