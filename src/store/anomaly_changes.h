/*
 * anomaly_changes - one fault is one row, whoever sees it, with what was told of it and when.
 *
 * A runner and a daemon that takes over from it, or several runs of one host, see the same
 * fault and give it names that differ only in when it began (model/anomaly.h). Who writes first
 * is its teller. What another writes while that row lasts is added to it where it is worse; and
 * where it is over, if the teller has left that to whoever goes on. The first who has seen its end
 * tells it, unless it came back after that for another who goes on. Inside of a transaction.
 */
#ifndef PROCTOR_STORE_ANOMALY_CHANGES_H
#define PROCTOR_STORE_ANOMALY_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/anomaly.h"
#include "store/columns.h"
#include "store/store.h"

#define PATTERN_NAME_BYTES (64 + COMM_BYTES)
#define PATTERN_MAX_JOBS 50 /* whose names are kept: the last; all are counted */

extern const struct columns anomaly_change_columns;
extern const struct columns anomaly_known_columns, anomaly_shared_columns;

#define ANOMALY_MAX_CHANGES                                                  \
	16 /* of one episode: it begins, gets worse three times, and is over \
	    */

/* The row that is there already; id 0: none is. */
struct known_anomaly {
	int64_t id;
	char name[EPISODE_NAME_BYTES];
	uint64_t began_wall_ns;
	struct episode row;		  /* its severity, words, peak, count and pid */
	char unit[32];			  /* of that */
	char pattern[PATTERN_NAME_BYTES]; /* that it was counted as; "": none */
	bool has_end;
	uint64_t ended_wall_ns; /* where it has */
	bool end_was_seen;	/* so it was told, and stays unless it came back */
	bool is_shared;		/* it is another's: begun by that, and not taken over */
	bool is_left;		/* and is that one's to end */
};

int anomaly_find_known(struct store *store, int64_t attempt_id, const struct episode *e,
		       struct known_anomaly *ret, struct err *err);

/*
 * Of one that another has begun and that is no more severe here, or that lasts: its peak, its count
 * and how it ended, if it did.
 */
struct anomaly_cells;
int anomaly_share(struct store *store, int64_t id, const struct anomaly_cells *cells,
		  struct err *err);

/* What is told now. An end takes the place of one before. */
int anomaly_add_change(struct store *store, const char *name, const struct episode *e,
		       enum episode_change change, struct err *err);

/* The change whose columns the query stands on. 0: no such change can have been written. */
struct query;
int anomaly_read_change(struct query *q, struct episode_moment *ret, struct err *err);

/* What was told of the row, oldest first, into the arena. Inside of a transaction. */
int anomaly_read_changes(struct store *store, int64_t id, struct arena *arena,
			 const struct episode_moment **ret, size_t *ret_n, struct err *err);

/*
 * ---- patterns ----
 *
 * What comes again and again: a RESOURCE_ANOMALY for each type and program, with the jobs it was
 * seen in. It outlives the episodes that it was counted from.
 */

/* "memory_leak:python3": what it is, and of which program. */
void anomaly_pattern_name(const struct episode *e, char ret[PATTERN_NAME_BYTES]);

/* One more, of this attempt (0: of none), whose row is written. Inside of a transaction. */
int anomaly_count_pattern(struct store *store, int64_t attempt_id, const struct episode *e,
			  const char *pattern, struct err *err);

/* The last of them got worse: the tags and words of the pattern are those of now. The same. */
int anomaly_renew_pattern(struct store *store, const struct episode *e, const char *pattern,
			  struct err *err);

#endif
