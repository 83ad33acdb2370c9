/*
 * settler - waits for the disk on another thread, so that who looks at processes writes what it has
 * seen and goes on looking.
 *
 * What is written is there for everybody at once, and is not lost with us. A power cut loses what
 * was written since the last wait that is over began: one tick, or as many as come in two waits
 * where those take longer. One wait is enough for all that came before it, so a slow disk makes no
 * queue. The other thread does nothing but fdatasync(): it opens no database. So now and then the
 * loop waits all the same (store_settle_elsewhere() says when), and the next tick comes late.
 */
#ifndef PROCTOR_DAEMON_SETTLER_H
#define PROCTOR_DAEMON_SETTLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "store/store.h"

struct settler;

/*
 * For a store that is used in the loop (both borrowed until settler_leave()). NULL: there is no
 * log, no memory or no thread to be had, and the store waits for itself.
 */
struct settler *settler_new(struct loop *loop, struct store *store);

/* Whether the other thread waits. NULL is fine for this and for what follows. */
bool settler_is_working(const struct settler *s);

/*
 * *ret_wait_ns: how long the last wait for the disk took, or one in the loop since then, or for how
 * long the one that is under way has lasted, whichever is longest. -ETIMEDOUT: longer than 2 s, and
 * err says what that means.
 */
int settler_check(struct settler *s, uint64_t *ret_wait_ns, struct err *err);

/*
 * Outside of the loop: until all that was written is on the disk (0), or refused by it, which is
 * told as ever, or until then (-ETIMEDOUT).
 */
int settler_finish(struct settler *s, uint64_t until_boot_ns);

/*
 * Before the store is closed, and before loop_free(): from now on the store waits for itself.
 * Does not wait for what is under way. Returns NULL.
 */
struct settler *settler_leave(struct settler *s);

#endif
