/*
 * moments - when something was recorded: what several recorders saw at about the same time is one.
 *
 * A replay steps from one to the next, and keeps no more of a week than this.
 */
#ifndef PROCTOR_TUI_MOMENTS_H
#define PROCTOR_TUI_MOMENTS_H

#include "base/map.h"
#include "model/snapshot.h"

#define MOMENT_NS UINT64_C(1000000000)	     /* that one lasts at most */
#define MOMENTS_LONG_GAP_NS (10 * MOMENT_NS) /* between two of them */

/* In which each recorder looked once, or not at all. */
struct moment {
	uint64_t first_ns, last_ns;
};

/* All zeros is empty. */
struct moments {
	struct moment *items;
	size_t n, cap;
	struct map recorders; /* of the last one */
};

void moments_release(struct moments *m);

/* In the order of time. -ENOMEM. */
int moments_add(struct moments *m, const struct snapshot *snap);

/* Between the i-th and the one before; 0: there is none. */
uint64_t moments_gap(const struct moments *m, size_t i);

/* The same where nobody was looking in it: it is long, and much longer than those before; else 0.
 */
uint64_t moments_empty_gap(const struct moments *m, size_t i);

#endif
