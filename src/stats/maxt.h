/*
 * maxt - which of many features differ between those that failed and those that
 * did not, with the error of the whole family bounded (Westfall and Young, maxT,
 * step-down).
 *
 * A feature's statistic is how many standard deviations its rank sum (Mann-Whitney)
 * is off; for a yes-or-no feature what Fisher's exact test says, on the same scale.
 * A small sample has few different rank sums: there, of two deals with the same,
 * the one whose means are farther apart counts as farther out.
 * The outcomes are dealt out anew again and again, to all features the same, and
 * each feature's p is the share of deals whose largest statistic reaches its own:
 * features that go together pay once. Where all deals can be gone through they
 * are, and p is exact; else p = (1 + hits) / (1 + deals).
 *
 * Nothing is assumed of the values but that under no connection each deal is as
 * likely as the others. NaN is a value that nobody knows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAXT_DEALS 9999	       /* drawn where not all are gone through */
#define MAXT_EXACT_DEALS 50000 /* up to so many are all gone through */
#define MAXT_MAX_FEATURES 512

struct maxt_input {
	const double *const *columns; /* a feature each, a value for each run in it */
	const bool *is_binary;	      /* of each feature: its values are 0 and 1 */
	size_t n_features;
	const bool *has_failed; /* of each run */
	size_t n_runs;		/* at most RANK_MAX_VALUES */
	uint64_t seed;
	uint64_t n_deals; /* 0: MAXT_DEALS */
};

struct maxt_feature {
	double auc;	  /* 1: all that failed have larger values; NaN: nothing to compare */
	double statistic; /* 0: no difference, or nothing to compare */
	double p_alone;	  /* as if it were the only feature */
	double p;	  /* adjusted for all of them */
	size_t n_known, n_known_failed;
};

struct maxt_summary {
	uint64_t n_deals;
	bool is_exact;	/* all there are */
	double p_floor; /* no sample of so many failures and passes can give less */
};

/*
 * ret has room for n_features. -ENOMEM; -E2BIG: too many runs or features; -EDOM:
 * nobody failed, or everybody.
 */
int maxt_test(const struct maxt_input *in, struct maxt_feature *ret,
	      struct maxt_summary *ret_summary);

/*
 * 1 over the number of ways to choose who failed; twice that where as many passed: then the
 * mirror image is as far out.
 */
double maxt_floor(size_t n_failed, size_t n_passed);
