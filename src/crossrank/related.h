/*
 * related - whether the rises of several ranks have to do with each other.
 *
 * One of several ranks is always the first, also where each rises at a time of its own. That one
 * was the first says something only if the others' rises are closer to its own than those of
 * such ranks: had each begun anywhere in four tenths of the record (more than four ranks: in three
 * tenths), so small a span would be seldom (p < 0.04; of two 0.05), and it is a small part of that.
 * So would those behind the first, all or four fifths of them, however long it was before them
 * (p < 0.005). Those that went up one after the other at an even pace are no chance either. A rank
 * with several rises has as many chances to be near.
 * Who rose alone, and nobody else in the whole record, has nobody to be compared with.
 *
 * That the first made the others rise is not looked at: ranks that one cause reaches, each after a
 * delay of its own, have a first one, too.
 *
 * Inside of episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_RELATED_H
#define PROCTOR_CROSSRANK_RELATED_H

#include "crossrank/judge.h"

/* Of all n episodes of a job, `chosen` names a rank: takes that back if the others' rises have
 * nothing to do with its own, or its rise is one that ranks give back, or the turn of a wave. Who
 * was alone in its episode and goes before others is put behind w->pool with them. -ENOMEM. */
int related_judge(struct judge_work *w, const struct judge_outcome *items, size_t n,
		  struct judge_outcome *chosen);

#endif
