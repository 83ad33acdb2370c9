/*
 * judge - what one episode of rises says.
 *
 * Inside of finding.c and episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_JUDGE_H
#define PROCTOR_CROSSRANK_JUDGE_H

#include "crossrank/clocks.h"
#include "crossrank/finding.h"

struct judge_work {
	struct rank_analysis *a;
	struct first_cause *f;
	struct rank_clock *clocks;
	struct candidate *all; /* every rise that counts, by time */
	size_t n_all;
	size_t *last_seen; /* by number of the rank: one more than its last place in all[] */
	double interval;
	double peak; /* when all ranks together had the most, in seconds after the origin */
};

/* What came of one episode. */
struct judge_outcome {
	enum verdict verdict;
	enum why why;
	size_t from, to; /* of all[] */
	size_t best;
	const struct rank *unseen;
};

/* Of the rises [from, to) of w->all, whose probabilities it fills. -ENOMEM. */
int judge_episode(struct judge_work *w, size_t from, size_t to, struct judge_outcome *ret);

#endif
