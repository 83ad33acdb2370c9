/*
 * lasting - what goes on is written down as it goes on.
 *
 * An anomaly is told when it begins, gets worse and is over. In between its peak and its count may
 * change, and whoever reads the record, or takes over from here, is to know them: so its row is
 * renewed now and then, where they have, or where it was not for a while: if nobody sees its end,
 * it lasted until then. Nothing is told by that.
 */
#ifndef PROCTOR_DAEMON_LASTING_H
#define PROCTOR_DAEMON_LASTING_H

#include <stdint.h>

#include "base/map.h"
#include "detect/detect.h"
#include "store/store.h"

#define LASTING_SECONDS 30	 /* from the beginning of one round to that of the next */
#define LASTING_SEEN_SECONDS 300 /* so often also where nothing has changed but the time */
#define LASTING_PER_LOOK 32	 /* the others wait for the next look */

/* All zero: nothing was written yet. */
struct lasting {
	struct map written; /* hash of the name -> hash of the numbers */
	uint64_t next_boot_ns;
	size_t at; /* where the round goes on; 0: it is over */
};

void lasting_release(struct lasting *l);

/* 0, or why it was not: then it is tried in the next round. */
typedef int lasting_write_fn(void *ctx, const struct anomaly_renewal *list, size_t n);

struct lasting_of {
	lasting_write_fn *write; /* NULL: nothing is written */
	void *ctx;
	const struct detect *detect;
};

/* At each tick: some of what has changed, when it is time, with one wait for the disk. */
void lasting_look(struct lasting *l, const struct lasting_of *of);

/* Before another takes over, or nobody does: all of it, and as of now. The same. */
void lasting_write_all(struct lasting *l, const struct lasting_of *of);

#endif
