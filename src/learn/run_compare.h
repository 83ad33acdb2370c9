/*
 * run_compare - a run against others of its class.
 *
 * Two runs: what they used, side by side, and which differences are more than
 * runs of their class usually have.
 *
 * How far two runs of the class lie apart is known from all pairs of others: a
 * difference is beyond the usual if at most 5 % of the pairs have one as large.
 * With fewer than 7 others there are too few pairs to say so.
 */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "learn/feature.h"
#include "model/run_record.h"

#define DIFF_MIN_OTHERS 7
#define DIFF_MAX_OTHERS 200

enum diff_judgement { DIFF_UNKNOWN, DIFF_USUAL, DIFF_BEYOND };

struct diff_row {
	const char *key, *name; /* "peak_rss_mb", "peak memory" */
	enum feature_unit unit;
	double before, after; /* NaN: unknown */
	double usual;	      /* 95 % of the pairs differ by no more; NaN: too few */
	double p;	      /* share of pairs that differ by as much, as (1 + k) / (1 + pairs) */
	enum diff_judgement judgement;
};

struct diff {
	struct diff_row *rows;
	size_t n;
	size_t n_others; /* runs that the usual is known from */
	struct arena arena;
};

/* others: runs of the class, these two not among them. -ENOMEM. */
int diff_runs(const struct run_record *before, const struct run_record *after,
	      const struct run_record *const *others, size_t n_others, struct diff *ret);
void diff_release(struct diff *d);

/*
 * How many rows would be beyond the usual, on average, if these two runs were like the others:
 * each row is judged by itself.
 */
double diff_expected_by_chance(const struct diff *d);

/* An array of objects. */
void diff_write_rows(struct json *j, const struct diff *d);

/*
 * ---- where a run stands among others (model/run_record.h) ----
 *
 * The usual is that of the others that succeeded: those that failed may have been cut
 * short. Where fewer than 3 did, it is that of all. A value is unusual if, with p
 * counted as (1 + as far out) / (1 + others) on its side, twice p is at most 0.05: so
 * with fewer than 39 others none is.
 */

/*
 * others: with an outcome, the run not among them. Fills all but what was expected,
 * and the basis. -ENOMEM.
 */
int standing_judge(const struct run_record *run, const struct run_record *others, size_t n,
		   struct standing *ret);
