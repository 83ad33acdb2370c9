/*
 * seen - whether the records show what they are asked for.
 *
 * Who was not seen to rise has not risen only if its record was there at the time: begun before,
 * not ended, and without a hole. But a rank that is known to have died before the first onset
 * cannot have begun then, and its peak tells whether it had risen unseen before: such a one, which
 * may well have failed for another reason, keeps nobody from being named.
 *
 * Inside of judge.c.
 */
#ifndef PROCTOR_CROSSRANK_SEEN_H
#define PROCTOR_CROSSRANK_SEEN_H

#include "crossrank/judge.h"

/* A rank that may have risen before the likeliest first onset without being seen; NULL: none. */
const struct rank *seen_find_unseen(const struct judge_work *w, const struct judge_outcome *o);

/*
 * A rank whose start-up may be what the first one's rise is: it rose as much before it ever rested,
 * shortly before that rise or during it, and the first one did not load like that; NULL: none.
 */
const struct rank *seen_find_loaded(const struct judge_work *w, const struct judge_outcome *o);

/* How many ranks without a single sample ended before that, and never held much. */
uint64_t seen_count_ended(const struct judge_work *w, const struct judge_outcome *o);

#endif
