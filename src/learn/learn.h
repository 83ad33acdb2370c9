/*
 * learn - what is to be expected of jobs and of the host, from what was.
 *
 * Functions from data to data: whoever calls hands in arrays, and nothing here
 * knows where they are kept. All of it may run on a thread of its own.
 */
#ifndef PROCTOR_LEARN_LEARN_H
#define PROCTOR_LEARN_LEARN_H

#include "learn/admit.h"    /* whether a job may start */
#include "learn/analysis.h" /* which patterns go with failure */
#include "learn/belief.h"   /* and what becomes of them */
#include "learn/class.h"    /* which jobs are of one kind */
#include "learn/compat.h"   /* the old correlation */
#include "learn/diff.h"	    /* what two runs differ in */
#include "learn/estimate.h" /* what the next run will need */
#include "learn/gather.h"   /* what to learn from */
#include "learn/pressure.h" /* how near the host is to its limits */
#include "learn/standing.h" /* how a run compares with others */
#include "learn/unit.h"	    /* what counts as one */

#endif
