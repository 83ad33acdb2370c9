/*
 * belief_note - what an analysis has found becomes patterns; see belief.h.
 */
#ifndef PROCTOR_LEARN_BELIEF_NOTE_H
#define PROCTOR_LEARN_BELIEF_NOTE_H

#include <stddef.h>
#include <stdint.h>

#include "learn/analysis.h"
#include "model/pattern.h"
#include "model/run.h"

/*
 * Adds what is supported and not believed yet, and lets lapse what is not supported any
 * more. units: by class and time (unit.h). Strings go into the arena of the patterns. -ENOMEM.
 */
int belief_note(struct pattern_list *patterns, const struct analysis *found,
		const struct run_record *const *units, size_t n, uint64_t now_wall_ns);

#endif
