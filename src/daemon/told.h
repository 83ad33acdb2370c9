/*
 * told - anomalies in the order in which they were told: each when it began, when it got worse and
 * when it was over.
 *
 * For verbs that print events by time and have them in between.
 */
#ifndef PROCTOR_DAEMON_TOLD_H
#define PROCTOR_DAEMON_TOLD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/anomaly.h"
#include "store/store.h"

struct told {
	uint64_t wall_ns;
	enum episode_change change;
	int attempt_num;
	const struct episode *episode;	     /* as it was last */
	const struct episode_moment *moment; /* what was told then; NULL: nobody has noted it */
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

/* The episode with the words and numbers that were told. */
void told_episode(const struct told *told, struct episode *ret);

/* The next that was told up to this moment; NULL: none. */
const struct told *told_take(struct told_list *list, uint64_t until_wall_ns);

#endif
