/*
 * together - whether the rises of an episode began together: by the clock, as long after each
 * one's own start, or around one operation. What all do together is the workload's doing.
 *
 * Inside of judge.c and starts.c.
 */
#ifndef PROCTOR_CROSSRANK_TOGETHER_H
#define PROCTOR_CROSSRANK_TOGETHER_H

#include "crossrank/judge.h"

/* What the numbers of several rises say; o->best is the likeliest first one. */
struct together {
	bool is_sure;	 /* who was first */
	bool is_equal;	 /* they may have begun together */
	bool is_shared;	 /* they did: nobody's lead is hidden */
	bool is_start;	 /* each began as long after its own start */
	bool is_ordered; /* or about so: most of what is between them is between their starts */
	/* is_start alone: */
	bool is_of_one;	   /* all but the first began together by the clock, too */
	bool is_born;	   /* its program had that lead, too */
	double lead_below; /* seconds by which nobody can have led; INFINITY: it is too much */
};

/* -ENOMEM. */
int together_find(const struct judge_work *w, const struct judge_outcome *o, struct together *ret);

/* is_start, is_ordered and what belongs to these, and nothing else. jitter: by how many seconds
 * (one standard deviation) it varies how long equal programs take until they rise. -ENOMEM. */
int together_find_start(const struct judge_work *w, const struct judge_outcome *o, double jitter,
			struct together *ret);

/* So many of the ranks rose that these are as good as all. */
bool together_is_all(const struct judge_work *w, const struct judge_outcome *o);

/* Around one and the same operation: one here and one there explain nothing. */
bool together_is_collective(const struct judge_work *w, const struct judge_outcome *o);

/* Whether each rose as long after the beginning of its record. -ENOMEM. */
int together_since_start(const struct judge_work *w, const struct judge_outcome *o, bool *ret);

#endif
