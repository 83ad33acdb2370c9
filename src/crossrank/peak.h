/*
 * peak - when the ranks of a job had the most memory together, and how much that was.
 */
#ifndef PROCTOR_CROSSRANK_PEAK_H
#define PROCTOR_CROSSRANK_PEAK_H

#include "crossrank/analysis.h"

struct peak {
	int64_t bytes; /* the largest sum over ranks at one moment */
	int64_t ns;
};

/* There is a rank. Of records far apart in time moments are coarse. -ENOMEM. */
int peak_find(const struct rank_analysis *a, struct peak *ret);

#endif
