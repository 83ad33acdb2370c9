/*
 * refill - whether a rise only brings back what was given away right before it.
 *
 * A cache that is emptied and filled again goes down at once and up to where it was. That is no
 * rise of which anything came. What is higher behind it than before, what rested at the low for
 * longer than it takes to go up, and the teeth of a saw (what was given away had risen in the same
 * record) are none of it, and gentle ways down are waves (waves.h).
 *
 * Inside of rises.c.
 */
#ifndef PROCTOR_CROSSRANK_REFILL_H
#define PROCTOR_CROSSRANK_REFILL_H

#include "crossrank/series.h"

/* Takes those out of the runs of a series, which are by time; their moves count no more. */
void refill_drop(struct series *s, struct run_list *runs);

#endif
