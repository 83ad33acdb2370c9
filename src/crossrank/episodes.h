/*
 * episodes - which rises belong together, and which of several such episodes is the answer.
 *
 * Episodes are what gather.h makes of the rises.
 * The question is who took the job to where it ended up, so what counts is the last
 * episode on the way to the job's peak. One that is the workload's is passed over, and explains its
 * ranks: an earlier one counts only if it has a rank that is not explained. An answer is
 * an earlier one's if none of its ranks rose since: they went up one after the other. What led to
 * nothing (it was given back before the peak, or came after it) is looked at where the way to the
 * peak has no answer. Where the same ranks rose by about as much before, and another one was the
 * first then, nobody knows which of the two led to the peak.
 */
#ifndef PROCTOR_CROSSRANK_EPISODES_H
#define PROCTOR_CROSSRANK_EPISODES_H

#include "crossrank/judge.h"

/*
 * The outcome of the episode that counts; of the workload's last one where none does. Fills the
 * probabilities of w->pool and the counts of episodes. -ENOMEM.
 */
int episodes_judge(struct judge_work *w, struct judge_outcome *ret);

#endif
