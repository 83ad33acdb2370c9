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
#ifndef PROCTOR_CROSSRANK_METHOD_METHOD_H
#define PROCTOR_CROSSRANK_METHOD_METHOD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

#define CULPRIT_NAMED 0.95 /* a rank is named from this P on; `stated` has what is printed */

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

enum culprit_verdict { CULPRIT_FOUND, CULPRIT_UNCLEAR, CULPRIT_NONE };

enum culprit_why {
	CULPRIT_FIRST,	      /* found: all rise, it began */
	CULPRIT_ALONE,	      /* found: no other rank rises */
	CULPRIT_FEW_SAMPLES,  /* unclear, as all up to no_rise */
	CULPRIT_NEVER_ALIKE,  /* the ranks never did the same for long enough */
	CULPRIT_OVERLAP,      /* onsets are too close for their errors */
	CULPRIT_UNRELATED,    /* each rank rises at a time of its own */
	CULPRIT_MAY_PASS,     /* spikes as large and as long were given back before */
	CULPRIT_LOAD,	      /* most ranks took as much at their start */
	CULPRIT_SMALL,	      /* ranks wander from each other by as much */
	CULPRIT_NOT_RECORDED, /* a peer has no record of that moment */
	CULPRIT_CLOCKS,	      /* a clock follows nothing */
	CULPRIT_NO_RISE,      /* none, as all from here on */
	CULPRIT_SHARED,	      /* all rise together */
	CULPRIT_GIVEN_BACK,   /* one rank rose alone, once, and gave it back */
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
	bool is_step;	    /* between two samples */
	bool is_censored;   /* it rose already when its record began */
};

struct culprit_answer {
	enum culprit_verdict verdict;
	enum culprit_why why;
	struct culprit_rise *rises; /* who rose, the likeliest first first; the arena's */
	size_t n_rises;
	double probability;  /* of rises[0] being the culprit; NaN: unknown */
	double lead;	     /* seconds before the next one; NaN: none other rose */
	bool is_since_start; /* the lead is in the time since each rank's start, not by the wall */
	double others_rate;  /* CULPRIT_ALONE: MiB/s that most others gain, too; NaN: flat */
	double lead_below;   /* CULPRIT_SHARED: a lead is smaller than that; else NaN */
	double least_mib; /* CULPRIT_NO_RISE: a gain beyond this would have been seen; else NaN */
	size_t n_events, n_shared; /* moments at which ranks rose, and those that all share */
	size_t n_left_out;	   /* records with too few samples, which were over by then */
	size_t because;		   /* the record that is the reason, or SIZE_MAX */
	double interval;	   /* the median one, seconds; NaN: unknown */
};

/* What is in ret is the arena's. -ENOMEM. */
int culprit_find(const struct culprit_rank *ranks, size_t n, struct arena *arena,
		 struct culprit_answer *ret);

#endif
