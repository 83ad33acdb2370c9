/*
 * seen - whether the records show what they are asked for.
 *
 * Who was not seen to rise has not risen only if its record was there at the time: begun before,
 * not ended, and without a hole.
 *
 * Inside of judge.c.
 */
#ifndef PROCTOR_CROSSRANK_SEEN_H
#define PROCTOR_CROSSRANK_SEEN_H

#include "crossrank/judge.h"

/* A rank that may have risen before the likeliest first onset without being seen; NULL: none. */
const struct rank *seen_find_unseen(const struct judge_work *w, const struct judge_outcome *o);

#endif
