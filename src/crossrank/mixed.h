/*
 * mixed - whether a rank's records are of two processes that lived at the same time.
 *
 * A rank that was restarted goes on with another process, and that is fine. But records
 * that take turns are of two runs, or two jobs of one name: a sum or an order made of them says
 * nothing. A few beside thousands are left out before (strays.h).
 */
#ifndef PROCTOR_CROSSRANK_MIXED_H
#define PROCTOR_CROSSRANK_MIXED_H

#include "crossrank/analysis.h"

/* The first such rank; NULL: none. */
const struct rank *mixed_find(const struct rank_analysis *a);

#endif
