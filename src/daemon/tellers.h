/*
 * tellers - a birth or a death is told once, by who hears of it first.
 *
 * The kernel (or a look) tells the daemon, and the runner writes it down. What the one has told is
 * kept until the other tells of it too. Of some the other never does: so it is bounded, the oldest
 * go first, and those may be told twice.
 */
#ifndef PROCTOR_DAEMON_TELLERS_H
#define PROCTOR_DAEMON_TELLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "model/job.h"

enum teller { BY_US, BY_RUNNER };

/* All zero: nobody has told of anything. How often of each, by a hash of it. */
struct tellers {
	struct map young, old; /* when the young are too many they become the old ones */
};

void tellers_release(struct tellers *told); /* it can be used again */

/* This one has told of it, and the other one will. */
void tellers_note(struct tellers *told, enum teller teller, int64_t attempt_id,
		  const struct proc_event *ev);

/* True: this one has told of it, which is forgotten now. */
bool tellers_take(struct tellers *told, enum teller teller, int64_t attempt_id,
		  const struct proc_event *ev);

#endif
