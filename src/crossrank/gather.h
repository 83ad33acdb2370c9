/*
 * gather - which rises of all ranks belong together.
 *
 * An episode is made of large rises without a long rest between them, each rank once. Two
 * are apart only if they were for sure, wherever in their intervals the rises began and however
 * far the clocks are off. What is small beside the largest begins no episode; but the first to rise
 * may be the one that dies, or runs into its limit, and gains the least: a smaller rise that
 * leads up to an episode is a member, and the beginning of its rank. What most ranks do in small is
 * the workload's; but then they are members beside one that does it in large.
 *
 * Inside of finding.c and episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_GATHER_H
#define PROCTOR_CROSSRANK_GATHER_H

#include "crossrank/judge.h"

/* Fills w->all and w->small from the rises of all ranks. -ENOMEM. */
int gather_collect(struct judge_work *w);
void gather_release(struct judge_work *w);

/*
 * The episode that begins with rise `first` of w->all: appends its members to w->pool. Its
 * beginning is after quiet_until. Returns the number of the first rise behind it.
 */
size_t gather_episode(struct judge_work *w, size_t first, double quiet_until);

/* By when they can have begun at the earliest, for qsort(). */
int gather_compare(const void *l, const void *r);

#endif
