/*
 * standing - where a run stands among others of its class (model/standing.h).
 *
 * The usual is that of the others that succeeded: those that failed may have been cut
 * short. Where fewer than 3 did, it is that of all. A value is unusual if, with p
 * counted as (1 + as far out) / (1 + others) on its side, twice p is at most 0.05: so
 * with fewer than 39 others none is.
 */
#ifndef PROCTOR_LEARN_STANDING_H
#define PROCTOR_LEARN_STANDING_H

#include <stddef.h>

#include "model/run.h"
#include "model/standing.h"

/*
 * others: with an outcome, the run not among them. Fills all but what was expected,
 * and the basis. -ENOMEM.
 */
int standing_judge(const struct run_record *run, const struct run_record *others, size_t n,
		   struct standing *ret);

#endif
