/*
 * settler - waits for the disk on another thread: who looks at processes writes what it has seen
 * and goes on looking, however slow the disk is.
 *
 * What is written is there for everybody at once, and is not lost with us. A power cut loses what
 * was written since the last wait began, which is one tick unless the disk takes longer than one.
 * One wait is enough for all that came before it, so a slow disk makes no queue.
 */
#ifndef PROCTOR_DAEMON_SETTLER_H
#define PROCTOR_DAEMON_SETTLER_H

#include "base/loop.h"
#include "store/store.h"

struct settler;

/*
 * For a store that was just opened from this path (both borrowed until settler_leave()) and is used
 * in the loop. NULL: no memory, and the store waits for itself.
 */
struct settler *settler_new(struct loop *loop, const char *db, struct store *store);

/*
 * Before the store is closed, and before loop_free(): from now on the store waits for itself.
 * Waits for what is under way. NULL is fine. Returns NULL.
 */
struct settler *settler_leave(struct settler *s);

#endif
