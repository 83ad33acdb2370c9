/*
 * blocks - memory that goes up in blocks, and how much earlier its rise began.
 *
 * An allocator takes a block and fills it, so that nothing is seen until the first new one is
 * taken: a rise that needs a block every few seconds began up to that long before its first
 * step. Or with it, as a program does that asks for blocks itself, at an even pace; each is as
 * likely. Where the others take their first blocks at about one moment, much closer than chance
 * would fill theirs, blocks are not filled by chance, and steps are as good as any.
 *
 * Inside of rise_onset.c and finding.c.
 */
#ifndef PROCTOR_CROSSRANK_BLOCKS_H
#define PROCTOR_CROSSRANK_BLOCKS_H

#include "crossrank/judge.h"
#include "crossrank/series.h"

/* Fills dwell and block_mib of a rise whose first bin above is given. */
void blocks_find(const struct series *s, size_t above, const struct run *run, struct rise *ret);

/* Widens the onsets of rises in blocks, of all ranks. -ENOMEM. */
int blocks_blur(struct judge_work *w);

#endif
