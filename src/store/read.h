/*
 * read - what reading attempts knows and others need.
 */
#ifndef PROCTOR_STORE_READ_H
#define PROCTOR_STORE_READ_H

#include "base/err.h"
#include "store/store.h"

/* The row of the job; -1, which no row has: there is none. Inside a transaction, as all here. */
int job_find_row(struct store *store, const char *job_id, int64_t *ret, struct err *err);

/*
 * The attempt's row that the query stands on, and whether it runs or was lost. Strings go into the
 * arena; a->arena stays empty.
 */
struct query;
int attempt_read_row(struct query *q, struct attempt *a, struct arena *arena, struct err *err);

/* When an attempt was last heard of: its last tick, its last sheet, or its start. */
int attempt_read_last_sign(struct store *store, const struct attempt *a, uint64_t *ret,
			   struct err *err);

/* Of an attempt's row: it has no end, and its runner is not known to be dead. */
int attempt_may_run(struct store *store, int64_t attempt_id, bool *ret, struct err *err);

/*
 * An episode of an attempt that nobody has ended is over with it: with its end, or with the last
 * sign of one that was lost. ended_wall_ns: the attempt's, U64_UNKNOWN where it has none; id 0: it
 * is of no attempt, and over where nobody looks at the host any more.
 */
int attempt_end_episode(struct store *store, int64_t id, uint64_t ended_wall_ns, struct episode *e,
			struct err *err);

#endif
