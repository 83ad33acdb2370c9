/*
 * learn_bars - made-up classes of runs: what the bars of docs/statistics.md are
 * measured on, in the unit test and, for longer, in the benchmark.
 */
#ifndef PROCTOR_TESTS_LEARN_BARS_H
#define PROCTOR_TESTS_LEARN_BARS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draws.h"
#include "base/macros.h"
#include "learn/failure_analysis.h"
#include "model/run_record.h"
#include "stats/probability.h"

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

/* What the features of noise are like. */
enum bars_kind {
	BARS_NORMAL,  /* with a correlation of 0.5 */
	BARS_ROUNDED, /* the same, as one of five whole numbers: nearly all are ties */
	BARS_WILD,    /* the same, with tails that have no mean */
	BARS_GAPS,    /* the same, and one value in four is unknown */
	BARS_LOST,    /* the same, and of those that failed one value in three is unknown */
	BARS_NAMED,   /* anomalies, hosts and system calls beside them */
	BARS_KINDS,
};
static const char *const bars_kind_names[] = {
	"normal", "rounded", "wild", "gaps", "lost", "named"
};

static inline double bars_value(struct rng *rng, enum bars_kind kind, bool has_failed,
				double normal)
{
	if (kind == BARS_ROUNDED)
		return fmin(fmax(rint(normal), -2), 2);
	if (kind == BARS_WILD)
		return normal / fmax(fabs(rng_normal(rng)), 1e-6);
	if ((kind == BARS_GAPS && rng_unit(rng) < 0.25) ||
	    (kind == BARS_LOST && has_failed && rng_unit(rng) < 1 / 3.0))
		return NAN;
	return normal;
}

static inline void bars_fill_named(struct rng *rng, struct run_record *run)
{
	static const char *const anomalies[] = { "", "zombie", "memory_spike", "zombie fd_leak" };
	static const char *const hosts[] = { "a", "b", "c" };
	static const char *const calls[] = { "read 9 write 1", "futex 7 read 3", "write 5 read 5",
					     "futex 6 write 4" };

	run->anomalies = anomalies[rng_below(rng, ARRAY_SIZE(anomalies))];
	run->host = hosts[rng_below(rng, ARRAY_SIZE(hosts))];
	run->syscalls = calls[rng_below(rng, ARRAY_SIZE(calls))];
}

/* Those that failed differ in one feature by shift. */
static inline void bars_fill_run(struct rng *rng, enum bars_kind kind, struct run_record *run,
				 bool has_failed, double shift)
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
		*(double *)(void *)((char *)run + bars_offsets[k]) =
			bars_value(rng, kind, has_failed, value);
	}
	if (kind == BARS_NAMED)
		bars_fill_named(rng, run);
}

/* One class of n runs. share: of failures; a whole number of runs if is_fixed, else by chance. */
struct bars_case {
	enum bars_kind kind;
	size_t n, n_classes; /* in one analysis */
	double share;
	bool is_fixed;
	double shift;
};

#define BARS_MAX_CLASSES 10

static inline void bars_fill_class(struct rng *rng, const struct bars_case *c, size_t class,
				   struct run_record *runs)
{
	size_t n_failed = (size_t)floor(c->share * (double)c->n + 0.5);

	for (size_t i = 0; i < c->n; i++) {
		bars_fill_run(rng, c->kind, &runs[i],
			      c->is_fixed ? i < n_failed : rng_unit(rng) < c->share, c->shift);
		runs[i].class.command = class;
		runs[i].attempt = (int64_t)(class * c->n + i) + 1;
		runs[i].started_wall_ns = runs[i].ended_wall_ns = i;
	}
}

/*
 * One analysis. Returns the smallest adjusted p (with a shift that of the shifted
 * feature), 1 if nothing was found; -1: it went wrong.
 */
static inline double bars_analyze(struct rng *rng, const struct bars_case *c)
{
	CLEANUP(analysis_release) struct analysis a = { .arena = ARENA_INIT };
	static struct run_record runs[BARS_MAX_RUNS * BARS_MAX_CLASSES];
	double p = 1;

	for (size_t i = 0; i < c->n_classes; i++)
		bars_fill_class(rng, c, i, runs + i * c->n);
	if (analysis_run(runs, c->n * c->n_classes, rng_u64(rng), &a) < 0)
		return -1;
	for (size_t i = 0; i < a.n; i++)
		if (a.findings[i].is_tested &&
		    (c->shift == 0 || strcmp(a.findings[i].feature, "max_fds") == 0))
			p = fmin(p, a.findings[i].p);
	return p;
}

/* Of so many analyses, how often p comes out at most so large; SIZE_MAX: one went wrong. */
static inline size_t bars_count(struct rng *rng, const struct bars_case *c, size_t times,
				double level)
{
	size_t n_found = 0;

	for (size_t i = 0; i < times; i++) {
		double p = bars_analyze(rng, c);

		if (p < 0)
			return SIZE_MAX;
		n_found += p <= level;
	}
	return n_found;
}

/*
 * The probability that so many of n or more come out if each does with this chance:
 * where it is tiny, the chance is larger.
 */
static inline double bars_doubt(size_t n_found, size_t n, double chance)
{
	double fewer = 0;

	for (size_t k = 0; k < n_found; k++)
		fewer += exp(log_choose(n, k) + (double)k * log(chance) +
			     (double)(n - k) * log1p(-chance));
	return fmax(1 - fewer, 0);
}

#endif
