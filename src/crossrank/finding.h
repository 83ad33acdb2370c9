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

/* A rank that rose. */
struct candidate {
	struct culprit_rise rise; /* times are seconds after the origin */
	const struct rank *rank;
	const struct identity *process; /* of the rank when it rose */
	size_t clock;
};

struct first_cause {
	enum why why;
	/* Of the ranks that have records: WHY_MISSING where another may have risen before. */
	struct culprit_answer answer;
	int64_t origin_ns;
	struct candidate *candidates; /* the ranks that rose, the likeliest culprit first */
	size_t n_candidates;
	struct phase_place phase;  /* of the first candidate's onset */
	const struct rank *unseen; /* the rank that is the reason; NULL: none is */
	bool is_unnamed_host;	   /* WHY_CLOCKS: its records name no host */
	/* Without ranks that are stray, or have too few samples to be compared. */
	size_t n_ranks;
	uint64_t n_missing;
	/* Clocks. */
	size_t n_clocks;
	double clock_error;  /* the largest, in seconds */
	bool has_free_clock; /* one follows nothing, or its host is unknown: no error bounds it */
	bool is_assumed;     /* a host states no error */
};

/*
 * Everything: the summary of the reference, finding and facts. clock_error_ns is of hosts that do
 * not state theirs; EVENT_UNKNOWN: as if they were synchronised by NTP. -ENOMEM.
 */
int rank_analysis_run(struct rank_analysis *a, int64_t clock_error_ns);

/* The culprit; NULL: none is named. */
static inline const struct rank *finding_culprit(const struct first_cause *f)
{
	return verdict_of(f->why) == VERDICT_NAMED ? f->candidates[0].rank : NULL;
}

/* A time of a candidate as a timestamp of the records. */
int64_t finding_ns(const struct first_cause *f, double seconds);

/* MiB in bytes, as large as a number can be at most. */
int64_t finding_bytes(double mib);
