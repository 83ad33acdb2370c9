/*
 * kills - OOM kills that a count tells of and no event does.
 *
 * The same kill is told by an event (which process it was), by the count of its cgroup, by
 * those of the cgroups above, and by that of the host, in any order and not at the same
 * tick. A ledger is of one count: what is counted waits a little for an event that explains
 * it, and an event waits a little for its count. What is left over is told; an event that comes
 * even later says more about that, and is no other kill.
 */
#ifndef PROCTOR_DETECT_KILLS_H
#define PROCTOR_DETECT_KILLS_H

#include <stdbool.h>
#include <stdint.h>

/* All zeros is empty. Times are seconds. */
struct kill_ledger {
	uint64_t n_counted, n_known; /* that have no counterpart yet */
	double counted, known;	     /* since when */
	uint64_t n_told;	     /* by the count alone */
	double told;		     /* the last of them */
	uint64_t n_late;	     /* events of these since the last tick */
};

#define KILLS_EVENT_LATE_SECONDS 2 /* a runner writes it down, and others read that */

/*
 * So many more were counted (U64_UNKNOWN: nobody counts) and so many more are known since the
 * last tick, which was step seconds ago (NaN: there was none). What is counted waits for so long.
 * Returns how many are to be told as
 * nobody knows whose they are; U64_UNKNOWN: nobody counts, and none waits.
 */
uint64_t kills_settle(struct kill_ledger *l, uint64_t n_counted, uint64_t n_known, double now,
		      double step, double wait_seconds);

/*
 * Whether an event is late: of a kill that was told already, so it happened before that (at).
 * Each takes one of these.
 */
bool kills_is_late(struct kill_ledger *l, double now, double at);

/* Whether an event may still say more about it. */
bool kills_is_open(const struct kill_ledger *l, double now);

/* Nothing more will come: those that wait still. */
uint64_t kills_take_rest(struct kill_ledger *l);

#endif
