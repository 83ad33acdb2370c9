#include "crossrank/series.h"

#include <math.h>

#include "crossrank/blocks.h"
#include "stats/noise.h"

#define STEP_SHARE 0.25 /* going on less steeply than this makes a jump a step */
#define FIT_SLOPE_SHARE 0.3
#define MAX_MISFIT 2.0 /* the scatter around a hinge, in variances of what is expected */
#define MAX_MISFIT_BEHIND 3.0
#define FASTER 1.5
#define MAX_LONGER 4	 /* times as much of what speeds up is fitted, or less */
#define ROUGH_FACTOR 2.0 /* a way up that scatters so much more is fitted by its own scatter */
#define ROUGH_BLOCKS 3.0 /* of that scatter is a block, either way */
#define FEW 3.0		 /* samples show too little scatter by one over so many */
#define MAX_HIDDEN 3.0	 /* intervals that a rise may stay unseen */
#define MAX_POWER 3.0	 /* of the time by which a rise goes: it stays unseen so much longer */
#define MAX_KEPT 0.9	 /* of one sample in the next */
#define SIGMA_PER_MAD 1.4826
#define MIN_FIT 6
#define MIN_BEHIND 3 /* samples: any two are on a line, also if the rise ends between them */
#define MIN_SLOPED 8
#define HOLE_INTERVALS 5.0
#define UNTOLD (1 / 18.0) /* of an interval: so much at each end of it is not in nine tenths */
#define MAX_FIT 128	  /* samples on each side of an onset */

/* What the rise is seen against: the stretch before it, and how that scatters. */
struct ground {
	size_t from, to; /* bins */
	double level, sigma;
	double own_sigma; /* of nothing but this stretch */
	double fit_sigma; /* of as many samples that do not follow each other */
	bool is_sloped;
};

/* Whether a part is about as low as the one right before the rise. */
static bool is_ground(const struct series *s, const struct segment *part, double level)
{
	double far = SERIES_LEVEL_SIGMAS * s->sigma;

	return fabs(part->begin - level) < far && fabs(part->end - level) < far;
}

/*
 * Samples that each are near the one before tell less than as many that are not: by how much
 * the scatter is to be larger for both to be as sure. From how one follows the other, which so few
 * show too small on average.
 */
static double wander_factor(const double *y, size_t n, double level)
{
	double products = 0, squares = 0, kept;

	if (n < MIN_FIT)
		return 1;
	for (size_t i = 1; i < n; i++)
		products += (y[i] - level) * (y[i - 1] - level);
	for (size_t i = 0; i < n; i++)
		squares += (y[i] - level) * (y[i] - level);
	kept = squares > 0 ? products / squares : 0;
	kept = fmin(fmax(kept + (1 + 4 * kept) / (double)n, 0), MAX_KEPT);
	return sqrt((1 + kept) / (1 - kept));
}

/* Part `segment` is the last one before the rise. */
static struct ground find_ground(const struct series *s, size_t segment)
{
	const struct segment *last = &s->segments[segment];
	struct ground g = { last->from, last->to, 0, s->sigma, s->sigma, s->sigma, false };
	double scratch[SERIES_BINS], rise = fabs(last->end - last->begin);
	bool is_steep = rise > SERIES_LEVEL_SIGMAS * s->sigma;
	size_t n;

	g.is_sloped = last->to - last->from >= MIN_SLOPED && is_steep;
	while (!g.is_sloped && segment > 0 && is_ground(s, &s->segments[segment - 1], last->end))
		g.from = s->segments[--segment].from;
	if (g.to - g.from > MAX_FIT)
		g.from = g.to - MAX_FIT;
	n = g.to - g.from;
	for (size_t i = 0; i < n; i++)
		scratch[i] = s->y[g.from + i];
	/* Of a short way down the middle is nothing that the rise began at. */
	g.level = is_steep ? last->end : noise_median(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(s->y[g.from + i] - g.level);
	/* What wanders scatters more than its neighbours differ. */
	if (!is_steep && n >= MIN_FIT) {
		g.own_sigma = SIGMA_PER_MAD * noise_median(scratch, n);
		g.sigma = fmax(g.sigma, g.own_sigma);
	}
	g.fit_sigma = g.sigma * (g.is_sloped ? 1 : wander_factor(s->y + g.from, n, g.level));
	return g;
}

/* The end of what is fitted behind the ground: parts that go on as steeply as the first. */
static size_t fit_to(const struct series *s, size_t segment, const struct run *run)
{
	size_t from = s->segments[segment].from, to = s->segments[segment].to;
	double slope = s->segments[segment].slope;

	while (to - from < MIN_FIT && segment + 1 <= run->last / 2 &&
	       s->segments[segment + 1].slope >= FIT_SLOPE_SHARE * slope) {
		to = s->segments[++segment].to;
		slope = fmax(slope, s->segments[segment].slope);
	}
	return to - from > MAX_FIT ? from + MAX_FIT : to;
}

/*
 * The first bin that is above the ground for good, not before the ground's last part: what wanders
 * was above now and then. The first part may end with a dip to the ground: it is behind that then.
 */
static size_t first_above(const struct series *s, const struct ground *g, size_t segment,
			  const struct run *run)
{
	double limit = g->level + SERIES_LEVEL_SIGMAS * g->sigma;
	size_t least = s->segments[segment - 1].from + 1, i = s->segments[segment].to - 1;
	size_t last = s->segments[(run->last + 1) / 2].to - 1;

	while (i < last && !(s->y[i] > limit))
		i++;
	while (i > least && s->y[i - 1] > limit)
		i--;
	return i;
}

/* The last bin below before any of the rise was above: where it dips that is before the dip. */
static size_t last_below(const struct series *s, const struct ground *g, size_t above)
{
	double limit = g->level + SERIES_LEVEL_SIGMAS * g->sigma;
	size_t i = g->to < above ? g->to : above;

	while (i < above && !(s->y[i] > limit))
		i++;
	return i - 1;
}

/* How long a rise can stay unseen in the scatter before it. */
static double hidden_time(const struct ground *g, double slope, double dt)
{
	return MAX_POWER * fmax(2 * SERIES_LEVEL_SIGMAS * g->sigma / slope, MAX_HIDDEN * dt);
}

/*
 * Whether a part of the run behind its first is much steeper than that one. A first part from the
 * last sample below to the first above is as steep as chance has it: the onset is inside.
 */
static bool speeds_up(const struct series *s, size_t above, size_t segment, const struct run *run)
{
	const struct segment *part = &s->segments[segment];
	bool is_first = part->from + 1 == above && part->to == above + 1;
	size_t first = segment + (is_first && segment < run->last / 2);

	for (size_t i = first + 1; i <= run->last / 2; i++)
		if (s->segments[i].slope > FASTER * s->segments[first].slope)
			return true;
	return false;
}

/*
 * How long before the last sample below it a rise by that power of the time may have begun, if
 * what it did until then is hidden in the scatter; `seconds` make the jump of a line.
 */
static double hidden_before(const struct ground *g, double jump, double seconds, double power)
{
	double hidden = 2 * SERIES_LEVEL_SIGMAS * g->sigma / jump;
	double share = pow(fmin(hidden, 1), 1 / power);

	if (!(jump > 0))
		return INFINITY;
	if (power <= 1)
		return hidden * seconds;
	return seconds * (share < 1 ? fmin(share / (1 - share), power - 1) : power - 1);
}

/*
 * Where nothing but the order of levels is trusted: the onset is before the first sample
 * above, and behind the last one of the ground, but for what can hide: no longer than the ground
 * was seen. It goes by that power of the time.
 */
static void bracket(const struct series *s, const struct ground *g, size_t above, double power,
		    struct rise *ret)
{
	double dt = s->t[above] - s->t[above - 1], jump = s->y[above] - g->level, hidden = 0;
	double below = s->t[last_below(s, g, above)];

	ret->is_step = !(ret->slope * dt >= STEP_SHARE * jump);
	if (ret->is_step)
		ret->slope = NAN;
	else
		hidden = hidden_before(g, jump, jump / fmax(ret->slope, jump / dt), power);
	onset_uniform(fmax(below - hidden, s->t[g->from]), s->t[above], &ret->onset);
}

/* What happened while nothing was recorded is anywhere in there. */
static bool is_hole(const struct series *s, double seconds)
{
	return seconds > HOLE_INTERVALS * (s->t[s->n - 1] - s->t[0]) / (double)(s->n - 1);
}

/* A hinge that ends with bin `to`, if there is a good one. */
static bool fit(const struct series *s, const struct ground *g, size_t above, size_t to,
		bool is_faster, struct rise *ret)
{
	struct hinge_kind kind = { .is_sloped = g->is_sloped, .may_explode = is_faster };
	double dt = s->t[above] - s->t[above - 1];

	return to >= above + MIN_BEHIND &&
	       onset_hinge(s->t + g->from, s->y + g->from, to - g->from, g->fit_sigma, kind,
			   &ret->onset) &&
	       ret->onset.misfit <= MAX_MISFIT && ret->onset.misfit_behind <= MAX_MISFIT_BEHIND &&
	       ret->onset.median <= s->t[above] + dt / 2 &&
	       ret->onset.median >= s->t[above - 1] - hidden_time(g, ret->slope, dt);
}

/* The more of what speeds up is fitted, the better its course is known, if it still fits. */
static bool fit_longest(const struct series *s, const struct ground *g, size_t above,
			size_t segment, const struct run *run, struct rise *ret)
{
	size_t from = s->segments[segment].from, to = fit_to(s, segment, run);
	size_t end = s->segments[(run->last + 1) / 2].to;
	bool is_faster = speeds_up(s, above, segment, run);

	for (size_t times = is_faster ? MAX_LONGER : 1; times > 1; times /= 2) {
		size_t farther = from + times * (to - from);

		farther = farther < end ? farther : end;
		farther = farther < from + MAX_FIT ? farther : from + MAX_FIT;
		if (farther > to && fit(s, g, above, farther, is_faster, ret))
			return true;
	}
	return fit(s, g, above, to, is_faster, ret);
}

/*
 * The way up may scatter more than what was before it, as with blocks that are small beside the
 * rise, and not be worse known than by that; a few samples may show less of it than there is.
 */
static double scatter_behind(const struct series *s, size_t above, size_t to)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = above + 1; i + 1 < to; i++, n++) {
		double span = s->t[i + 1] - s->t[i - 1];
		double share = span > 0 ? (s->t[i] - s->t[i - 1]) / span : 0.5;
		double off = s->y[i] - (s->y[i - 1] * (1 - share) + s->y[i + 1] * share);

		sum += off * off / (1 + share * share + (1 - share) * (1 - share));
	}
	return n > 0 ? sqrt(sum / (double)n) * (1 + FEW / (double)n) : 0;
}

/*
 * Where the way up scatters much more than what was before, that is no noise but blocks, the
 * first of which may be there at once or late: the onset is moved by as much, either way.
 */
static void blur_by(const struct ground *g, double scatter, double slope, struct onset *ret)
{
	double moved = ROUGH_BLOCKS * scatter / slope;

	if (scatter > ROUGH_FACTOR * g->own_sigma && slope > 0)
		onset_blur(ret, moved, moved, 1);
}

/* A hinge by the scatter of the way up, if that is much more and the hinge is worth it. */
static void fit_rough(const struct series *s, const struct ground *g, size_t above, size_t segment,
		      const struct run *run, double scatter, struct rise *ret)
{
	struct ground rough = *g;
	struct rise fitted = *ret;

	rough.fit_sigma = scatter;
	if (!(scatter > ROUGH_FACTOR * g->fit_sigma) || ret->dwell > 0 || !(ret->slope > 0) ||
	    !fit_longest(s, &rough, above, segment, run, &fitted))
		return;
	fitted.is_fitted = true;
	blur_by(g, scatter, ret->slope, &fitted.onset);
	if (fitted.onset.high - fitted.onset.low < ret->onset.high - ret->onset.low)
		*ret = fitted;
}

/* Part `segment` is the first that is above; the one before it is the ground. */
static void place_between(const struct series *s, size_t segment, const struct run *run,
			  struct rise *ret)
{
	const struct segment *after = &s->segments[segment];
	struct ground g = find_ground(s, segment - 1);
	size_t above = first_above(s, &g, segment, run);
	double scatter = scatter_behind(s, above, fit_to(s, segment, run));
	bool may_fit = !is_hole(s, s->t[above] - s->t[above - 1]);

	ret->ground_mib = g.sigma;
	ret->seen = s->t[above];
	ret->unseen = s->t[above] - s->t[above - 1];
	ret->slope = after->slope;
	blocks_find(s, above, run, ret);
	ret->is_fitted = after->to - after->from >= 2 && after->slope > 0 && may_fit &&
			 fit_longest(s, &g, above, segment, run, ret);
	if (ret->is_fitted) {
		blur_by(&g, scatter, ret->slope, &ret->onset);
		return;
	}
	bracket(s, &g, above, speeds_up(s, above, segment, run) ? MAX_POWER : 1, ret);
	if (may_fit)
		fit_rough(s, &g, above, segment, run, scatter, ret);
}

/*
 * Whether memory falls to the beginning of that part, from which the run goes up: what was before
 * the fall is no ground of it then, and its own lowest point is all that is known of one.
 */
static bool is_behind_fall(const struct series *s, size_t segment, const struct run *run)
{
	double fall = s->segments[segment - 1].end - s->segments[segment].begin;

	return run->first % 2 == 0 && fall > SERIES_LEVEL_SIGMAS * s->sigma;
}

/*
 * Behind the last sample before the fall, and before the first that is above the low: at the
 * beginning of that more often than not, so the interval that is told is to reach there.
 */
static void place_at_low(const struct series *s, size_t segment, const struct run *run,
			 struct rise *ret)
{
	const struct segment *part = &s->segments[segment];
	double limit = part->begin + SERIES_LEVEL_SIGMAS * s->sigma;
	double fell = s->t[part->from - 1];
	size_t above = part->from, last = s->segments[(run->last + 1) / 2].to - 1;

	while (above < last && !(s->y[above] > limit))
		above++;
	ret->ground_mib = s->sigma;
	ret->seen = s->t[above];
	ret->slope = part->slope;
	blocks_find(s, above, run, ret);
	onset_uniform(fell - (s->t[above] - fell) * UNTOLD, s->t[above], &ret->onset);
}

/* Nobody saw it begin. */
static void censor(const struct series *s, struct rise *ret)
{
	ret->is_censored = true;
	ret->is_fitted = false;
	onset_uniform(s->t[0] - 1e-9, s->t[0], &ret->onset);
}

void rise_describe(const struct series *s, const struct run *run, struct rise *ret)
{
	size_t segment = (run->first + 1) / 2; /* the first part that is above */

	*ret = (struct rise){ .end = series_move(s, run->last).to, .gain_mib = run->gain };
	ret->seen = ret->end;
	if (segment == 0 && s->n == 2 && s->lo == s->begin) {
		ret->is_step = true;
		ret->slope = NAN;
		onset_uniform(s->t[0], s->t[1], &ret->onset);
		return;
	}
	if (segment == 0) {
		ret->slope = s->segments[0].slope;
		censor(s, ret);
		return;
	}
	if (is_behind_fall(s, segment, run))
		place_at_low(s, segment, run, ret);
	else
		place_between(s, segment, run, ret);
	if (!isfinite(ret->onset.median) || !(ret->onset.low <= ret->onset.high))
		censor(s, ret);
}
