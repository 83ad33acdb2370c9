/*
 * belief_judge - what runs that a rule had not seen say about it; see belief.h for when
 * they confirm or retire it.
 */
#ifndef PROCTOR_LEARN_BELIEF_JUDGE_H
#define PROCTOR_LEARN_BELIEF_JUDGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "model/pattern.h"
#include "model/run.h"

/*
 * units: by class and time (unit.h). Judged by the same runs again, it comes out the
 * same. The reason for retiring goes into the arena. -ENOMEM.
 */
int belief_judge(struct pattern *p, const struct run_record *const *units, size_t n, uint64_t now,
		 struct arena *arena);

#endif
