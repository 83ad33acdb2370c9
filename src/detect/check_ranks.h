/*
 * check_ranks - whether one rank of a job leaves its peers, while it happens.
 *
 * The memory of each rank is kept at a few points of the whole run, more widely apart the longer it
 * is. How far a rank is from the median of its peers is compared with the least since the last
 * look; where that has grown, the method of crossrank/ looks at all points. A rank that it names at
 * two looks is reported, once for each run of a sheet. The cost is bounded by a budget: looks are
 * paid from what samples bring in.
 */
#pragma once

#include "detect/checks.h"
#include "detect/episode.h"

struct rank_watch;

struct rank_watch *rank_watch_free(struct rank_watch *w); /* NULL is fine. Returns NULL. */

/* One process of the tick that is of a rank; *w is made where it is NULL. -ENOMEM. */
int rank_watch_add(struct rank_watch **w, const struct proc_sample *p);

/* All of the tick were added. -ENOMEM. */
int rank_watch_end_tick(struct rank_watch *w, const struct tick *t);

/* The process of the rank that was found. */
void rank_watch_blame(const void *watch, struct subject *who);
