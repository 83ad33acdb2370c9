/*
 * grain - memory that comes in steps too short to be seen as such.
 *
 * Nothing in samples tells a line from stairs whose steps last up to one sampling interval: a
 * line through them begins with any sample before the first step, up to a step before it. So an
 * onset that was fitted may be up to an interval later than it is said to be. Two things say more:
 *
 * - Ranks that are looked at at other moments, and begin at one moment all the same, have
 *   shorter steps than that: else when they were looked at would have parted them.
 * - Ranks that are all looked at at the same moments are late by about as much, which changes
 *   nothing about who was first.
 *
 * Inside of finding.c.
 */
#ifndef PROCTOR_CROSSRANK_GRAIN_H
#define PROCTOR_CROSSRANK_GRAIN_H

#include "crossrank/judge.h"
#include "crossrank/stamps.h"

struct grain {
	double longest; /* seconds that a step may last; INFINITY: an interval */
	double between; /* of these may part ranks that began at once */
};

/* From the largest rise of each rank. -ENOMEM. */
int grain_find(const struct judge_work *w, const struct stamps *stamps, struct grain *ret);

/* Widens fitted onsets as far as it matters who was first. */
void grain_blur(struct judge_work *w, const struct stamps *stamps, const struct grain *g);

/* Once that is answered: widens them by what is open for all ranks alike. */
void grain_blur_all(struct judge_work *w, const struct stamps *stamps, const struct grain *g);

#endif
