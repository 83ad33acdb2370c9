/*
 * run_compare - what is more than usual: a run beside the similar runs before it, and beside one
 * of them.
 *
 * Usual is what the similar runs have that succeeded, as those that failed may have been cut
 * short; where fewer than 3 did, what all have. A value is more than usual if at most 5 % of the
 * runs, itself counted, have as much. This takes 19 others: of fewer it can be more than any.
 * Values within 1 % and 50 ms or 1 MB are the same.
 *
 * From one run to another a value becomes more than usual if it is more than usual or more than
 * any by this rule, and at most 5 % of all pairs of runs, in either order and these two counted,
 * increase by as much. This takes 3 others. Less than usual is the same in the other direction.
 */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "learn/feature.h"
#include "model/run_record.h"

enum diff_judgement { DIFF_UNKNOWN, DIFF_USUAL, DIFF_MORE, DIFF_LESS };

struct diff_row {
	const char *key, *name; /* "peak_rss_mb", "peak memory" */
	enum feature_unit unit;
	double before, after; /* NaN: unknown */
	double usual;	      /* 95 % of the pairs increase by no more; NaN: too few */
	double p;	      /* share of the pairs that increase, or decrease, by as much */
	enum diff_judgement judgement;
};

struct diff {
	struct diff_row *rows;
	size_t n;
	size_t n_others; /* runs that the usual is known from, without these two */
	struct arena arena;
};

/* similar: runs of the class before the second one; the first may be among them. -ENOMEM. */
int diff_runs(const struct run_record *before, const struct run_record *after,
	      const struct run_record *similar, size_t n_similar, struct diff *ret);
void diff_release(struct diff *d);

/*
 * How many rows at most would be more than usual, on average, if these two runs were like the
 * others. It counts one side, and as many would be less: each row is judged by itself.
 */
double diff_expected_by_chance(const struct diff *d);

/* An array of objects. */
void diff_write_rows(struct json *j, const struct diff *d);

/*
 * Where a run stands among similar ones (model/run_record.h): those with an outcome that had ended
 * when it began. Fills all but what was expected, and the basis. -ENOMEM.
 */
int standing_judge(const struct run_record *run, const struct run_record *similar, size_t n,
		   struct standing *ret);

#define STANDING_MAX_REASONS 20

struct standing_reason {
	const char *name; /* as in a row of the diff */
	enum feature_unit unit;
	struct standing_value value;
};

/*
 * Of what can make a run slower or larger (waits, stalls, major faults, I/O, CPU share): that of
 * which it had more than usual, by the judgement of standing_judge(). Returns how many; -ENOMEM.
 */
int standing_list_reasons(const struct run_record *run, const struct run_record *similar, size_t n,
			  struct standing_reason ret[STANDING_MAX_REASONS]);
