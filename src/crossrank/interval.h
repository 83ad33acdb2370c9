/*
 * interval - how far apart the samples are.
 */
#ifndef PROCTOR_CROSSRANK_INTERVAL_H
#define PROCTOR_CROSSRANK_INTERVAL_H

#include "crossrank/analysis.h"

/*
 * The median of the times between two samples of a rank, where there is any time; else
 * of what the samples say their interval is; else 0. As the reference rounds. -ENOMEM.
 */
int interval_median(const struct rank_analysis *a, bool of_totals, int64_t *ret_ns);

#endif
