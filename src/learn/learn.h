/*
 * learn - what is to be expected of jobs and of the host, from what was.
 *
 * Functions from data to data: whoever calls hands in arrays, and nothing here
 * knows where they are kept. All of it may run on a thread of its own.
 */
#pragma once

#include "learn/admission.h" /* how near the host is to its limits; whether a job may start */
#include "learn/belief.h"    /* what becomes of findings */
#include "learn/compat_correlation.h" /* the old correlation */
#include "learn/failure_analysis.h"   /* which patterns go with failure */
#include "learn/gather_runs.h"	      /* what to learn from */
#include "learn/run_class.h"	      /* which runs are of one kind, and which count */
#include "learn/run_compare.h"	      /* how a run compares with others */
#include "learn/run_estimate.h"	      /* what the next run will need */
