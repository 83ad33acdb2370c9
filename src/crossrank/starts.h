/*
 * starts - ranks that rise as long after their own starts, which are far apart.
 *
 * Where starts are further apart than the rises of one episode, ranks that do the same are members
 * of several: who started long before or after the others is alone in its own, and who was first
 * in any says nothing. So a named rank's rise is held against one of each other rank, of
 * whatever episode: about as large, and the one that comes most nearly as long after its start.
 *
 * Inside of episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_STARTS_H
#define PROCTOR_CROSSRANK_STARTS_H

#include "crossrank/judge.h"

/* Takes the name of an episode back if (nearly) all ranks rose as long after their own starts, and
 * not together by the clock. -ENOMEM. */
int starts_take_back(struct judge_work *w, struct judge_outcome *o);

/* Puts all that rose so behind w->pool, to be shown instead of those of one episode. */
void starts_show_all(struct judge_work *w, struct judge_outcome *o);

#endif
