/*
 * rank_phases - which rank each phase of an attempt is of.
 *
 * A phase names the process that entered it, or its rank. Pids are used again, so it is that of the
 * process that was born last before; of the first one where all seem to be born later. Ranks,
 * phases and processes may all be many: none is looked through for each of another.
 */
#ifndef PROCTOR_DAEMON_RANK_PHASES_H
#define PROCTOR_DAEMON_RANK_PHASES_H

#include <stddef.h>

#include "model/job.h"

struct rank_phase {
	int rank;
	size_t phase; /* its number among the attempt's */
};

struct rank_phases {
	struct rank_phase *items; /* by rank, then as the attempt has them; of no rank: none */
	size_t n;
};

/* Of the processes of one sheet. Freed with rank_phases_release(). -ENOMEM. */
int rank_phases_find(const struct attempt *a, int sheet_num, struct rank_phases *ret);
void rank_phases_release(struct rank_phases *p);

/* The place of the first item of that rank, or of one behind it; n: there is none. */
size_t rank_phases_first(const struct rank_phases *p, int rank);

#endif
