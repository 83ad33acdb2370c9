/*
 * estimate - what the next run of a class is expected to need, and how past
 * answers did.
 */
#ifndef PROCTOR_MODEL_ESTIMATE_H
#define PROCTOR_MODEL_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/run.h"

struct estimate {
	uint64_t n_runs;      /* that it rests on; 0: there is no history, and nothing is known */
	enum run_rung rung;   /* how alike they are */
	uint64_t n_censored;  /* of these were killed for memory: lower bounds only */
	uint64_t n_left_out;  /* older runs, from before the last change of level */
	double peak_rss_mb;   /* NaN where none of the runs has one */
	double peak_coverage; /* the probability that the next run stays within it */
	double cpu_seconds;   /* median */
	double cpu_high_seconds, cpu_coverage; /* 90 % quantile, as far as there are runs */
	double wall_seconds;		       /* median */
};

void estimate_init(struct estimate *e); /* no data */

/* What became of an estimate when its run ended: 1 covered, 0 not, -1 cannot be told. */
struct estimate_score {
	int is_peak_covered, is_cpu_covered;
};

/* How past answers for a class did. */
struct calibration {
	uint64_t n_peak, n_peak_covered;
	uint64_t n_cpu, n_cpu_covered;
	double promised; /* mean of the coverages that were promised for peaks; NaN: none */
};

#endif
