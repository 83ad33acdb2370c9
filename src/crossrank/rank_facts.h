/*
 * rank_facts - what each rank used, beside the question of who was first.
 *
 * The hidden gap is memory of the device that the allocator does not know of: used less
 * reserved. Steps are phases called step, iteration or batch.
 */
#pragma once

#include "base/json.h"
#include "crossrank/merging/merging.h"
#include "crossrank/method/method.h"

enum gap_kind {
	GAP_TRANSIENT_SPIKE = 1,    /* it rose far out of its scatter, and went */
	GAP_PERSISTENT_DRIFT = 2,   /* it grows along a line */
	GAP_FRAGMENTATION_LIKE = 4, /* much of what is reserved is not allocated */
};

struct rank_facts {
	int64_t first_ns, last_ns;
	int64_t first_bytes, last_bytes, peak_bytes, peak_ns;
	int64_t gap_max_bytes, gap_max_ns, gap_last_bytes;
	double gap_mean_bytes;
	double unallocated_share; /* of what is reserved, on average; NaN: nothing is */
	double drift_bytes_per_second, drift_r_squared;
	double spike_sigmas;	  /* the largest gap above the median one; NaN: not large, or no
				     scatter */
	unsigned gap_kinds;	  /* of enum gap_kind: what it looks like, and no test */
	bool is_spike_collective; /* the spike is beside a collective operation */
	uint64_t n_missed;	  /* places where samples are missing */
	uint64_t n_steps;
	double step_seconds; /* the median; NaN: none */
	/*
	 * How often its step was the longest of those of the same number, of how many. Among ranks
	 * that differ by chance alone each is that as often as the others: straggler_p is the
	 * probability that any of them is as often or oftener; NaN unless may_straggle.
	 */
	uint64_t n_compared, n_longest;
	double straggler_p;
	bool may_straggle; /* its steps take clearly longer than those of the others */
	bool is_straggler; /* and that is no chance: straggler_p is 0.05 or less */
};

/* The one rank that departs from its peers, by the method that finds who leaks. */
struct departure {
	enum why why;
	const struct rank *rank; /* NULL: none does, and the rest is not valid */
	struct culprit_rise rise;
	int64_t since_ns, low_ns, high_ns; /* with the middle nine tenths */
	double seconds;			   /* that it is apart in all since then */
};

/* The time of CPUs or GPUs that a rank uses departs from that of its peers. */
struct use {
	struct departure departure;
	double rate, peers_rate; /* seconds per second since then, and the others' median */
};

struct facts {
	struct rank_facts *ranks;  /* one for each of a->ranks */
	int64_t first_ns, last_ns; /* of all samples */
	int64_t sum_of_peaks_bytes;
	int64_t peak_bytes, peak_ns; /* the largest sum over ranks at one moment */
	double step_seconds;	     /* the median over ranks; NaN: none */
	struct departure slow;	     /* its steps take longer than the median ones */
	struct use uses[N_USES];
};

/* Fills a->facts. -ENOMEM. */
int facts_make(struct rank_analysis *a);

/* What a gap looks like, each with its number, with ", " between them; "" for none. */
void facts_add_gap_kinds(struct buf *out, const struct rank_facts *f);

/* Whose CPU or GPU rate departs, in two sentences; nothing where none does. */
void facts_add_use(struct buf *out, const struct facts *f, enum use_kind kind);

/* The members "ranks", "memory", "steps", "cpu" and "gpu" of an object. */
void facts_write_json(struct json *j, const struct rank_analysis *a, const struct facts *f);
