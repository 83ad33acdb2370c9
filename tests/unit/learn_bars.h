/*
 * learn_bars - made-up classes of runs: what the bars of docs/statistics.md are
 * measured on, in the unit test and, for longer, in the benchmark.
 */
#ifndef PROCTOR_TESTS_LEARN_BARS_H
#define PROCTOR_TESTS_LEARN_BARS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "learn/analysis.h"
#include "model/run.h"
#include "stats/rng.h"

#define BARS_FEATURES 14
#define BARS_SHIFTED 3 /* the feature that is shifted where one is */
#define BARS_MAX_RUNS 200

static const size_t bars_offsets[BARS_FEATURES] = {
	offsetof(struct run_record, peak_rss_mb),
	offsetof(struct run_record, spawn_count),
	offsetof(struct run_record, max_threads),
	offsetof(struct run_record, max_fds),
	offsetof(struct run_record, io_mb),
	offsetof(struct run_record, major_faults),
	offsetof(struct run_record, memory_stall_pct),
	offsetof(struct run_record, io_stall_pct),
	offsetof(struct run_record, cpu_stall_pct),
	offsetof(struct run_record, gpu_memory_mb),
	offsetof(struct run_record, gpu_utilization_pct),
	offsetof(struct run_record, early_rss_mb[2]),
	offsetof(struct run_record, rss_slope_mb_s[2]),
	offsetof(struct run_record, cpu_seconds),
};

/* Normal features with a correlation of 0.5; those that failed differ in one by shift. */
static void bars_fill_run(struct rng *rng, struct run_record *run, bool has_failed, double shift)
{
	double shared = rng_normal(rng);

	run_record_init(run);
	run->is_whole = true;
	run->class.label = "made-up";
	run->outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
	for (size_t k = 0; k < BARS_FEATURES; k++) {
		double value = (shared + rng_normal(rng)) * sqrt(0.5);

		if (k == BARS_SHIFTED && has_failed)
			value += shift;
		*(double *)(void *)((char *)run + bars_offsets[k]) = value;
	}
}

/*
 * One analysis of n runs. share: of failures; a whole number of runs if is_fixed,
 * else each by chance. Returns the smallest adjusted p (with a shift that of the
 * shifted feature), 1 if nothing was found; -1: it went wrong.
 */
static double bars_analyze(struct rng *rng, size_t n, double share, bool is_fixed, double shift)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	struct run_record runs[BARS_MAX_RUNS];
	size_t n_failed = (size_t)floor(share * (double)n + 0.5);
	double p = 1;

	for (size_t i = 0; i < n; i++) {
		bars_fill_run(rng, &runs[i], is_fixed ? i < n_failed : rng_unit(rng) < share,
			      shift);
		runs[i].attempt = (int64_t)i + 1;
		runs[i].started_wall_ns = runs[i].ended_wall_ns = i;
	}
	if (analysis_run(runs, n, rng_u64(rng), &a) < 0)
		return -1;
	for (size_t i = 0; i < a.n; i++)
		if (a.findings[i].is_tested &&
		    (shift == 0 || strcmp(a.findings[i].feature, "max_fds") == 0))
			p = fmin(p, a.findings[i].p);
	return p;
}

#endif
