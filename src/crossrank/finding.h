/*
 * finding - which rank is the culprit, or why that cannot be decided.
 *
 * Unlike compat it rests on when things happened, not on which rank was sampled first. The method
 * is in method/ (method.h); here its input is cut from the telemetry and its answer gets ranks,
 * clocks, phases and words.
 */
#pragma once

#include "crossrank/merging/merging.h"
#include "crossrank/method/method.h"

/* The main rise of a rank. Times are seconds after the origin. */
struct candidate {
	const struct rank *rank;
	const struct identity *process; /* of the rank when it rose */
	double probability;		/* of being the culprit; NaN: unknown */
	double onset, low, high;	/* the middle nine tenths */
	double sd;
	double gain_mib;
	double mib_per_second; /* NaN: a step */
	double given_back;     /* when most of it was; NaN: never */
	bool is_step;
	bool is_censored; /* it rose already when its record began: low is not known */
	size_t clock;
};

struct first_cause {
	enum verdict verdict;
	enum why why;
	int64_t origin_ns;
	struct candidate *candidates; /* the ranks that rose, the likeliest culprit first */
	size_t n_candidates;
	const struct rank *rank; /* the culprit; NULL: none is named */
	double lead;		 /* seconds before the next; NaN: no other rose */
	bool is_since_start;	 /* the lead is in the time since each rank's start */
	double others_rate;	 /* WHY_ALONE: MiB/s that most others gain, too; NaN: flat */
	double lead_below;	 /* WHY_SHARED: a lead is smaller than that, in seconds; else NaN */
	double least_mib;	 /* WHY_NO_RISE: a larger gain would have been seen; else NaN */
	double interval;	 /* the median one, in seconds; NaN: unknown */
	struct phase_place phase;
	const struct rank *unseen; /* the rank that is the reason; NULL: none is */
	bool is_unnamed_host;	   /* WHY_CLOCKS: its records name no host */
	enum why of_recorded;	   /* WHY_MISSING: the answer of the ranks that have records */
	/* Without ranks that are stray (select.h), or have too few samples to be compared. */
	size_t n_ranks;
	uint64_t n_missing;
	size_t n_episodes, n_shared; /* moments at which ranks rose, and those that all share */
	bool has_passed;	     /* WHY_GIVEN_BACK: candidates[0] gave it back and went on */
	/* Clocks. */
	size_t n_clocks;
	double clock_error;  /* the largest, in seconds */
	bool has_free_clock; /* one follows nothing, or its host is unknown: no error bounds it */
	bool is_assumed;     /* a host states no error */
};

/* Everything: the summary of the reference, finding and facts. -ENOMEM. */
int rank_analysis_run(struct rank_analysis *a, const struct rank_analysis_options *options);

/* A time of a candidate as a timestamp of the records. */
int64_t finding_ns(const struct first_cause *f, double seconds);

/* The gain in bytes, as large as a number can be at most. */
int64_t finding_gain_bytes(const struct candidate *c);
