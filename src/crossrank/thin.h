/*
 * thin - rises that a sample or two show, and nothing else.
 *
 * One sample that sticks out is a rise where nothing else sticks out. Where samples of the same job
 * do so again and come back at once, it is one of these, whatever its noise seems to be: that is
 * measured in the middle, and says little about the ends.
 *
 * Inside of related.c.
 */
#ifndef PROCTOR_CROSSRANK_THIN_H
#define PROCTOR_CROSSRANK_THIN_H

#include "crossrank/judge.h"

/* `chosen` names a rank: takes that back, and returns true, if its rise is one of those. */
bool thin_take_back(const struct judge_work *w, struct judge_outcome *chosen);

#endif
