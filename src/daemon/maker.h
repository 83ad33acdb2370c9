/*
 * maker - a database that is not there yet is made on another thread, as that waits for the disk
 * a dozen times.
 */
#ifndef PROCTOR_DAEMON_MAKER_H
#define PROCTOR_DAEMON_MAKER_H

#include "base/err.h"
#include "base/loop.h"

struct maker;

/* made(ctx) is called in the loop when it was tried. db is copied. NULL: no memory. */
struct maker *maker_new(struct loop *loop, const char *db, loop_fn *made, void *ctx);

/*
 * Before it is opened in the loop. 0: it is there, or could not be made, which who opens it finds
 * out as well. -EBUSY: it is being made.
 */
int maker_check(struct maker *m, struct err *err);

/* made() is not called any more. Does not wait. Before loop_free(). NULL is fine. Returns NULL. */
struct maker *maker_leave(struct maker *m);

#endif
