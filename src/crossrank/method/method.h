/*
 * method - which rank's memory began to grow first, or grows alone.
 *
 * Ranks are near copies of one program. Any movement that all ranks make together, in wall time or
 * as long after their own start, is the workload's, whatever its shape. A rank is named when its
 * lasting rise is ahead of its peers by more than measurement error and by more than the spread of
 * the peers explains. docs/ranks-method.md describes the method and its figures.
 *
 * Pure functions from arrays to an answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

#define CULPRIT_NAMED 0.93 /* a rank is named from this P on; `stated` has what is printed */

#define CULPRIT_LEAST 16.0 /* MiB: allocators take blocks of 2 to 20 MiB; less is no rise */

/* One record without a restart of its program. */
struct culprit_rank {
	const double *t;   /* seconds after an origin; strictly ascending */
	const double *mib; /* what was held then */
	size_t n;
	double start;	    /* of the program; NaN: unknown */
	double end;	    /* the rank is known to have ended then; NaN: unknown */
	double unseen_mib;  /* held beyond what the samples show, at some time; 0: nothing */
	double stamp;	    /* timestamps are cut off or rounded to so many seconds; 0: exact */
	size_t rank;	    /* which one; records of one rank after the other are its restarts */
	size_t clock;	    /* ranks with the same number share one */
	double clock_error; /* seconds; INFINITY: this clock follows nothing */
};

enum verdict { VERDICT_NAMED, VERDICT_CANNOT_TELL, VERDICT_NONE };

/* What a rank is named for, or none is; each belongs to one verdict, in their order. */
enum why {
	WHY_FIRST,	 /* named: all rise, it began */
	WHY_ALONE,	 /* named: no other rank rises */
	WHY_TOO_CLOSE,	 /* cannot tell: onsets are too close for their errors */
	WHY_CLOCKS,	 /* cannot tell: a clock that follows nothing */
	WHY_UNSEEN,	 /* cannot tell: a rank has no record of the beginning */
	WHY_LOADED,	 /* cannot tell: other ranks took as much at their start */
	WHY_UNRELATED,	 /* cannot tell: each rank rises at a time of its own */
	WHY_MAY_PASS,	 /* cannot tell: ranks rose like that before, and gave it back */
	WHY_SMALL,	 /* cannot tell: ranks wander from each other by about as much */
	WHY_NEVER_ALIKE, /* cannot tell: the ranks never do the same for long enough */
	WHY_FEW,	 /* cannot tell: too few samples of a rank */
	/* Which finding.c finds before or behind the method. */
	WHY_MISSING,	/* cannot tell: some ranks have no record at all */
	WHY_ONE_RANK,	/* cannot tell: nothing to compare with */
	WHY_MIXED,	/* cannot tell: a rank has records of two processes at once */
	WHY_NO_SAMPLES, /* cannot tell: there are none */
	WHY_NO_RISE,	/* none */
	WHY_SHARED,	/* none: all together */
	WHY_GIVEN_BACK, /* none: one rank rose alone, once, and gave it back */
};

static inline enum verdict verdict_of(enum why why)
{
	return why <= WHY_ALONE	   ? VERDICT_NAMED
	       : why < WHY_NO_RISE ? VERDICT_CANNOT_TELL
				   : VERDICT_NONE;
}

/* A line through all of a rise that goes on to the end at about one pace; sd is NaN for others. */
struct culprit_line {
	double onset, sd;	    /* where it leaves the level before it */
	double slope, slope_square; /* MiB/s, and the variance of its error */
	double product;		    /* covariance of both errors */
	double misfit;		    /* of the samples: a share of the gain */
};

/* The main lasting rise of a rank; times are seconds after the origin. */
struct culprit_rise {
	size_t record;		/* number in the input */
	double onset;		/* of a line, by which ranks are compared */
	double best, low, high; /* when it began: the middle nine tenths of the distribution */
	double sd;		/* of its error */
	double grain;		/* the part of it for stairs too short to be seen */
	double gain, total;	/* MiB: on the way up, and in the end */
	double mean_rate,
		late_rate;  /* MiB/s since the onset, and in the last quarter of that time */
	double till;	    /* the way up ends */
	double rate;	    /* MiB/s */
	double given_back;  /* when; NaN: it stays */
	double probability; /* of being the culprit; NaN: unknown */
	double since;	    /* it was looked for from here on */
	struct culprit_line line;
	bool is_step;	  /* between two samples */
	bool is_censored; /* it rose already when its record began */
};

struct culprit_answer {
	enum why why;
	struct culprit_rise *rises; /* who rose, the likeliest first first; the arena's */
	size_t n_rises;
	double probability;  /* of rises[0] being the culprit; NaN: unknown */
	double lead;	     /* seconds before the next one; NaN: none other rose */
	bool is_since_start; /* the lead is in the time since each rank's start, not by the wall */
	double others_rate;  /* WHY_ALONE: MiB/s that most others gain, too; NaN: flat */
	double lead_below;   /* WHY_SHARED: a lead is smaller than that; else NaN */
	double least_mib;    /* WHY_NO_RISE: a gain beyond this would have been seen; else NaN */
	size_t n_events, n_shared; /* moments at which ranks rose, and those that all share */
	size_t n_left_out;	   /* records with too few samples, which were over by then */
	size_t because;		   /* the record that is the reason, or SIZE_MAX */
	double interval;	   /* the median one, seconds; NaN: unknown */
};

/* What is in ret is the arena's. -ENOMEM. */
int culprit_find(const struct culprit_rank *ranks, size_t n, struct arena *arena,
		 struct culprit_answer *ret);
