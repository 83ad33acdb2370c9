/*
 * clocks - which ranks share a clock, and how far the others may be off.
 *
 * Ranks of one boot share one, and of one host where no boot is named. A host without a name
 * ("unknown", "localhost") may be any: its ranks share nothing. What a host says about its clock
 * stands in the metadata of its records, and counts as the worst that it says.
 */
#ifndef PROCTOR_CROSSRANK_CLOCKS_H
#define PROCTOR_CROSSRANK_CLOCKS_H

#include "crossrank/analysis.h"

/* For hosts that say nothing: what NTP holds on a local network. */
#define CLOCKS_ASSUMED_NS 10000000

struct rank_clock {
	size_t number;	 /* ranks with the same number share it */
	double error;	 /* seconds */
	bool is_free;	 /* synchronised with nothing */
	bool is_assumed; /* nothing was said */
	bool is_unnamed; /* not even whose it is: free, too */
};

/* One for each of a->ranks, freed by the caller. -ENOMEM. */
int clocks_find(const struct rank_analysis *a, int64_t assumed_ns, struct rank_clock **ret,
		size_t *ret_n_clocks);

/* How far the clocks of two records may be apart, in seconds; INFINITY: they have no order. */
double clocks_between(const struct identity *a, const struct identity *b, int64_t assumed_ns);

#endif
