#include "crossrank/method/rank_grid.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/probability.h"
#include "stats/order.h"

/* Seconds by which two copies differ that begin together. More copies show theirs: these count as
 * PRIOR_COPIES of them. */
#define JITTER 0.25
#define PRIOR_COPIES 3.0
#define OF_TWO 1.4	 /* times the error: two ranks show no spread */
#define STARTS_SHARE 0.3 /* of a lead: starts that are closer together do not explain it */
#define SPREAD_Z 1.28	 /* a clock counts if chance makes its spread in 10 % */

#define MIN_SHRUNK 4 /* rises: fewer show no spread of the followers */
#define SHRUNK_SPREADS 1.5
#define LEAST_SHRUNK 0.25
#define STEP_UNSURE 0.6 /* of an interval */
#define REFUTED_SDS 3.0
#define LEAST_RANGE 0.1 /* s: copies of a program that begin together differ by that */
#define MAX_WEIGHED 64	/* rises whose own probabilities are computed, in n squared steps */

/* Nodes and weights of the normal distribution (Gauss-Hermite, 15 points), from the middle out. */
static const double nodes[8][2] = {
	{ 0.000000000000000, 0.318259518259518 }, { 0.799129068324548, 0.232462293609732 },
	{ 1.606710069028730, 0.089417795399844 }, { 2.432436827009758, 0.017365774492138 },
	{ 3.289082424398767, 0.001567357503550 }, { 4.196207711269015, 0.000056421464052 },
	{ 5.190093591304782, 0.000000597541960 }, { 6.363947888829840, 0.000000000858965 },
};

/* P that entry `first` is before all others, over its own error, which all comparisons share. */
static double order_probability(const double *o, const double *sd, size_t n, size_t first)
{
	double sum = 0;

	for (int k = -7; k <= 7; k++) {
		const double *node = nodes[abs(k)];
		double at = o[first] + (k < 0 ? -node[0] : node[0]) * sd[first], product = 1;

		for (size_t i = 0; i < n && product > 1e-12; i++)
			if (i != first)
				product *= 1 - normal_tail((o[i] - at) / sd[i]);
		sum += node[1] * product;
	}
	return sum;
}

/* How far apart the followers of the first are; no less than errors make. */
static double follower_spread(const double *sorted, size_t n, double error)
{
	double mean = 0, square = 0, count = (double)(n - 1);

	if (n < 3)
		return 0;
	for (size_t i = 1; i < n; i++)
		mean += sorted[i] / count;
	for (size_t i = 1; i < n; i++)
		square += (sorted[i] - mean) * (sorted[i] - mean) / count;
	return fmax(sqrt(square), 0.7 * error);
}

/*
 * The probability that exchangeable onsets have such a gap before the second: gap over range is
 * Beta(1, k - 2). The range is without the spread that measuring adds. `unsure` of the gap may be
 * the sampling's: steps of two neighbouring intervals may be a moment apart.
 */
static double gap_probability(const double *sorted, size_t n, double error, double unsure)
{
	double gap = fmax(sorted[1] - sorted[0] - unsure, 0), range = sorted[n - 1] - sorted[1];
	double measured = 1.2 * sqrt(2 * log((double)n)) * error;

	range = sqrt(fmax(range * range - measured * measured, 0.25 * error * error));
	range = fmax(range, LEAST_RANGE);
	return pow(range / (gap + range), (double)(n - 2));
}

/* Rises that have nothing to do with each other: one is always first. */
static double unrelated_probability(double gap, double seconds, bool are_steps, bool are_all)
{
	if (are_steps)
		return are_all && gap < 0.1 * seconds ? 0.03 : 0.25;
	return fmin(0.25, 0.2 * gap / seconds);
}

/*
 * The probability that one of n copies that begin together is so early: by Student's t (Wallace),
 * with the spread of the others and, as if of PRIOR_COPIES more, what copies differ by elsewhere.
 */
static double together_probability(const double *sorted, size_t n, double error)
{
	double freedom = PRIOR_COPIES + (double)n - 2, mean = 0, t;
	double squares = PRIOR_COPIES * (JITTER * JITTER + error * error);

	for (size_t i = 1; i < n; i++)
		mean += sorted[i] / (double)(n - 1);
	for (size_t i = 1; i < n; i++)
		squares += (sorted[i] - mean) * (sorted[i] - mean);
	t = (mean - sorted[0]) / sqrt(squares / freedom * (1 + 1 / (double)(n - 1)));
	t = sqrt(freedom * log(1 + t * t / freedom)) * (8 * freedom + 1) / (8 * freedom + 3);
	return (double)n * normal_tail(t);
}

/*
 * Followers that are closer together than their errors show that these are smaller than they were
 * taken for: all are copies of one program. A first one that lies before them has the stairs that
 * they have, but its own error of the fit.
 */
static void shrink_errors(struct culprit_rise *const *rises, size_t n, const double *sorted,
			  double *sd)
{
	double spread;

	if (n < MIN_SHRUNK)
		return;
	spread = SHRUNK_SPREADS * follower_spread(sorted, n, 0);
	for (size_t i = 0; i < n; i++) {
		double grain = rises[i]->grain, rest = sqrt(fmax(sd[i] * sd[i] - grain * grain, 0));

		if (rises[i]->is_step)
			continue; /* one that lies in the same interval as others may be anywhere in
				     it */
		sd[i] = hypot(rest, fmin(grain, spread));
		if (rises[i]->onset > sorted[0])
			sd[i] = fmin(sd[i],
				     fmax(fmax(spread, LEAST_SHRUNK * grain), LEAST_SHRUNK * rest));
	}
}

enum clock_kind { BY_WALL, SINCE_FIRST_SAMPLE, SINCE_PROGRAM, N_KINDS };

static double start_of(const struct track *track, enum clock_kind kind)
{
	return kind == BY_WALL ? 0 : kind == SINCE_FIRST_SAMPLE ? track->t[0] : track->in->start;
}

/*
 * Whether an earlier rise that all ranks shared was at one moment by the wall, but not as long
 * after their starts: the ranks wait for each other then, and how early one started explains
 * nothing.
 */
static bool is_refuted(const struct grid *g, const struct culprit_rise *rises, size_t n,
		       enum clock_kind kind)
{
	double low[2] = { INFINITY, INFINITY }, high[2] = { -INFINITY, -INFINITY }, error = 0;

	for (size_t i = 0; i < n; i++) {
		double at[2] = { rises[i].onset,
				 rises[i].onset - start_of(&g->tracks[rises[i].record], kind) };

		for (int k = 0; k < 2; k++) {
			low[k] = fmin(low[k], at[k]);
			high[k] = fmax(high[k], at[k]);
		}
		error = fmax(error, rises[i].sd);
	}
	return n > 1 && high[1] - low[1] > 2 * (high[0] - low[0]) + REFUTED_SDS * error;
}

int lead_find(const struct grid *g, struct culprit_rise *const *rises, size_t n, size_t n_members,
	      double seconds, const struct culprit_rise *by_wall, size_t n_by_wall,
	      struct lead *ret)
{
	CLEANUP(free_ptr) double *room = malloc((2 + 2 * N_KINDS) * n * sizeof(*room));
	double *sd, *own, *onsets, *sorted;
	double spreads[N_KINDS], least = INFINITY, most, error;
	bool counts[N_KINDS], are_steps = true, has_clocks = false;
	struct lead lead = { .first = SIZE_MAX };

	if (!room)
		return -ENOMEM;
	sd = room;
	own = room + n;
	onsets = room + 2 * n;
	sorted = room + (2 + N_KINDS) * n;
	for (size_t i = 0; i < n; i++)
		has_clocks |= g->tracks[rises[i]->record].in->clock !=
			      g->tracks[rises[0]->record].in->clock;
	for (size_t i = 0; i < n; i++) {
		are_steps &= rises[i]->is_step;
		sd[i] = rises[i]->sd;
		onsets[i] = sorted[i] = rises[i]->onset;
	}
	order_sort(sorted, n);
	shrink_errors(rises, n, sorted, sd);
	for (size_t i = 0; i < n; i++) {
		sd[i] = hypot(sd[i], has_clocks ? g->tracks[rises[i]->record].in->clock_error : 0);
		lead.error = fmax(lead.error,
				  has_clocks ? g->tracks[rises[i]->record].in->clock_error : 0);
	}
	lead.is_unordered = !isfinite(lead.error);
	if (lead.is_unordered) {
		lead.first = 0;
		*ret = lead;
		return 0;
	}
	memcpy(own, sd, n * sizeof(*own));
	error = track_quantile(own, n, 0.5);
	for (int kind = 0; kind < N_KINDS; kind++) {
		double *o = onsets + (size_t)kind * n, *s = sorted + (size_t)kind * n;
		double low = INFINITY, high = -INFINITY;
		bool is_known = true; /* of each rank */

		for (size_t i = 0; i < n; i++) {
			double start = start_of(&g->tracks[rises[i]->record], kind);

			o[i] = s[i] = rises[i]->onset - start;
			low = fmin(low, start);
			high = fmax(high, start);
			is_known = is_known && !isnan(start);
		}
		/* Starts that are much closer together than the lead do not explain it, nor do
		 * first samples within one interval. */
		counts[kind] = kind == BY_WALL ||
			       (is_known && !(by_wall && is_refuted(g, by_wall, n_by_wall, kind)) &&
				high - low > fmax(STARTS_SHARE * (sorted[1] - sorted[0]),
						  kind == SINCE_FIRST_SAMPLE ? g->cell : 0));
		if (!counts[kind])
			continue;
		order_sort(s, n);
		spreads[kind] = follower_spread(s, n, error);
		least = fmin(least, spreads[kind]);
	}
	for (size_t i = 0; n <= MAX_WEIGHED && i < n; i++)
		rises[i]->probability = order_probability(onsets, sd, n, i);
	/* All clocks that explain the followers about as well as the best one must agree. */
	most = n > 2 ? exp(SPREAD_Z / sqrt(fmax((double)n - 2, 1))) * least + 1e-9 : INFINITY;
	for (int kind = 0; kind < N_KINDS; kind++) {
		double *o = onsets + (size_t)kind * n, *s = sorted + (size_t)kind * n, p, chance;
		size_t first = 0;

		if (!counts[kind] || spreads[kind] > most)
			continue;
		for (size_t i = 0; i < n; i++) {
			own[i] = n > 2 ? sd[i] : hypot(OF_TWO * sd[i], JITTER);
			first = o[i] < o[first] ? i : first;
		}
		p = order_probability(o, own, n, first);
		chance = unrelated_probability(s[1] - s[0], seconds, are_steps, n == n_members);
		/* Steps may be the next blocks of allocators, at any time. */
		if (n > 2 && are_steps)
			chance = gap_probability(s, n, error, STEP_UNSURE * g->cell);
		else if (n > 2)
			chance = fmin(fmax(chance, together_probability(s, n, error)),
				      gap_probability(s, n, error, 0));
		if (lead.first == SIZE_MAX) {
			lead.first = first;
			lead.probability = p * (1 - chance);
			lead.seconds = s[1] - s[0];
			lead.till_most = s[(n + 1) / 2] - s[0];
			for (size_t i = 0; i < n; i++)
				if (i != first && o[i] <= s[1])
					lead.error_of_second = own[i];
			lead.is_since_start = kind != BY_WALL;
			lead.range = s[n - 1] - s[0];
		} else if (lead.first != first) {
			lead.probability = fmin(lead.probability, 0.5);
			lead.is_since_start = true;
			lead.range = fmin(lead.range, s[n - 1] - s[0]);
			break;
		} else {
			lead.probability = fmin(lead.probability, p * (1 - chance));
		}
	}
	*ret = lead;
	return 0;
}

/* ---- control ---- */

int lead_largest_change(struct grid *g, const size_t *members, size_t n, size_t s, size_t to,
			size_t width, double *ret, double *ret_even)
{
	size_t n_cells = to - s;
	CLEANUP(free_ptr) double *away = malloc((n * n_cells + 1) * sizeof(*away));

	if (!away)
		return -ENOMEM;
	*ret = *ret_even = 0;
	for (size_t i = s; i < to; i++) {
		struct middle m = grid_middle(g, members, n, false, s, i);

		for (size_t k = 0; k < n; k++) {
			size_t r = members[k];
			double gain = grid_kept(g, r, i) - grid_kept(g, r, s);

			away[k * n_cells + i - s] =
				i < g->to[r] ? gain - middle_without(&m, gain) : NAN;
		}
	}
	for (size_t k = 0; k < n; k++) {
		const double *v = away + k * n_cells;

		for (size_t i = width; i < n_cells; i++) {
			double late = v[i] - v[i - width / 2];
			double early = v[i - width / 2] - v[i - width];

			if (fabs(early + late) > *ret)
				*ret = fabs(early + late);
			if (early * late > 0)
				*ret_even = fmax(*ret_even, 2 * fmin(fabs(early), fabs(late)));
		}
		for (size_t i = 0; n_cells <= width && i < n_cells; i++)
			if (fabs(v[i] - v[0]) > *ret)
				*ret = fabs(v[i] - v[0]);
	}
	return 0;
}

double lead_beyond(double ratio, double windows, size_t n, double tail)
{
	double p = ratio < 1 ? (double)n / (1 + windows) + 0.5
			     : 1 / ((1 + windows) * ratio * ratio * ratio) + tail / (ratio * ratio);

	return 1 - fmin(1, p);
}

int lead_control(struct grid *g, const size_t *members, size_t n, size_t s,
		 const struct culprit_rise *rise, double seconds, bool is_followed, double *ret)
{
	size_t track = rise->record;
	size_t onset = track_count_to(g->at, g->n_cells, rise->onset - rise->sd);
	size_t width = (size_t)fmax(1, round(seconds / g->cell)), span, end, from, n_before;
	CLEANUP(free_ptr) double *away = NULL;
	double least = LEAST_SCALE * g->tracks[track].scale, longer, ratio;
	double most, most_even, gain = 0, half = 0, level, windows;
	bool is_ramp = is_followed && !rise->is_step;
	int r;

	onset = onset > s + 1 ? onset : s + 1;
	onset = onset < g->n_cells - 1 ? onset : g->n_cells - 1;
	span = (onset - s) / 2;
	span = span < 1 ? 1 : span > width ? width : span;
	r = lead_largest_change(g, members, n, s, onset, span, &most, &most_even);
	away = malloc((onset - s + 1) * sizeof(*away));
	if (r < 0 || !away)
		return -ENOMEM;
	longer = sqrt((double)width / (double)span);
	windows = (double)(n * (onset - s > span ? onset - s - span : onset - s)) / (double)span;

	/* What it gains on its peers in as long. */
	from = onset > s + width ? onset - width : s;
	end = onset + width < g->n_cells - 1 ? onset + width : g->n_cells - 1;
	n_before = onset - from;
	for (size_t i = from; i < onset; i++) {
		struct middle m = grid_middle(g, members, n, true, s, i);
		double x = grid_x(g, track, i) - grid_x(g, track, s);

		away[i - from] = x - middle_without(&m, x);
	}
	level = track_quantile(away, n_before, 0.5);
	for (size_t i = onset; i <= end; i++) {
		struct middle m = grid_middle(g, members, n, true, s, i);
		double x = grid_x(g, track, i) - grid_x(g, track, s);

		gain = fmax(gain, x - middle_without(&m, x) - level);
		if (i == (onset + end) / 2)
			half = x - middle_without(&m, x) - level;
	}
	gain = fmin(gain, rise->gain);
	ratio = gain / fmax(longer * most, least);
	/* Blocks that ranks take at once are no measure of a ramp that the others follow. */
	if (is_ramp && span > 1)
		ratio = fmax(ratio, fmin(gain, 2 * fmin(half, gain - half)) /
					    fmax(longer * most_even, least));
	*ret = lead_beyond(ratio, windows, n, is_ramp ? LEAD_TAIL_RAMP : LEAD_TAIL);
	return 0;
}
