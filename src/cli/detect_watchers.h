/*
 * detect_watchers - when somebody looked at the host, as a search of the record knows it.
 */
#ifndef PROCTOR_CLI_DETECT_WATCHERS_H
#define PROCTOR_CLI_DETECT_WATCHERS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/job.h"
#include "store/store.h"

/* All who may have recorded. */
struct watchers {
	const struct attempt_list *attempts; /* in the order in which they began */
	const uint64_t *looked_wall_ns;	     /* the last look at each; 0: there was none */
};

/* Without a break, by any of them. */
bool watchers_looked(const struct watchers *w, uint64_t from_wall_ns, uint64_t until_wall_ns);

#endif
