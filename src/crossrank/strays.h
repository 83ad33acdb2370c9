/*
 * strays - the few records of other processes that stand with those of a rank.
 *
 * One file too many, or a line of another run, puts a record or two of another process between
 * the thousands of a rank's own, or hours before or behind them. They say nothing of the rank and
 * would leave no answer at all (mixed.h), so they are left out, and that is told. compat knows
 * nothing of it.
 */
#ifndef PROCTOR_CROSSRANK_STRAYS_H
#define PROCTOR_CROSSRANK_STRAYS_H

#include "crossrank/analysis.h"

/* Sets own and n_strays of each of a->ranks: own is the stream itself where none is. -ENOMEM. */
int strays_leave_out(struct rank_analysis *a);

uint64_t strays_count(const struct rank_analysis *a);

/*
 * How many ranks at the end of a->ranks are stray, too: no rank of the world that most samples tell
 * of, with a few records beside the many of the others.
 */
size_t strays_count_ranks(const struct rank_analysis *a);

/* " 2 records ... were left out."; nothing where there are none. */
void strays_add_text(struct buf *out, const struct rank_analysis *a);

/* By its host and number: sessions may change while one goes on. */
uint64_t strays_process(const struct identity *id);

#endif
