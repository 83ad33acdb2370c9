#include "crossrank/rises.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/noise.h"
#include "stats/segments.h"

#define MAX_BINS 512
#define NEAR_BINS 24 /* around an onset, when it is looked at more closely */
#define BYTES_PER_MIB (1024.0 * 1024.0)

/* A rise counts from here on: so many MiB, such a share of the peak, so much above the noise. */
#define MIN_RISE_MIB 16.0
#define MIN_RISE_SHARE 0.01
#define MIN_RISE_SIGMAS 8.0

#define MIN_SIGMA_MIB 0.05
#define WANDER_LAG 4 /* samples over which slow noise shows */
#define MIN_WANDER 24
#define MIN_SIGMA_SHARE 0.0005 /* of the range */
#define MOVE_SIGMAS 4.0	       /* less than so much up or down is level */
#define DROP_SHARE 0.2	       /* losing so much of its gain ends a rise */
#define DOWN_SHARE 0.6	       /* losing so much: it has come down */
#define REST_FACTOR 3.0	       /* level for so many times as long as it rose ends a rise */
#define SLOW_SHARE 0.2	       /* a beginning slower than so much of the largest move is none */
#define LARGE_SHARE 0.25       /* unless it is so large */
#define STEP_SHARE 0.25	       /* going on less steeply than this makes a jump a step */
#define GROUND_SHARE 0.1       /* of the rise: so even is what was before it */
#define FIT_SLOPE_SHARE 0.3
#define MAX_MISFIT 2.0 /* the scatter around a hinge, in variances of what is expected */
#define MAX_HIDDEN 3.0 /* intervals that a rise may stay unseen */
#define SIGMA_PER_MAD 1.4826
#define MIN_FIT 6
#define MIN_SLOPED 8
#define MAX_FIT 128 /* samples on each side of an onset */
#define TEETH 3	    /* so many similar ones are a saw */
#define TOOTH_SHARE 0.5

/* Samples [lo, hi) of a stream, thinned out to at most MAX_BINS points. */
struct series {
	const struct stream *stream;
	int64_t origin_ns;
	size_t lo, hi, per_bin, n;
	double t[MAX_BINS], y[MAX_BINS];
	double sigma, min_rise;
	struct segment segments[MAX_BINS];
	size_t n_segments;
};

int64_t rise_gain_bytes(const struct rise *rise)
{
	double bytes = rise->gain_mib * BYTES_PER_MIB;

	return bytes < 0x1p63 ? (int64_t)bytes : INT64_MAX;
}

static double time_of(const struct series *s, size_t sample)
{
	return (double)(s->stream->samples[sample].timestamp_ns - s->origin_ns) / 1e9;
}

static double mib_of(const struct series *s, size_t sample)
{
	return (double)s->stream->samples[sample].used_bytes / BYTES_PER_MIB;
}

static void make_bins(struct series *s)
{
	size_t n = s->hi - s->lo;

	s->per_bin = (n + MAX_BINS - 1) / MAX_BINS;
	s->per_bin = s->per_bin ? s->per_bin : 1;
	s->n = 0;
	for (size_t from = s->lo; from < s->hi; from += s->per_bin) {
		size_t to = from + s->per_bin < s->hi ? from + s->per_bin : s->hi;
		double t = 0, y = 0;

		for (size_t i = from; i < to; i++) {
			t += time_of(s, i);
			y += mib_of(s, i);
		}
		s->t[s->n] = t / (double)(to - from);
		s->y[s->n++] = y / (double)(to - from);
	}
}

static void set_scales(struct series *s)
{
	double scratch[MAX_BINS], low = INFINITY, high = -INFINITY;

	for (size_t i = 0; i < s->n; i++) {
		low = fmin(low, s->y[i]);
		high = fmax(high, s->y[i]);
	}
	s->sigma = noise_sigma(s->t, s->y, s->n, 1, scratch);
	if (s->n >= MIN_WANDER)
		s->sigma = fmax(s->sigma, noise_sigma(s->t, s->y, s->n, WANDER_LAG, scratch));
	s->sigma = fmax(s->sigma, fmax(MIN_SIGMA_MIB, MIN_SIGMA_SHARE * (high - low)));
	s->min_rise = fmax(fmax(MIN_RISE_MIB, MIN_RISE_SHARE * high), MIN_RISE_SIGMAS * s->sigma);
}

/* ---- moves: along a part, and from one part to the next ---- */

/* Move 2i is along part i, move 2i + 1 the jump behind it. */
struct move {
	double from, to; /* times */
	double gain;
};

static size_t count_moves(const struct series *s)
{
	return s->n_segments ? 2 * s->n_segments - 1 : 0;
}

static struct move move_at(const struct series *s, size_t i)
{
	const struct segment *a = &s->segments[i / 2];

	if (i % 2 == 0)
		return (struct move){ s->t[a->from], s->t[a->to - 1], a->end - a->begin };
	return (struct move){ s->t[a->to - 1], s->t[a[1].from], a[1].begin - a->end };
}

/* Moves [first, last] that go up together. */
struct run {
	size_t first, last;
	double gain;
};

/* How far a rise that begins with move first goes: up, or level for a while. */
static struct run follow(const struct series *s, size_t first)
{
	struct run run = { first, first, move_at(s, first).gain };
	double sum = run.gain, level = MOVE_SIGMAS * s->sigma, began = move_at(s, first).from;

	for (size_t i = first + 1; i < count_moves(s); i++) {
		struct move m = move_at(s, i);
		double rose = move_at(s, run.last).to - began;

		sum += m.gain;
		if (sum < run.gain - fmax(DROP_SHARE * run.gain, level))
			break;
		if (m.to - move_at(s, run.last).to > REST_FACTOR * rose + 3 * s->t[1] - 3 * s->t[0])
			break;
		if (sum > run.gain) {
			run.gain = sum;
			run.last = i;
		}
	}
	return run;
}

static double slope_of(struct move m)
{
	return m.to > m.from ? m.gain / (m.to - m.from) : m.gain > 0 ? INFINITY : 0;
}

static size_t steepest_part(const struct series *s, const struct run *run)
{
	size_t main = run->first;

	for (size_t i = run->first; i <= run->last; i++)
		if (move_at(s, i).gain > move_at(s, main).gain)
			main = i;
	return main;
}

/*
 * Leaves out what only happens to go before it: walks back from the largest move over those
 * that are as steep and touch it, and over others that are large themselves.
 */
static void trim(const struct series *s, struct run *run)
{
	size_t main = steepest_part(s, run), first = main;
	struct move largest = move_at(s, main);
	bool touches = true;

	for (size_t i = main; i-- > run->first;) {
		struct move m = move_at(s, i);
		bool is_steep = m.gain > s->sigma && slope_of(m) >= SLOW_SHARE * slope_of(largest);

		if ((touches && is_steep) || m.gain >= LARGE_SHARE * largest.gain) {
			first = i;
			touches = true;
		} else if (i % 2 == 0 || fabs(m.gain) > MOVE_SIGMAS * s->sigma) {
			touches = false;
		}
	}
	for (size_t i = run->first; i < first; i++)
		run->gain -= move_at(s, i).gain;
	run->first = first;
}

/* ---- the onset ---- */

static size_t sample_of(const struct series *s, size_t bin)
{
	return s->lo + bin * s->per_bin;
}

/* What the rise is seen against: the stretch before it, and how that scatters. */
struct ground {
	size_t from, to; /* bins */
	double level, sigma;
	bool is_sloped;
};

/* Whether a part is about as low as the one right before the rise. */
static bool is_ground(const struct series *s, const struct segment *part, double level, double gain)
{
	double far = fmax(GROUND_SHARE * gain, MOVE_SIGMAS * s->sigma);

	return fabs(part->begin - level) < far && fabs(part->end - level) < far;
}

/* Part `segment` is the last one before the rise. */
static struct ground find_ground(const struct series *s, size_t segment, double gain)
{
	const struct segment *last = &s->segments[segment];
	struct ground g = { last->from, last->to, 0, s->sigma, false };
	double scratch[MAX_BINS], rise = fabs(last->end - last->begin);
	size_t n;

	g.is_sloped = last->to - last->from >= MIN_SLOPED && rise > MOVE_SIGMAS * s->sigma;
	while (!g.is_sloped && segment > 0 &&
	       is_ground(s, &s->segments[segment - 1], last->end, gain))
		g.from = s->segments[--segment].from;
	if (g.to - g.from > MAX_FIT)
		g.from = g.to - MAX_FIT;
	n = g.to - g.from;
	for (size_t i = 0; i < n; i++)
		scratch[i] = s->y[g.from + i];
	g.level = g.is_sloped ? last->end : noise_median(scratch, n);
	for (size_t i = 0; i < n; i++)
		scratch[i] = fabs(s->y[g.from + i] - g.level);
	/* What wanders scatters more than its neighbours differ. */
	if (!g.is_sloped && n >= MIN_FIT)
		g.sigma = fmax(g.sigma, SIGMA_PER_MAD * noise_median(scratch, n));
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

/* The first bin that is above the ground for good, looked for from the ground's last part on. */
static size_t first_above(const struct series *s, const struct ground *g, size_t segment)
{
	double limit = g->level + MOVE_SIGMAS * g->sigma;
	size_t last = s->segments[segment].to - 1, i = s->segments[segment - 1].from + 1;

	while (i < last && !(s->y[i] > limit && s->y[i + 1] > limit))
		i++;
	return i;
}

/* How long a rise can stay unseen in the scatter before it. */
static double hidden_time(const struct ground *g, double slope, double dt)
{
	return fmax(2 * MOVE_SIGMAS * g->sigma / slope, MAX_HIDDEN * dt);
}

/*
 * Where nothing but the order of levels is trusted: the onset is before the first sample
 * above, and behind the last one below, but for what can hide.
 */
static void bracket(const struct series *s, const struct ground *g, size_t above, struct rise *ret)
{
	double dt = s->t[above] - s->t[above - 1], jump = s->y[above] - g->level, hidden = 0;

	ret->is_step = !(ret->slope * dt >= STEP_SHARE * jump);
	if (ret->is_step)
		ret->slope = NAN;
	else
		hidden = 2 * MOVE_SIGMAS * g->sigma / fmax(ret->slope, jump / dt);
	onset_uniform(s->t[above - 1] - hidden, s->t[above], &ret->onset);
}

/* Part `segment` is the first that is above; the one before it is the ground. */
static void place_between(const struct series *s, size_t segment, const struct run *run,
			  struct rise *ret)
{
	const struct segment *after = &s->segments[segment];
	struct ground g = find_ground(s, segment - 1, run->gain);
	size_t above = first_above(s, &g, segment), to = fit_to(s, segment, run);
	double dt = s->t[above] - s->t[above - 1];

	ret->slope = after->slope;
	if (after->to - after->from >= 2 && after->slope > 0 &&
	    onset_hinge(s->t + g.from, s->y + g.from, to - g.from, g.sigma, g.is_sloped,
			&ret->onset) &&
	    ret->onset.misfit <= MAX_MISFIT && ret->onset.median <= s->t[above] + dt / 2 &&
	    ret->onset.median >= s->t[above - 1] - hidden_time(&g, after->slope, dt))
		return;
	bracket(s, &g, above, ret);
}

static void describe_run(const struct series *s, const struct run *run, struct rise *ret)
{
	size_t segment = (run->first + 1) / 2; /* the first part that is above */

	*ret = (struct rise){ .end = move_at(s, run->last).to, .gain_mib = run->gain };
	if (segment == 0 && s->n == 2 && s->lo == 0) {
		ret->is_step = true;
		ret->slope = NAN;
		onset_uniform(s->t[0], s->t[1], &ret->onset);
		return;
	}
	if (segment == 0) {
		ret->is_censored = true;
		ret->slope = s->segments[0].slope;
		onset_uniform(s->t[0] - 1e-9, s->t[0], &ret->onset);
		return;
	}
	place_between(s, segment, run, ret);
}

/* ---- all rises of a series ---- */

struct found {
	struct run runs[MAX_BINS];
	size_t n;
	size_t n_teeth;
};

static int find_segments(struct series *s)
{
	make_bins(s);
	if (s->n < 2) {
		s->n_segments = 0;
		return 0;
	}
	set_scales(s);
	return segments_find(s->t, s->y, s->n, s->sigma, s->segments, &s->n_segments);
}

static void find_runs(const struct series *s, struct found *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < count_moves(s);) {
		struct run run;

		if (move_at(s, i).gain < s->sigma) {
			i++;
			continue;
		}
		run = follow(s, i);
		i = run.last + 1;
		trim(s, &run);
		if (run.gain >= s->min_rise && ret->n < MAX_BINS)
			ret->runs[ret->n++] = run;
	}
}

/* The lowest level behind a rise, as a share of its gain that is gone. */
static bool comes_down(const struct series *s, const struct run *run)
{
	double level = 0;

	for (size_t i = run->last + 1; i < count_moves(s); i++) {
		level += move_at(s, i).gain;
		if (level < -DOWN_SHARE * run->gain)
			return true;
	}
	return false;
}

static bool is_saw(const struct series *s, const struct found *found)
{
	double highest = 0;
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++)
		highest = fmax(highest, found->runs[i].gain);
	for (size_t i = 0; i < found->n; i++)
		n += found->runs[i].gain >= TOOTH_SHARE * highest && comes_down(s, &found->runs[i]);
	return n >= TEETH;
}

/* The same rise, in samples that are not thinned out. */
static int refine(const struct series *coarse, const struct run *run, struct rise *rise)
{
	CLEANUP(free_ptr) struct series *s = calloc(1, sizeof(*s));
	CLEANUP(free_ptr) struct found *found = calloc(1, sizeof(*found));
	size_t bin = coarse->segments[(run->first + 1) / 2].from, best = 0;
	int r;

	if (!s || !found)
		return -ENOMEM;
	s->stream = coarse->stream;
	s->origin_ns = coarse->origin_ns;
	s->lo = sample_of(coarse, bin > NEAR_BINS ? bin - NEAR_BINS : 0);
	s->hi = sample_of(coarse, bin + NEAR_BINS);
	s->hi = s->hi < coarse->hi ? s->hi : coarse->hi;
	r = find_segments(s);
	if (r < 0)
		return r;
	find_runs(s, found);
	for (size_t i = 1; i < found->n; i++)
		if (found->runs[i].gain > found->runs[best].gain)
			best = i;
	/* A rise that begins before what is looked at closely stays as it was seen from afar. */
	if (found->n == 0 || (found->runs[best].first == 0 && s->lo > 0))
		return 0;
	if (s->per_bin > 1)
		return refine(s, &found->runs[best], rise);
	describe_run(s, &found->runs[best], rise);
	return 0;
}

static int compare_gains(const void *l, const void *r)
{
	double a = ((const struct run *)l)->gain, b = ((const struct run *)r)->gain;

	return (a < b) - (a > b);
}

static int compare_times(const void *l, const void *r)
{
	double a = ((const struct rise *)l)->onset.median,
	       b = ((const struct rise *)r)->onset.median;

	return (a > b) - (a < b);
}

static int take_runs(const struct series *s, struct found *found, struct rise_list *ret)
{
	int r = 0;

	qsort(found->runs, found->n, sizeof(found->runs[0]), compare_gains);
	ret->n = found->n < RISES_MAX ? found->n : RISES_MAX;
	for (size_t i = 0; r == 0 && i < ret->n; i++) {
		struct rise *rise = &ret->items[i];

		describe_run(s, &found->runs[i], rise);
		if (s->per_bin > 1 && !rise->is_censored)
			r = refine(s, &found->runs[i], rise);
		rise->end = move_at(s, found->runs[i].last).to;
		rise->gain_mib = found->runs[i].gain;
		rise->comes_down = comes_down(s, &found->runs[i]);
	}
	qsort(ret->items, ret->n, sizeof(ret->items[0]), compare_times);
	return r;
}

int rises_find(const struct stream *stream, int64_t origin_ns, struct rise_list *ret)
{
	CLEANUP(free_ptr) struct series *s = calloc(1, sizeof(*s));
	CLEANUP(free_ptr) struct found *found = calloc(1, sizeof(*found));
	int r;

	ret->n = 0;
	ret->is_sawtooth = false;
	ret->sigma_mib = 0;
	if (!s || !found)
		return -ENOMEM;
	s->stream = stream;
	s->origin_ns = origin_ns;
	s->hi = stream->n;
	r = find_segments(s);
	if (r < 0 || s->n_segments == 0)
		return r;
	find_runs(s, found);
	ret->sigma_mib = s->sigma;
	ret->is_sawtooth = is_saw(s, found);
	return take_runs(s, found, ret);
}
