/*
 * waves - whether a rise is the way up of a wave, which turns and does not begin.
 *
 * Memory that goes up and down smoothly has a lowest point of its own in each rank, and one of
 * these is always the first. So a rise that follows on a way down which is as gentle as it is
 * itself, without a rest as long between them, tells where a wave turned and not that something
 * went wrong. What falls at once is no wave: see rises.h for saw-teeth.
 */
#ifndef PROCTOR_CROSSRANK_WAVES_H
#define PROCTOR_CROSSRANK_WAVES_H

#include "crossrank/judge.h"
#include "crossrank/series.h"

/* The MiB of the way down from which the run turns; slope: how steeply (NaN: at once). 0: it does
 * not.
 */
double waves_lost(const struct series *s, const struct run *run, double slope);

/*
 * `chosen` names a rank: takes that back if its rise turned, or half of the others' did; but not of
 * one that rose alone, by much more than it had lost, and stayed up.
 */
void waves_take_back(const struct judge_work *w, struct judge_outcome *chosen);

#endif
