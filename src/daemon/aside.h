/*
 * aside - work on the database that takes long, on another thread with a handle of its own.
 *
 * One task at a time, and users in turn: who asks for much waits for themselves. Within one
 * user the first comes first, and a bounded number waits.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/loop.h"
#include "store/store.h"

#define ASIDE_MAX_WAITING 256 /* of one user */

struct aside;

struct aside_task {
	uid_t uid; /* for whom */
	/* On the other thread, where it touches nothing but what is in ctx. */
	int (*work)(void *ctx, struct store *store, struct err *err);
	/* In the loop, once: with what work() returned, or why it was never called. */
	void (*done)(void *ctx, int r, const struct err *err);
	void *ctx;
	bool is_store_optional; /* work() is called with NULL where the database cannot be opened */
};

/* db is borrowed; see store_set_alive_check() for the last. NULL: no memory. */
struct aside *aside_new(struct loop *loop, const char *db, store_alive_fn *check_alive);

/* -EBUSY: too many of this user wait. -ENOMEM. done() is not called then. */
int aside_add(struct aside *a, const struct aside_task *task, struct err *err);

/* From now on nothing is begun: what waits is done() with -ESHUTDOWN. NULL is fine. */
void aside_leave(struct aside *a);

/* After loop_free(), which waits for what goes on. NULL is fine. Returns NULL. */
struct aside *aside_free(struct aside *a);
