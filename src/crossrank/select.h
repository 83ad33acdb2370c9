/*
 * select - the steps of rank_analysis_init() that say which samples count.
 */
#ifndef PROCTOR_CROSSRANK_SELECT_H
#define PROCTOR_CROSSRANK_SELECT_H

#include "crossrank/analysis.h"

/* The most common job id, s NULL where none is named; samples of other jobs are taken out of t. */
int select_job(struct telemetry *t, struct text *ret_job_id, bool *ret_is_one_of_many);

/* Fills ranks and seen_order. */
int select_ranks(struct rank_analysis *a);

/* Fills world_size; there is at least one rank. */
int select_world_size(struct rank_analysis *a);

/* Fills missing. */
int select_missing(struct rank_analysis *a);

#endif
