/*
 * told - anomalies in the order in which they were told: each when it began and when it was over.
 *
 * For verbs that print events by time and have them in between.
 */
#ifndef PROCTOR_CLI_TOLD_H
#define PROCTOR_CLI_TOLD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/anomaly.h"
#include "store/store.h"

struct told {
	uint64_t wall_ns;
	enum episode_change change; /* began or cleared: escalations are in its severity */
	int attempt_num;
	const struct episode *episode;
};

/* All zeros is empty. */
struct told_list {
	struct told *items; /* by time */
	size_t n, cap;
	size_t next; /* for told_take() */
	struct arena arena;
};

void told_list_release(struct told_list *list);

/* What was told in that time, of episodes that lasted into it too. */
int told_list_read(struct store *store, const struct event_filter *filter, struct told_list *ret,
		   struct err *err);

/* The next that was told up to this moment; NULL: none. */
const struct told *told_take(struct told_list *list, uint64_t until_wall_ns);

#endif
