/*
 * judge - what one episode of rises says, and which episode counts.
 *
 * Inside of finding.c. An episode is the rises that belong together: each rank once, and no
 * long rest between them.
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
};

/* What came of one episode. */
struct judge_outcome {
	enum verdict verdict;
	enum why why;
	size_t from, to; /* of all[] */
	size_t best;
	const struct rank *unseen;
};

/*
 * The outcome of the episode that counts: a rank that is named goes before an open question, and
 * that before a workload; of each kind the first. Fills the probabilities of w->all and the
 * counts of episodes. -ENOMEM.
 */
int judge_episodes(struct judge_work *w, struct judge_outcome *ret);

#endif
