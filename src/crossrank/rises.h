/*
 * rises - where the memory of one rank rises for good, and when each rise began.
 *
 * The series is cut into straight parts first (stats/segments.h), which tells steps,
 * ramps and noise apart. What rises without coming down again by much is one rise. Its
 * onset is not the sample that passed some threshold but the moment where the rise
 * leaves what was before, and is a distribution (stats/onset.h).
 */
#ifndef PROCTOR_CROSSRANK_RISES_H
#define PROCTOR_CROSSRANK_RISES_H

#include "base/arena.h"
#include "crossrank/sections.h"
#include "stats/onset.h"

#define RISES_MAX 8	    /* of one rank; the largest */
#define RISES_MIN_SAMPLES 7 /* fewer do not tell a rise from scatter */

struct rise {
	struct onset onset; /* in seconds after the origin */
	double start;	    /* the first sample of its section */
	double born;	    /* the start of its program, which may be before that */
	double seen;	    /* when it was above what was before, for good */
	double unseen;	    /* seconds since the sample before that */
	double end;	    /* when it stopped rising */
	double gain_mib;
	double ground_mib;	/* how much scatters what was before it; 0: nothing was */
	double slope;		/* MiB per second at its beginning; NaN for a step */
	bool is_step;		/* between two samples */
	bool is_fitted;		/* the onset is that of a hinge */
	double grain, grain_sd; /* what steps too short to be seen added to its median and sd */
	double dwell;	  /* seconds from one block to the next where it goes up in such; 0: none */
	double block_mib; /* the first of them */
	bool is_irregular; /* they come as chance has it */
	bool is_censored;  /* it rose already at the first sample: nobody saw it begin */
	double lost_mib;   /* on a way down from which it turned, as a wave does; 0: it did not */
	bool may_load;	   /* censored, too: it looks like a start-up, and no other rank's does */
	double gone;	   /* when most of it was given back; INFINITY: it never was */
	bool is_ended;	   /* that was the end of its process, and another one went on */
};

struct rise_list {
	struct rise *items; /* by time */
	size_t n;
	double sigma_mib; /* the scatter of the series */
	double climb_mib; /* the most its parts go up by, in all, be it a rise or too little for one
			   */
	/* How much it may have gained for good that is no rise here, and how much it surely has. */
	double hidden_mib, sure_mib;
	double clear_mib;  /* what it surely gained is a rise from here on */
	double high_mib;   /* the most it held */
	size_t n_together; /* samples of one process, at most */
	/* What it rose by at its start, before it rested, and when that was over; 0: by nothing. */
	double loaded_mib, loaded_until;
	double rested_mib; /* what it held then; 0: nothing, or nobody knows */
	bool is_sawtooth;  /* it goes up and down by about as much again and again */
};

/* The gain in bytes, as large as a number can be at most. */
int64_t rise_gain_bytes(const struct rise *rise);

/*
 * Of the n sections of a rank, in the order of time; times are in seconds after origin_ns. The
 * items are the arena's. -ENOMEM.
 */
int rises_find(const struct section *sections, size_t n, int64_t origin_ns, struct arena *arena,
	       struct rise_list *ret);

#endif
