/*
 * usual - whether the first rise is one of those that the ranks of the job give back.
 *
 * Checkpoints and evaluations take memory for a while. One that the end of the record cuts looks
 * like a rise that stays and that nobody else has; it is one only if it is larger than those, or
 * is up for longer. One that was given back is nothing where another rank does so again and again,
 * or most ranks once, each at a moment of its own.
 *
 * Inside of episodes.c.
 */
#ifndef PROCTOR_CROSSRANK_USUAL_H
#define PROCTOR_CROSSRANK_USUAL_H

#include "crossrank/judge.h"

/* When the record of a rank ends, in seconds after the origin. */
double usual_record_end(const struct judge_work *w, const struct rank *rank);

/* Whether a rise went while its process went on. */
bool usual_is_given_back(const struct judge_work *w, const struct rank *rank,
			 const struct rise *rise);

/* `chosen` names a rank: takes that back, and returns true, if its rise is one of those. */
bool usual_take_back(const struct judge_work *w, struct judge_outcome *chosen);

#endif
