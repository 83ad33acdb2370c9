#include "crossrank/method/rank_grid.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/order.h"

#define MAX_CELLS 2048
#define MIN_CELLS 256
#define MAX_VALUES 4000000 /* of all ranks: more of them have coarser cells */
#define MOMENT 0.02	   /* of an interval: samples so close are of one moment */
#define LATE_SECONDS                                                                           \
	30.0		/* a rank that starts so much after the others is waited for no longer \
			 */
#define LATE_SHARE 0.25 /* nor one that misses so much of the record */
#define SAME_SCALE 0.3	/* ranks may do the same at a scale of their own, by so much */
#define CALM_CELLS 3
#define REST_CELLS 8.0
#define REST_SECONDS 4.0
#define LARGE_SCALES 3.0
#define CALM_SHARE 0.9
#define LEAST_MEMBERS 0.5 /* of the ranks that have not ended */

DEFINE_SELECT_NTH(select_nth, double)

/* What is up for a while is cut off at `most` above the kept memory. */
static void fill(struct grid *g, size_t r, double most)
{
	const struct track *track = &g->tracks[r];
	size_t sample = 0;

	g->from[r] = SIZE_MAX;
	for (size_t i = 0; i < g->n_cells; i++) {
		double at = g->at[i] + MOMENT * g->cell;

		while (sample + 1 < track->n && track->t[sample + 1] <= at)
			sample++;
		if (g->from[r] == SIZE_MAX && track->t[0] <= at)
			g->from[r] = i;
		if (g->at[i] <= track->t[track->n - 1] + 1.5 * g->cell)
			g->to[r] = i + 1;
		g->kept[r * g->n_cells + i] = track->kept[sample];
		g->x[r * g->n_cells + i] = fmin(track->x[sample], track->kept[sample] + most);
	}
}

int grid_make(struct track *tracks, size_t n, struct arena *arena, struct grid *ret)
{
	struct grid g = { .tracks = tracks, .n = n };
	double last = -INFINITY, base;
	size_t most = MAX_VALUES / n;
	double late;

	g.scratch = arena_alloc(arena, n * sizeof(*g.scratch));
	g.members = arena_alloc(arena, n * sizeof(*g.members));
	g.from = arena_alloc(arena, n * sizeof(*g.from));
	g.to = arena_alloc(arena, n * sizeof(*g.to));
	g.room = arena_alloc(arena, n * sizeof(*g.room));
	if (!g.scratch || !g.members || !g.from || !g.to || !g.room)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		g.scratch[i] = tracks[i].t[0];
		last = fmax(last, tracks[i].t[tracks[i].n - 1]);
	}
	g.born = track_quantile(g.scratch, n, 0.5);
	for (size_t i = 0; i < n; i++)
		g.scratch[i] = tracks[i].interval;
	g.cell = track_quantile(g.scratch, n, 0.5);
	/* The first cell: all ranks have begun, but for those that are late. */
	late = g.born + fmax(LATE_SECONDS, LATE_SHARE * (last - g.born));
	base = -INFINITY;
	for (size_t i = 0; i < g.n; i++)
		if (g.tracks[i].t[0] <= late)
			base = fmax(base, g.tracks[i].t[0]);
	most = most > MAX_CELLS ? MAX_CELLS : most < MIN_CELLS ? MIN_CELLS : most;
	g.cell *= ceil(((last - base) / g.cell + 1) / (double)most);
	g.n_cells = (size_t)((last - base) / g.cell + 1e-9) + 1;
	g.at = arena_alloc(arena, g.n_cells * sizeof(*g.at));
	g.kept = arena_alloc(arena, n * g.n_cells * sizeof(*g.kept));
	g.x = arena_alloc(arena, n * g.n_cells * sizeof(*g.x));
	if (!g.at || !g.kept || !g.x)
		return -ENOMEM;
	for (size_t i = 0; i < g.n_cells; i++)
		g.at[i] = base + (double)i * g.cell;
	for (size_t i = 0; i < n; i++)
		g.scratch[i] = tracks[i].scale;
	g.scale = track_quantile(g.scratch, n, 0.5);
	for (size_t i = 0; i < n; i++) {
		g.room[i] = tracks[i].scale + g.scale;
		g.to[i] = 0;
		fill(&g, i, tracks[i].scale);
	}
	*ret = g;
	return 0;
}

struct middle middle_of(double *v, size_t n)
{
	struct middle m = { .n = n };
	size_t low = n < 2 ? 0 : (n - 2) / 2;
	double next = INFINITY, after = INFINITY;

	if (n < 2)
		return m;
	select_nth(v, n, low);
	m.low = v[low];
	for (size_t i = low + 1; i < n; i++) {
		if (v[i] < next) {
			after = next;
			next = v[i];
		} else if (v[i] < after) {
			after = v[i];
		}
	}
	m.above_low = next;
	m.high = n % 2 ? next : m.low; /* of an even number of others the middle two */
	m.above_high = n % 2 ? after : next;
	return m;
}

struct middle grid_middle(struct grid *g, const size_t *members, size_t n, bool of_x, size_t s,
			  size_t i)
{
	const double *values = of_x ? g->x : g->kept;
	size_t count = 0;

	for (size_t k = 0; k < n; k++) {
		size_t r = members[k];

		if (i < g->to[r])
			g->scratch[count++] =
				values[r * g->n_cells + i] - values[r * g->n_cells + s];
	}
	return middle_of(g->scratch, count);
}

size_t grid_find_members(struct grid *g, size_t at, size_t but)
{
	size_t n = 0;

	for (size_t r = 0; r < g->n; r++)
		if (r != but && g->from[r] <= at && at + 1 < g->to[r])
			g->members[n++] = r;
	return n;
}

/* A load is no measure of what ranks have in common. */
static bool is_calm_at(struct grid *g, size_t n, size_t s)
{
	size_t at = s + CALM_CELLS < g->n_cells ? s + CALM_CELLS : g->n_cells - 1;
	size_t nth = (size_t)ceil(CALM_SHARE * (double)n) - 1;

	for (size_t k = 0; k < n; k++)
		g->scratch[k] = grid_kept(g, g->members[k], at) - grid_kept(g, g->members[k], s);
	select_nth(g->scratch, n, nth);
	return g->scratch[nth] <= g->scale;
}

/* Whether a member leaves the others at cell i: by gain since s, with one cell of time to spare. */
static bool leaves(struct grid *g, size_t n, size_t s, size_t i, const struct middle *here,
		   const struct middle *next)
{
	size_t after = i + 1 < g->n_cells ? i + 1 : i;

	for (size_t k = 0; k < n; k++) {
		size_t r = g->members[k];
		double base = grid_kept(g, r, s), gain = grid_kept(g, r, i) - base, others, room;

		if (i >= g->to[r])
			continue;
		others = middle_without(here, gain);
		room = g->room[r] + SAME_SCALE * fmax(others, 0);
		if (after < g->to[r]) {
			double later = grid_kept(g, r, after) - base;

			if (gain - middle_without(next, later) > room || later - others < -room)
				return true;
		} else if (gain - others > room) {
			return true; /* it ends here: no later cell has its gain */
		}
	}
	return false;
}

/* Whether a record that began behind cell s has come to rest in cell i. */
static bool joins(const struct grid *g, size_t s, size_t i)
{
	for (size_t r = 0; r < g->n; r++)
		if (g->from[r] > s && g->from[r] != SIZE_MAX && g->from[r] + CALM_CELLS <= i &&
		    i + CALM_CELLS < g->to[r] &&
		    grid_kept(g, r, i + CALM_CELLS) - grid_kept(g, r, i) <= g->tracks[r].scale)
			return true;
	return false;
}

/* How many members a span needs that begins in cell s: half of the ranks that have not ended. */
static size_t count_needed(const struct grid *g, size_t s)
{
	size_t n = 0, last = SIZE_MAX;

	for (size_t r = 0; r < g->n; r++)
		if (s + 1 < g->to[r] && g->tracks[r].in->rank != last) {
			last = g->tracks[r].in->rank;
			n++;
		}
	n = (size_t)ceil(LEAST_MEMBERS * (double)n);
	return n > 2 ? n : 2;
}

int grid_find_spans(struct grid *g, bool is_calm, size_t but, struct span_list *ret)
{
	size_t last_from = 0;

	for (size_t r = 0; r < g->n; r++)
		if (g->from[r] != SIZE_MAX && g->from[r] > last_from)
			last_from = g->from[r];
	ret->n = 0;
	for (size_t s = 0, i; s + 1 < g->n_cells; s = i) {
		size_t rest = s; /* the others' gain has hardly grown since this cell */
		double rest_gain = 0;
		size_t n = grid_find_members(g, s, but);
		size_t least = but != GRID_ALL ? 1 : count_needed(g, s);
		struct middle here, next;
		bool is_broken = false, has_rested = false;

		i = s + 1;
		if (n < least || (is_calm && !is_calm_at(g, n, s)))
			continue;
		next = grid_middle(g, g->members, n, false, s, i);
		for (; i < g->n_cells; i++) {
			here = next;
			if (i + 1 < g->n_cells)
				next = grid_middle(g, g->members, n, false, s, i + 1);
			if (2 * here.n < n) /* too few are left to compare with */
				break;
			is_broken = leaves(g, n, s, i, &here, &next);
			if (is_broken || (s < last_from && joins(g, s, i)))
				break;
			if (here.low - rest_gain >
			    fmax(0.25 * (double)(i - rest) * here.low / (double)(i - s),
				 0.25 * g->scale)) {
				rest = i;
				rest_gain = here.low;
			}
			has_rested = but == GRID_ALL && here.low > LARGE_SCALES * g->scale &&
				     (double)(i - rest) >= REST_CELLS &&
				     (double)(i - rest) * g->cell >= REST_SECONDS;
			if (has_rested)
				break;
		}
		if (ARRAY_RESERVE(ret->items, ret->cap, ret->n + 1) < 0)
			return -ENOMEM;
		ret->items[ret->n++] = (struct span){ s, i, is_broken };
		/* Behind a large rise of all, their own scales of it are known: what they do from
		 * its end on is compared without it. */
		i = has_rested ? rest : i;
	}
	return 0;
}
