/*
 * summary - an analysis as JSON: the keys of the reference, then what proctor adds.
 */
#ifndef PROCTOR_CROSSRANK_SUMMARY_H
#define PROCTOR_CROSSRANK_SUMMARY_H

#include "base/json.h"
#include "crossrank/analysis.h"

/* The members of an object that the caller begins and ends. */
void summary_write_compat(struct json *j, const struct rank_analysis *a);

/* The same, and finding, ranks, memory and steps: an rank_analysis_run() went before. */
void summary_write_all(struct json *j, const struct rank_analysis *a);

/* A whole number of any size: appended, or as a JSON value. */
void summary_add_i128(struct buf *out, __int128 v);

#endif
