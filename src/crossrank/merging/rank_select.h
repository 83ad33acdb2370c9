/*
 * rank_select - the steps of rank_analysis_init() that decide which samples count.
 *
 * A stray record is of another process than the thousands of its rank: one file too many, or a
 * line of another run. It would leave no answer at all, so it is left out, and the text says so.
 * A rank is mixed where records of two processes take turns: two runs, or two jobs of one name. A
 * sum or an order made of them means nothing. A rank that was restarted is neither. compat, which
 * follows the reference, knows none of this.
 */
#ifndef PROCTOR_CROSSRANK_MERGING_RANK_SELECT_H
#define PROCTOR_CROSSRANK_MERGING_RANK_SELECT_H

#include "crossrank/merging/merging.h"

/* Fills job_id and others; samples of other jobs than the most common one are taken out. */
int select_job(struct rank_analysis *a);

/* Fills ranks and seen_order. */
int select_ranks(struct rank_analysis *a);

/* Fills world_size; there is at least one rank. */
int select_world_size(struct rank_analysis *a);

/* Fills missing. */
int select_missing(struct rank_analysis *a);

/* Sets own and n_strays of each of a->ranks: own is the stream itself where none is. -ENOMEM. */
int strays_leave_out(struct rank_analysis *a);

/*
 * Sets total of each of a->ranks, the sum over its devices: samplers write one record per device at
 * each tick, which compat takes for one series. Its own stream itself where there is one device.
 * -ENOMEM.
 */
int devices_add_up(struct rank_analysis *a);

#endif
