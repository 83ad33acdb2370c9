/*
 * rank_grid - the records of all ranks on one time axis, and the spans in which the ranks do the
 * same.
 *
 * A cell is the median sampling interval, or more for long records. Each record covers the cells
 * from its first sample to its last one: a rank that starts late, dies or starts again is
 * compared while it is there.
 *
 * Inside of method/.
 */
#pragma once

#include <stdint.h>

#include "crossrank/method/rank_track.h"

struct grid {
	struct track *tracks;
	size_t n;   /* tracks */
	double *at; /* the time of each cell */
	size_t n_cells;
	double cell;	   /* seconds */
	double *kept, *x;  /* MiB by track and cell */
	size_t *from, *to; /* the cells that a track covers: [from, to) */
	double *room;	   /* by track: the distance from its peers that counts as the same */
	double scale;	   /* the median one */
	double born;	   /* the median first sample */
	size_t *members;   /* room for n numbers of tracks */
	double *scratch;   /* room for n values */
};

/* -ENOMEM. n is 2 at least. */
int grid_make(struct track *tracks, size_t n, struct arena *arena, struct grid *ret);

static inline double grid_kept(const struct grid *g, size_t track, size_t cell)
{
	return g->kept[track * g->n_cells + cell];
}

static inline double grid_x(const struct grid *g, size_t track, size_t cell)
{
	return g->x[track * g->n_cells + cell];
}

/* Cells [from, to) in which all members stay together. */
struct span {
	size_t from, to;
	bool is_broken; /* a member leaves the others at cell `to`; else the record or the set ends
			 */
};

struct span_list {
	struct span *items;
	size_t n, cap;
};

#define GRID_ALL SIZE_MAX

/* The tracks that are there in cell `at`, but for one, into g->members. Returns their number. */
size_t grid_find_members(struct grid *g, size_t at, size_t but);

/*
 * Finds all spans of all tracks but one (GRID_ALL: of all), one behind the other; is_calm: they
 * begin where nine tenths of the members rest. The caller frees items. -ENOMEM.
 */
int grid_find_spans(struct grid *g, bool is_calm, size_t but, struct span_list *ret);

/* ---- the median of the others ---- */

/* Order statistics of a column, from which the median without any one of its values follows. */
struct middle {
	double low, above_low, high, above_high;
	size_t n;
};

/* Reorders v. */
struct middle middle_of(double *v, size_t n);

/* The median of the column without one `value` of it; alone: the value itself. */
static inline double middle_without(const struct middle *m, double value)
{
	if (m->n < 2)
		return value;
	return ((value <= m->low ? m->above_low : m->low) +
		(value <= m->high ? m->above_high : m->high)) /
	       2;
}

/* Of the gains of kept memory (or of all, of_x) since cell s of the n members that cover cell i. */
struct middle grid_middle(struct grid *g, const size_t *members, size_t n, bool of_x, size_t s,
			  size_t i);

/* ---- lead: whether one of several rises led the others (lead.c) ---- */

struct lead {
	double error;	    /* the largest of their clocks, in seconds */
	size_t first;	    /* number of the rise */
	double probability; /* that it began first, and that its lead is more than their spread */
	double seconds;	    /* before the next one */
	double till_most;   /* seconds until half of the others rise, too */
	double error_of_second; /* the sd of the next one's onset */
	double range;		/* from the first to the last, by the clock that has them closest */
	bool is_since_start;	/* counted from the start of each rank, the others are closest */
	bool is_unordered;	/* a clock follows nothing: the rest says nothing */
};

/*
 * Of n rises (2 at least) of the tracks of g; n_members ranks were there then and were
 * compared for `seconds`. Fills the probability of each rise of being the
 * first by the wall clock, unless they are very many. -ENOMEM.
 */
int lead_find(const struct grid *g, struct culprit_rise *const *rises, size_t n, size_t n_members,
	      double seconds, const struct culprit_rise *by_wall, size_t n_by_wall,
	      struct lead *ret);

/*
 * The probability that a rise is more than ranks wander from their peers, by the windows of span
 * [s, ..) before its onset that are as long as `seconds`. is_followed: others rise after it.
 * -ENOMEM.
 */
int lead_control(struct grid *g, const size_t *members, size_t n, size_t s,
		 const struct culprit_rise *rise, double seconds, bool is_followed, double *ret);

/*
 * The largest change of a member against the others within `width` cells of [s, to); ret_even:
 * twice the smaller half of one, at most. -ENOMEM.
 */
int lead_largest_change(struct grid *g, const size_t *members, size_t n, size_t s, size_t to,
			size_t width, double *ret, double *ret_even);

/*
 * The probability that a gain is no wandering: it is `ratio` times the largest change in the
 * windows. Changes are taken to have a tail of 1 / x^3, and beside the windows there is a chance of
 * tail / x^2 for what they do not show.
 */
#define LEAST_SCALE 0.25 /* of a rank's scale: ranks wander by so much at least */
#define LEAD_TAIL 0.2
#define LEAD_TAIL_RAMP 0.1 /* of a ramp that the others follow: a lone block is none */
double lead_beyond(double ratio, double windows, size_t n, double tail);
