/*
 * vtab_ticks - the moments that a statement asks for: all of a time, or one by its id.
 *
 * A moment is a tick, or a minute where ticks are not kept any more. A tick has its own id,
 * a minute its number since 1970, negative.
 *
 * A join asks for one by one, mostly for neighbours. So the folds that they were
 * found in stay open until vtab_ticks_release().
 */
#ifndef PROCTOR_STORE_SQL_VTAB_TICKS_H
#define PROCTOR_STORE_SQL_VTAB_TICKS_H

#include "store/open_fold.h"
#include "store/sql/vtab.h"
#include "store/walk.h"

struct vtab_ticks {
	struct store *store;
	struct timeline *timeline;
	struct open_fold *kept;	      /* the one that was used last first */
	unsigned n_words;	      /* of those */
	struct minute_window *window; /* of a minute that was found by its id */
	uint64_t from, to;	      /* what is in it */
	const struct open_fold *fold; /* the tick is its current one; NULL: a minute, or none */
	struct minute_rows minute;    /* no rows: a tick, or none */
};

void vtab_ticks_release(struct vtab_ticks *ticks);

/* 1: it stands at the first, or the next, moment. 0: there is none. */
int vtab_ticks_begin(struct vtab_ticks *ticks, struct store *store,
		     const struct vtab_filter *filter, struct err *err);
int vtab_ticks_next(struct vtab_ticks *ticks, struct err *err);

int64_t vtab_ticks_id(const struct vtab_ticks *ticks);
uint64_t vtab_ticks_wall_ns(const struct vtab_ticks *ticks);
double vtab_ticks_resolution(const struct vtab_ticks *ticks); /* NaN for a tick */

#endif
