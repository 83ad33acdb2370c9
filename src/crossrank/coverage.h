/*
 * coverage - for how long a rank was looked at, and how often.
 *
 * A record may have holes: it was paused, or the host slept. What happened then nobody saw, so a
 * hole is no part of the time in which a rank could be seen to rise, nor does it say how often
 * samples were taken.
 *
 * Inside of finding.c.
 */
#ifndef PROCTOR_CROSSRANK_COVERAGE_H
#define PROCTOR_CROSSRANK_COVERAGE_H

#include "crossrank/analysis.h"

struct coverage {
	double seconds;	 /* in which there were samples */
	double interval; /* from one to the next then, on average; 0: there are none to tell */
};

/* By number of the rank; the caller frees it. -ENOMEM. */
int coverage_find(const struct rank_analysis *a, struct coverage **ret);

#endif
