/*
 * call_steps - from what each process has called so far to what is new since its last sample.
 *
 * Who counts for others tells sums; a sample has what came since the one before.
 */
#ifndef PROCTOR_DAEMON_CALL_STEPS_H
#define PROCTOR_DAEMON_CALL_STEPS_H

#include "daemon/process_calls.h"
#include "model/snapshot.h"

/* What each process had called by its last sample. All zero is a good beginning. */
struct call_steps {
	struct process_calls before;
};

void call_steps_release(struct call_steps *steps);

/*
 * Fills the samples of those whose sums are in now, which may change its order. Others stay
 * unknown, and what they call counts in a later sample. Sums that went down are those of another
 * count, and all new.
 */
void call_steps_fill(struct call_steps *steps, struct process_calls *now, struct snapshot *snap);

#endif
