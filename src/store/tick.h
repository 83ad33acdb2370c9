/*
 * tick_owners - of which attempt each process and event of a tick is, where there may be
 * thousands of each.
 */
#ifndef PROCTOR_STORE_TICK_H
#define PROCTOR_STORE_TICK_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "store/store.h"

/* All zero is empty. */
struct tick_owners {
	struct owner {
		int64_t id;
		size_t index; /* in the record */
	} * by_id;	      /* ascending, each once */
	size_t n, cap;
	struct map by_key; /* of a job's address, and of its name -> index */
};

void tick_owners_release(struct tick_owners *owners);

/* For the tick that comes next. -ENOMEM. */
int tick_owners_fill(struct tick_owners *owners, const struct tick_record *record);

/* As record->owner says. NULL: it is of none of them. */
const struct attempt *tick_owner_of_process(const struct tick_owners *owners,
					    const struct tick_record *record,
					    const struct proc_sample *p);
const struct attempt *tick_owner_of_event(const struct tick_owners *owners,
					  const struct tick_record *record,
					  const struct proc_event *ev);

#endif
