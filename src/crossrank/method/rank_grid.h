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
#ifndef PROCTOR_CROSSRANK_METHOD_RANK_GRID_H
#define PROCTOR_CROSSRANK_METHOD_RANK_GRID_H

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

#endif
