/*
 * maxt_internal - what the two halves of maxt share: maxt_fill.c sets out the columns,
 * maxt.c deals.
 */
#ifndef PROCTOR_STATS_MAXT_INTERNAL_H
#define PROCTOR_STATS_MAXT_INTERNAL_H

#include "stats/maxt.h"
#include "stats/rank.h"

#define DISTANCE_UNIT 100000.0 /* of a standard deviation, as a whole number */

/* So many columns are added up at a time. */
typedef int32_t lanes __attribute__((vector_size(32)));
#define N_LANES (sizeof(lanes) / sizeof(int32_t))

/*
 * One feature. column: where its doubled ranks (or 0 and 1) stand in a row of the
 * matrix. known: the column that counts who has a value; -1: everybody. distance:
 * that of the values themselves, standardised; -1: not needed.
 */
struct maxt_column {
	size_t feature;
	int column, known, distance;
	struct rank_sums sums;
	double *binary;		      /* the statistic by how many failed with it; else NULL */
	double *mean, *per_deviation; /* by how many that failed have a value… */
	size_t n_counts;	      /* …of which there is only one if everybody has */
	int64_t total, total_known, total_distance;
	double observed;
	uint64_t hits, hits_alone;
};

struct maxt {
	const struct maxt_input *in;
	size_t n_failed, n_dealt; /* the smaller group is dealt */
	bool deals_passes;
	struct maxt_column *columns; /* by statistic, the least first */
	size_t n_columns;
	lanes *rows; /* of each run */
	size_t row_lanes;
	lanes *sums;
	uint64_t n_deals;
};

/* Counts who failed, and sets out the columns. As maxt_test() fails. */
int maxt_fill(struct maxt *m);
void maxt_release(struct maxt *m);

#endif
