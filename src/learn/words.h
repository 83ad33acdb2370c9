/*
 * words - findings as people and programs read them.
 */
#ifndef PROCTOR_LEARN_WORDS_H
#define PROCTOR_LEARN_WORDS_H

#include "base/arena.h"
#include "learn/analysis.h"

/*
 * "runs of `train.py` whose memory grew faster than 41 MB/s in the first minute
 * failed 8 of 9 times (95 % interval 57 to 98 %); others 1 of 12; adjusted p
 * 0.003, supported". Of too few runs: "suggestive: 2 of 2
 * failures and 0 of 3 passes …". NULL: no memory.
 */
const char *words_of_finding(const struct finding *f, struct arena *arena);

#endif
