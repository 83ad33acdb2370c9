#include "crossrank/method/rank_track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "stats/onset.h"
#include "stats/order.h"

#define LATE_PART 0.25
#define LEAST_SHARE 0.005 /* of what the rank holds */
#define SIGMAS 4.0
#define TEETH 1.5
#define TOOTH_QUANTILE 0.75
#define SIGMA_PER_MAD 1.4826
#define DENSE 0.5	 /* of an interval */
#define MIN_QUARTERED 16 /* second differences: fewer are halved */

/* Minimum of x[i..n) for each i; ret may be x. */
static void track_keep(const double *x, size_t n, double *ret)
{
	double least = INFINITY;

	for (size_t i = n; i-- > 0;) {
		least = fmin(least, x[i]);
		ret[i] = least;
	}
}

size_t track_count_to(const double *v, size_t n, double value)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (v[middle] <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

DEFINE_SELECT_NTH(select_nth, double)

double track_quantile(double *v, size_t n, double share)
{
	double at = share * (double)(n - 1), next = INFINITY;
	size_t low = (size_t)at;

	if (n == 0)
		return NAN;
	select_nth(v, n, low);
	if (at <= (double)low)
		return v[low];
	for (size_t i = low + 1; i < n; i++)
		next = fmin(next, v[i]);
	return v[low] + (at - (double)low) * (next - v[low]);
}

static double median_of_three(double a, double b, double c)
{
	return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* One odd sample, up or down, is no memory. A load may begin with one low sample: that stays. */
static void smooth(const double *m, size_t n, double *ret)
{
	for (size_t i = 1; i + 1 < n; i++)
		ret[i] = median_of_three(m[i - 1], m[i], m[i + 1]);
	ret[0] = fmin(m[0], ret[1]);
	ret[n - 1] = median_of_three(m[n - 1], ret[n - 2], 3 * ret[n - 2] - 2 * ret[n - 3]);
}

/*
 * The scatter between neighbours: the second lowest of four quarters, so that a coarse way up in
 * one part is not taken for noise, and no more than in the whole. scratch has room for n.
 */
static double find_sigma(const double *m, size_t n, double *scratch)
{
	size_t n_seconds = n - 2, n_parts = n_seconds >= MIN_QUARTERED ? 4 : 2, from = 0;
	double medians[4], whole;

	for (size_t i = 0; i < n_seconds; i++)
		scratch[i] = fabs(m[i + 2] - 2 * m[i + 1] + m[i]);
	for (size_t i = 0; i < n_parts; i++) {
		size_t length = n_seconds / n_parts + (i < n_seconds % n_parts);

		medians[i] = track_quantile(scratch + from, length, 0.5);
		from += length;
	}
	select_nth(medians, n_parts, n_parts == 4);
	whole = track_quantile(scratch, n_seconds, 0.5);
	return SIGMA_PER_MAD * fmin(medians[n_parts == 4], whole) / sqrt(6);
}

/* A stretch above the kept memory that ended; one that the record ends in may yet be kept. */
static int find_spikes(struct track *track, struct arena *arena)
{
	track->n_spikes = 0;
	track->spikes = arena_alloc(arena, (track->n / 2 + 1) * sizeof(*track->spikes));
	if (!track->spikes)
		return -ENOMEM;
	for (size_t i = 0; i < track->n; i++) {
		size_t from = i;
		double most = 0;

		for (; i < track->n && track->x[i] - track->kept[i] > track->scale; i++)
			most = fmax(most, track->x[i] - track->kept[i]);
		if (i > from && i < track->n)
			track->spikes[track->n_spikes++] =
				(struct spike){ track->t[from], track->t[i] - track->t[from],
						most };
	}
	return 0;
}

int track_finish(struct track *track, struct arena *arena)
{
	double *scratch = arena_alloc(arena, track->n * sizeof(*scratch));
	size_t first = track->n / 8, end = track->n - first; /* what stays is not known there */

	if (!scratch)
		return -ENOMEM;
	track_keep(track->x, track->n, track->kept);
	for (size_t i = first; i < end; i++)
		scratch[i - first] = track->x[i] - track->kept[i];
	track->tooth = track_quantile(scratch, end - first, TOOTH_QUANTILE);
	memcpy(scratch, track->x, track->n * sizeof(*scratch));
	track->scale =
		fmax(fmax(CULPRIT_LEAST, LEAST_SHARE * track_quantile(scratch, track->n, 0.5)),
		     fmax(SIGMAS * track->sigma, TEETH * track->tooth));
	return find_spikes(track, arena);
}

/*
 * Fills the interval: half of the record has samples at most that far apart. Samples are denser
 * while processes start and end. Those closer than half an interval to the one before are left out,
 * so that each counts for as long. Returns how many are left of t and mib.
 */
static size_t leave_dense_out(double *t, double *mib, size_t n, double *scratch, double *ret)
{
	double half = 0;
	size_t kept = 1;

	for (size_t i = 0; i + 1 < n; i++)
		scratch[i] = t[i + 1] - t[i];
	order_sort(scratch, n - 1);
	for (size_t i = 0; i + 1 < n && half < (t[n - 1] - t[0]) / 2; i++) {
		half += scratch[i];
		*ret = scratch[i];
	}
	for (size_t i = 1; i < n; i++) {
		if (t[i] - t[kept - 1] < DENSE * *ret && kept + n - i > TRACK_MIN_SAMPLES)
			continue;
		t[kept] = t[i];
		mib[kept++] = mib[i];
	}
	return kept;
}

int track_make(const struct culprit_rank *in, size_t rank, struct arena *arena, struct track *ret)
{
	struct track track = { .rank = rank, .in = in };
	double *t = arena_memdup(arena, in->t, in->n * sizeof(*t));
	double *mib = arena_memdup(arena, in->mib, in->n * sizeof(*mib));
	double *scratch = arena_alloc(arena, in->n * sizeof(*scratch));
	int r;

	track.x = arena_alloc(arena, in->n * sizeof(*track.x));
	track.kept = arena_alloc(arena, in->n * sizeof(*track.kept));
	if (!t || !mib || !scratch || !track.x || !track.kept)
		return -ENOMEM;
	track.t = t;
	track.n = leave_dense_out(t, mib, in->n, scratch, &track.interval);
	memcpy(track.x, mib, track.n * sizeof(*mib));
	track.sigma = find_sigma(mib, track.n, scratch);
	r = track_finish(&track, arena); /* spikes of one sample, too */
	track.all_spikes = track.spikes;
	track.n_all_spikes = track.n_spikes;
	smooth(mib, track.n, track.x);
	if (r == 0)
		r = track_finish(&track, arena);
	if (r < 0)
		return r;
	*ret = track;
	return 0;
}

#define MOMENT 0.02	 /* of an interval: samples so close are of one moment */
#define SLOWS_DOWN 0.25	 /* of its pace: the way up is over */
#define STEP_SHARE 0.5	 /* of the way up in one interval: a step */
#define STEP_FOOT 0.1	 /* of a step in the interval before it: the step began there */
#define MAX_RHO 0.7	 /* of a residual in the next one */
#define FEW_RHO 0.5	 /* where there are too few to measure it */
#define PER_INTERVAL 4	 /* onsets that are tried in each interval */
#define TOOTH_ERROR 0.25 /* of a tooth: a leak below it shows so much early or late */
#define MAX_RAMP 512	 /* samples of a ramp: more show nothing new of its beginning */
#define MAX_LINE 2048	 /* samples of a line */
#define MIN_LINE 8
#define ONE_PACE 0.5	 /* of the pace in the faster half of a line: the other half has so much */
#define TOUCH 0.1	 /* of a scale above the kept memory: no tooth */
#define SPIKE_SCALES 2.0 /* above the kept memory: less is scatter above its minimum */
#define MIN_GROUND 6	 /* samples before a ramp show how it scatters */
#define MAX_KEPT 0.9	 /* of one sample in the next */
#define LEAST_SIGMA 0.05 /* MiB */
#define MAX_MISFIT 2.0	 /* variances of what is expected */
#define MAX_MISFIT_BEHIND 3.0
#define STAMP_ERROR 0.3 /* of the unit of its timestamps: the sd of a uniform error */
#define Z90 1.645
#define Z90_STEP 1.559 /* of a uniform distribution: 0.45 of its width */

struct hinge {
	double onset, sd, slope;
	double slope_square, product; /* variance of the slope, covariance with the onset */
	double scatter;		      /* root mean square of the residuals */
};

/*
 * Least squares of a constant, then a line, for PER_INTERVAL onsets in each interval. The posterior
 * of the onset is exp(-SSE / 2 s^2) with s from the residuals, wider where they follow each other.
 * False: nothing goes up. work has room for 4 (n + 1) values.
 */
static bool fit_hinge(const double *t, const double *y, size_t n, double sigma, double *work,
		      struct hinge *ret)
{
	double *behind_t = work, *behind_tt = work + (n + 1), *behind_y = work + 2 * (n + 1);
	double *behind_ty = work + 3 * (n + 1);
	double sum_y = 0, sum_yy = 0, best = INFINITY, best_at = 0, best_level = 0, best_slope = 0;
	double products = 0, squares = 0, rho, variance = 1, weights = 0, mean = 0, square = 0;
	double count = (double)n, slopes = 0, slope_squares = 0, slope_products = 0;

	if (n < 4)
		return false;
	behind_t[n] = behind_tt[n] = behind_y[n] = behind_ty[n] = 0;
	for (size_t i = n; i-- > 0;) {
		double z = t[i] - t[0], v = y[i] - y[0];

		behind_t[i] = behind_t[i + 1] + z;
		behind_tt[i] = behind_tt[i + 1] + z * z;
		behind_y[i] = behind_y[i + 1] + v;
		behind_ty[i] = behind_ty[i + 1] + z * v;
		sum_y += v;
		sum_yy += v * v;
	}
	/* The first pass finds the best onset, the second one weighs all by it. */
	for (int pass = 0; pass < 2; pass++) {
		if (pass == 1) {
			double before = 0;

			if (!isfinite(best))
				return false;
			for (size_t i = 0; i < n; i++) {
				double z = t[i] - t[0];
				double off = y[i] - y[0] - best_level -
					     best_slope * fmax(z - best_at, 0);

				products += off * before;
				squares += off * off;
				before = off;
			}
			rho = n > 8 ? fmin(fmax(products / fmax(squares, 1e-30), 0), MAX_RHO)
				    : FEW_RHO;
			variance = fmax(fmax(best, 0) / fmax(count - 3, 1),
					fmax(sigma * sigma, 1e-12)) *
				   (1 + rho) / (1 - rho);
		}
		for (size_t j = 0; j + 2 < n; j++) {
			for (int part = 0; part < PER_INTERVAL; part++) {
				double at = t[j] - t[0] + (t[j + 1] - t[j]) * part / PER_INTERVAL;
				double n_behind = (double)(n - j - 1);
				double u = behind_t[j + 1] - at * n_behind;
				double uu = behind_tt[j + 1] - 2 * at * behind_t[j + 1] +
					    at * at * n_behind;
				double uy = behind_ty[j + 1] - at * behind_y[j + 1];
				double det = count * uu - u * u, slope, level, sse, weight;

				if (!(det > 1e-12 * count * fmax(behind_tt[0], 1e-30)))
					continue;
				slope = (count * uy - u * sum_y) / det;
				level = (sum_y - slope * u) / count;
				sse = sum_yy - level * sum_y - slope * uy;
				if (!(slope > 0))
					continue;
				if (pass == 0 && sse < best) {
					best = sse;
					best_at = at;
					best_level = level;
					best_slope = slope;
				} else if (pass == 1) {
					weight = exp(-fmax(sse - best, 0) / (2 * variance));
					weights += weight;
					mean += weight * at;
					square += weight * at * at;
					slopes += weight * slope;
					slope_squares +=
						weight * (slope * slope + variance * count / det);
					slope_products += weight * slope * at;
				}
			}
		}
	}
	mean /= weights;
	slopes /= weights;
	ret->onset = t[0] + mean;
	ret->sd = sqrt(fmax(square / weights - mean * mean, 0));
	ret->slope = slopes;
	ret->slope_square = fmax(slope_squares / weights - slopes * slopes, 0);
	ret->product = slope_products / weights - slopes * mean;
	ret->scatter = sqrt(fmax(best, 0) / count);
	return true;
}

/* Linear between cells, level before the first. */
static double common_at(const struct common *c, double t)
{
	size_t i = track_count_to(c->at, c->n, t);

	if (i == 0)
		return c->mib[0];
	if (i == c->n)
		return c->mib[c->n - 1] + c->trend * (t - c->at[c->n - 1]);
	return c->mib[i - 1] +
	       (c->mib[i] - c->mib[i - 1]) * (t - c->at[i - 1]) / (c->at[i] - c->at[i - 1]);
}

/* The part of a record that a rise is looked for in, without what is common. */
struct part {
	const struct track *track;
	const double *t;
	double *x, *kept, *work;
	size_t n;
	bool is_sharp;
};

/* Where the way up that passes sample `over` ends: slow for 4 samples and half of its length. */
static size_t find_end(const struct part *p, size_t low, size_t over)
{
	size_t end = over;

	while (end + 1 < p->n) {
		double length = p->t[end] - p->t[low];
		size_t far = track_count_to(p->t, p->n, p->t[end] + 0.5 * length) - 1, next;

		far = far > end + 4 ? far : end + 4;
		far = far < p->n - 1 ? far : p->n - 1;
		if (far - end >= 3 &&
		    p->kept[far] - p->kept[end] < SLOWS_DOWN * (p->kept[end] - p->kept[low]) /
							  length * (p->t[far] - p->t[end]))
			break;
		next = track_count_to(p->kept, p->n, p->kept[end]);
		next = next > end + 1 ? next : end + 1;
		end = far < next ? far : next;
	}
	return end;
}

/* A step lies between two samples, anywhere. */
static size_t place_step(const struct part *p, size_t low, size_t big, struct culprit_rise *ret)
{
	double jump = p->kept[big + 1] - p->kept[big];

	while (big > low && p->kept[big] - p->kept[big - 1] > STEP_FOOT * jump)
		big--;
	ret->is_step = true;
	ret->onset = (p->t[big] + p->t[big + 1]) / 2;
	ret->sd = (p->t[big + 1] - p->t[big]) / sqrt(12);
	return big;
}

/*
 * When a ramp began that may speed up: by a power of the time since then, against the scatter of
 * the ground before it, wider where samples of that follow each other. False: no such fit is good.
 */
static bool place_power(const struct part *p, size_t from, size_t n, const struct hinge *line,
			struct onset *ret)
{
	size_t skipped = n > ONSET_MAX_SAMPLES ? n - ONSET_MAX_SAMPLES : 0;
	const double *t = p->t + from + skipped, *x = p->x + from + skipped;
	double mean = 0, squares = 0, products = 0, sigma = p->track->sigma, kept = 0;
	size_t n_ground;

	n -= skipped;
	n_ground = track_count_to(t, n, line->onset - 2 * line->sd);
	for (size_t i = 0; i < n_ground; i++)
		mean += x[i] / (double)n_ground;
	for (size_t i = 0; i < n_ground; i++) {
		squares += (x[i] - mean) * (x[i] - mean);
		products += i > 0 ? (x[i] - mean) * (x[i - 1] - mean) : 0;
	}
	if (n_ground >= MIN_GROUND && squares > 0) {
		kept = products / squares;
		kept = fmin(fmax(kept + (1 + 4 * kept) / (double)n_ground, 0), MAX_KEPT);
		sigma = fmax(sigma, sqrt(squares / (double)(n_ground - 1)));
	}
	sigma = fmax(sigma, LEAST_SIGMA) * sqrt((1 + kept) / (1 - kept));
	return onset_hinge(t, x, n, sigma, ret) && ret->misfit <= MAX_MISFIT &&
	       ret->misfit_behind <= MAX_MISFIT_BEHIND;
}

/*
 * The kept memory rises at the foot of the last tooth below the rise, up to a tooth too early:
 * delays the onset by half of what that hides, to the next foot at most. `tooth` is a usual one.
 */
static void delay_by_tooth(const struct part *p, double tooth, struct hinge *hinge)
{
	size_t at = track_count_to(p->t, p->n, hinge->onset), low, high = at;
	double hidden, most = 0;

	low = at > 0 ? at - 1 : 0;
	while (low > 0 && p->x[low] > p->kept[low] + TOUCH * p->track->scale)
		low--;
	while (high + 1 < p->n && p->x[high] > p->kept[high] + TOUCH * p->track->scale)
		high++;
	for (size_t i = low; i < high; i++)
		most = fmax(most, p->x[i] - p->kept[i]);
	hidden = fmin(p->t[high] - p->t[low] - 1.5 * p->track->interval, most / hinge->slope);
	hidden = fmin(fmax(hidden, tooth / hinge->slope), p->t[p->n - 1] - hinge->onset);
	if (hidden > 0) {
		hinge->onset += hidden / 2;
		hinge->sd = hypot(hinge->sd, hidden / sqrt(12));
	}
}

static void keep_narrower(const struct hinge *hinge, struct hinge *best)
{
	if (hinge->sd <= best->sd)
		*best = *hinge;
}

/*
 * A ramp is fitted as it is, spikes cut off, and from below, at its beginning and in full; the
 * surest one counts.
 */
static size_t place_ramp(const struct part *p, size_t low, size_t over, size_t end, double least,
			 struct culprit_rise *ret)
{
	const struct track *track = p->track;
	double base = p->kept[0], tooth;
	size_t first = track_count_to(p->kept, p->n, base + fmax(2 * least, 0.35 * ret->gain)), n;
	struct hinge best = { .sd = INFINITY }, hinge;
	struct onset power;

	for (size_t i = 0; i <= low; i++)
		p->work[i] = p->x[i] - p->kept[i];
	tooth = track_quantile(p->work, low + 1, TOOTH_QUANTILE);
	first = first > over + 4 ? first : over + 4;
	for (int pass = 0; pass < 2; pass++) {
		size_t full = end < low + MAX_RAMP ? end : low + MAX_RAMP;
		size_t to = pass == 0 ? first : full, from;

		to = to < p->n ? to : p->n;
		from = low + low > to + 8 ? low + low - to - 8 : 0;
		n = (to + 1 < p->n ? to + 1 : p->n) - from;
		if (pass == 1 && to <= first)
			break;
		if (fit_hinge(p->t + from, p->kept + from, n, track->sigma / 2, p->work, &hinge)) {
			delay_by_tooth(p, tooth, &hinge);
			keep_narrower(&hinge, &best);
		}
		if (fit_hinge(p->t + from, p->x + from, n, track->sigma, p->work, &hinge))
			keep_narrower(&hinge, &best);
		if (pass == 0 && p->is_sharp && isfinite(best.sd) &&
		    place_power(p, from, n, &best, &power)) {
			ret->best = power.median;
			ret->low = power.low;
			ret->high = power.high;
		}
	}
	if (!isfinite(best.sd))
		best = (struct hinge){ .onset = (p->t[low] + p->t[over]) / 2,
				       .sd = (p->t[over] - p->t[low]) / 2,
				       .slope = INFINITY };
	ret->onset = best.onset;
	ret->sd = best.sd;
	ret->grain = GRAIN * track->interval;
	if (tooth > 4 * track->sigma)
		ret->sd = hypot(ret->sd, TOOTH_ERROR * tooth / best.slope);
	n = track_count_to(p->t, p->n, ret->onset);
	return n > 0 ? n - 1 : 0;
}

/*
 * The line of a rise that goes on from sample `low` to the end, at about one pace in both halves:
 * through the kept memory, but for samples in a spike, which show only what is held behind it.
 */
static void fit_line(const struct part *p, size_t low, struct culprit_line *ret)
{
	size_t last = p->n - 1, from = low + low > p->n + 8 ? low + low - p->n - 8 : 0, n = 0;
	size_t half = track_count_to(p->t, p->n, (p->t[low] + p->t[last]) / 2) - 1;
	double before = (p->kept[half] - p->kept[low]) / fmax(p->t[half] - p->t[low], 1e-9);
	double behind = (p->kept[last] - p->kept[half]) / fmax(p->t[last] - p->t[half], 1e-9);
	double slow = fmin(before, behind), gain = p->kept[last] - p->kept[low];
	double *t = p->work + 4 * (p->n + 1), *y = t + p->n;
	struct hinge hinge;

	*ret = (struct culprit_line){ .sd = NAN };
	if (p->n <= low + MIN_LINE || slow < ONE_PACE * fmax(before, behind))
		return;
	for (size_t i = from; i < p->n && n < MAX_LINE; i++) {
		if (p->x[i] > p->kept[i] + p->track->scale)
			continue;
		t[n] = p->t[i];
		y[n++] = p->kept[i];
	}
	if (!fit_hinge(t, y, n, p->track->sigma / 2, p->work, &hinge))
		return;
	*ret = (struct culprit_line){ .onset = hinge.onset,
				      .sd = hypot(hinge.sd, GRAIN * p->track->interval),
				      .slope = hinge.slope,
				      .slope_square = hinge.slope_square,
				      .product = hinge.product,
				      .misfit = hinge.scatter / gain };
}

/* A spike at the onset hides when it was. */
static void blur_by_spike(const struct part *p, size_t low, struct culprit_rise *ret)
{
	const struct track *track = p->track;
	size_t i = low + 1;

	while (i + 1 < p->n && p->x[i] > p->kept[i] + SPIKE_SCALES * track->scale)
		i++;
	if (i > low + 1) {
		double half = (p->t[i] - p->t[low + 1]) / 2;

		ret->onset += half;
		ret->sd = hypot(ret->sd, half);
	}
}

static int find(struct part *p, struct culprit_rise *ret)
{
	const struct track *track = p->track;
	struct culprit_rise rise = {
		.record = track->rank, .probability = NAN, .given_back = NAN, .best = NAN
	};
	double base = p->kept[0], least, span;
	size_t over, low, end, big;

	rise.total = p->kept[p->n - 1] - base;
	if (!(rise.total > track->scale))
		return 0;
	least = fmax(track->scale, RISE_MINOR * rise.total);
	over = track_count_to(p->kept, p->n, base + least);
	if (over == p->n) /* by rounding */
		return 0;
	low = track_count_to(p->kept, p->n, base + least / 4);
	low = low > 0 ? low - 1 : 0;
	low = low < over - 1 ? low : over - 1;
	span = fmax(8, (double)(p->n / 3));
	low = (double)(over - 1) - span > (double)low ? over - 1 - (size_t)span : low;
	end = find_end(p, low, over);
	big = low;
	for (size_t i = low; i < end; i++)
		if (p->kept[i + 1] - p->kept[i] > p->kept[big + 1] - p->kept[big])
			big = i;
	rise.gain = p->kept[end] - p->kept[low];
	if (p->kept[big + 1] - p->kept[big] >= STEP_SHARE * rise.gain || end - low < 4) {
		low = place_step(p, low, big, &rise);
		rise.gain = p->kept[end] - p->kept[low];
	} else {
		low = place_ramp(p, low, over, end, least, &rise);
	}
	fit_line(p, low, &rise.line);
	span = p->t[end] - p->t[low < end ? low : end - 1];
	rise.rate = rise.gain / fmax(span, 1e-9);
	if (low + 1 < p->n)
		blur_by_spike(p, low, &rise);
	rise.sd = hypot(rise.sd, STAMP_ERROR * track->in->stamp);
	rise.till = p->t[end];
	rise.sd = fmin(hypot(rise.sd, rise.grain), fmax(span, 2 * track->interval)) + 1e-6;
	if (isnan(rise.best)) {
		rise.best = rise.onset;
		rise.low = rise.onset - (rise.is_step ? Z90_STEP : Z90) * rise.sd;
		rise.high = rise.onset + (rise.is_step ? Z90_STEP : Z90) * rise.sd;
	} else { /* what the fit of a power does not know of */
		double other = hypot(rise.grain, STAMP_ERROR * track->in->stamp);

		rise.low = rise.best - hypot(rise.best - rise.low, Z90 * other);
		rise.high = rise.best + hypot(rise.high - rise.best, Z90 * other);
	}
	rise.since = ret->since;
	rise.mean_rate = rise.total / fmax(p->t[p->n - 1] - rise.onset, 1e-9);
	over = track_count_to(p->t, p->n,
			      p->t[p->n - 1] - LATE_PART * (p->t[p->n - 1] - rise.onset));
	rise.late_rate = (p->kept[p->n - 1] - p->kept[over - 1]) /
			 fmax(p->t[p->n - 1] - p->t[over - 1], 1e-9);
	*ret = rise;
	return 1;
}

int rise_find(const struct track *track, double from, double stop, const struct common *common,
	      struct culprit_rise *ret)
{
	size_t first = track_count_to(track->t, track->n, from + MOMENT * track->interval);
	size_t end = track_count_to(track->t, track->n, stop);
	struct part p = { .track = track, .is_sharp = common->is_sharp };
	CLEANUP(free_ptr) double *room = NULL;

	first = first > 0 ? first - 1 : 0;
	if (end < first + 4)
		return 0;
	p.t = track->t + first;
	p.n = end - first;
	room = malloc((8 * p.n + 4) * sizeof(*room));
	if (!room)
		return -ENOMEM;
	p.x = room;
	p.kept = room + p.n;
	p.work = room + 2 * p.n;
	for (size_t i = 0; i < p.n; i++)
		p.x[i] = track->x[first + i] - common_at(common, p.t[i]);
	track_keep(p.x, p.n, p.kept);
	ret->since = from;
	return find(&p, ret);
}
