/*
 * follow - whether the others followed the first, or each rose at a time of its own.
 *
 * One of several ranks is always the first, also where they have nothing to do with each other.
 * That one led is said only if the others' rises are closer to its own than such ranks' would be:
 * had each begun anywhere in the record, all of it, so small a span would be seldom (p < 0.05), and
 * it is a small part of the record. Those that went up one after the other at an even pace are no
 * chance either. Who rose alone, and nobody else in the whole record, has nobody to be compared
 * with.
 *
 * Inside of episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_FOLLOW_H
#define PROCTOR_CROSSRANK_FOLLOW_H

#include "crossrank/judge.h"

/* Of all n episodes of a job, `chosen` names a rank: takes that back if the others did not follow.
 * -ENOMEM. */
int follow_judge(struct judge_work *w, const struct judge_outcome *items, size_t n,
		 struct judge_outcome *chosen);

#endif
