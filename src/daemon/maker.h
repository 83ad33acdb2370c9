/*
 * maker - makes a database, or brings it up to date, on another thread: on a slow disk that takes
 * seconds, and who looks at processes has signals to pass on and timeouts to keep meanwhile.
 */
#ifndef PROCTOR_DAEMON_MAKER_H
#define PROCTOR_DAEMON_MAKER_H

#include "base/loop.h"

struct maker;

/*
 * Begins at once. fn is called in the loop when it is over, well or not; not where somebody has
 * waited for that. NULL: no memory or no thread to be had.
 */
struct maker *maker_new(struct loop *loop, const char *path, loop_fn *fn, void *ctx);

/* 0: it is over, or m is NULL. -ETIMEDOUT: not within the time. */
int maker_wait(struct maker *m, unsigned ms);

/* Does not wait: what is under way goes on, or ends with the process. NULL is fine. Returns NULL.
 */
struct maker *maker_leave(struct maker *m);

#endif
