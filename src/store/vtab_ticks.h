/*
 * vtab_ticks - the ticks that a statement asks for: all of a time, or one by its id.
 *
 * A join asks for one by one, mostly for neighbours. So the folds that they were
 * found in stay open until vtab_ticks_release().
 */
#ifndef PROCTOR_STORE_VTAB_TICKS_H
#define PROCTOR_STORE_VTAB_TICKS_H

#include "store/open_fold.h"
#include "store/vtab.h"
#include "store/walk.h"

struct vtab_ticks {
	struct store *store;
	struct walk *walk;
	struct open_fold *kept;	      /* the one that was used last first */
	unsigned n_words;	      /* of those */
	const struct open_fold *fold; /* the tick is its current one; NULL: there is none */
};

void vtab_ticks_release(struct vtab_ticks *ticks);

/* 1: it stands at the first, or the next, tick. 0: there is none. */
int vtab_ticks_begin(struct vtab_ticks *ticks, struct store *store,
		     const struct vtab_filter *filter, struct err *err);
int vtab_ticks_next(struct vtab_ticks *ticks, struct err *err);

static inline const struct fold_tick *vtab_ticks_current(const struct vtab_ticks *ticks)
{
	return &ticks->fold->ticks[ticks->fold->current];
}

#endif
