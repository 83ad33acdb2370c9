/*
 * judge - what one episode of rises says.
 *
 * Inside of finding.c and episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_JUDGE_H
#define PROCTOR_CROSSRANK_JUDGE_H

#include "crossrank/clocks.h"
#include "crossrank/coverage.h"
#include "crossrank/finding.h"

struct judge_work {
	struct rank_analysis *a;
	struct first_cause *f;
	struct rank_clock *clocks;
	struct coverage *coverage; /* by number of the rank */
	/* Rises by when they can have begun at the earliest. */
	struct candidate *all;	 /* every large one */
	struct candidate *small; /* others, which count only if they go before a large one */
	size_t n_all, n_small;
	/* The members of one episode behind those of the other; at the end who is shown. */
	struct candidate *pool;
	size_t n_pool;
	size_t *place; /* by number of the rank: one more than its last place in pool[] */
	double interval;
	int64_t assumed_ns; /* of clocks that do not say; EVENT_UNKNOWN */
	double peak;	    /* when all ranks together had the most, in seconds after the origin */
};

/* When a sample was taken, in seconds after the origin. */
static inline double judge_seconds(const struct judge_work *w, const struct sample *sample)
{
	return (double)(sample->timestamp_ns - w->f->origin_ns) / 1e9;
}

static inline const struct rank_clock *judge_clock(const struct judge_work *w,
						   const struct candidate *c)
{
	return &w->clocks[c->rank - w->a->ranks];
}

/* A rise as one that may have been the first; is_main: the first large one of its rank. */
static inline struct first_entry judge_entry(const struct judge_work *w, const struct candidate *c,
					     bool is_main)
{
	return (struct first_entry){ is_main ? &c->main->onset : &c->rise->onset, c->clock,
				     judge_clock(w, c)->error };
}

/* What came of one episode. */
struct judge_outcome {
	enum verdict verdict;
	enum why why;
	size_t from, to; /* of pool[] */
	size_t best;
	const struct rank *unseen;
	double lead_below; /* WHY_SHARED: nobody led by so much, in seconds */
};

/* Of the rises [from, to) of w->pool, whose probabilities it fills. -ENOMEM. */
int judge_episode(struct judge_work *w, size_t from, size_t to, struct judge_outcome *ret);

#endif
