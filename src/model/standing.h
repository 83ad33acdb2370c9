/*
 * standing - how an attempt compares with runs like it, and with what was expected of it.
 */
#ifndef PROCTOR_MODEL_STANDING_H
#define PROCTOR_MODEL_STANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/estimate.h"

enum standing_quantity { STANDING_WALL, STANDING_CPU, STANDING_PEAK, STANDING_COUNT };

/* One quantity: seconds, or MB. */
struct standing_value {
	double value;		  /* of this attempt; NaN: unknown, or it is not over */
	double median, low, high; /* of the others; 19 in 20 lie between, or all of fewer than 39 */
	size_t n;		  /* others that have a value */
	size_t n_below, n_above;  /* of these have less, and more, by 1 % and 50 ms or 1 MB */
	bool is_unusual;	  /* so far out that at most 1 in 20 would be, were it like them */
};

struct standing {
	uint64_t n_others, n_failed; /* of them */
	bool is_by_success;	     /* the values are of those that succeeded; else of all */
	const char *basis;	     /* how alike they are: "exact command" */
	struct standing_value values[STANDING_COUNT];

	struct estimate expected; /* from runs that had ended when it began; n_runs 0: no data */
	const char *expected_basis;
	struct estimate_score score; /* whether it stayed within */
};

#endif
