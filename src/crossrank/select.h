/*
 * select - the steps of rank_analysis_init() that say which samples count.
 */
#ifndef PROCTOR_CROSSRANK_SELECT_H
#define PROCTOR_CROSSRANK_SELECT_H

#include "crossrank/analysis.h"

/* Fills job_id and others; samples of other jobs than the most common one are taken out. */
int select_job(struct rank_analysis *a);

/* Fills ranks and seen_order. */
int select_ranks(struct rank_analysis *a);

/* Fills world_size; there is at least one rank. */
int select_world_size(struct rank_analysis *a);

/* Fills missing. */
int select_missing(struct rank_analysis *a);

#endif
