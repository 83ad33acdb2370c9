#include "crossrank/series.h"

#include <math.h>
#include <string.h>

#include "stats/noise.h"

/* A rise counts from here on: so many MiB, such a share of the peak, so much above the noise. */
#define MIN_RISE_SHARE 0.01
#define MIN_RISE_SIGMAS 8.0

#define MIN_SIGMA_MIB 0.05
#define MIN_SIGMA_SHARE 0.0005 /* of the range */
#define WANDER_LAG 4	       /* samples over which slow noise shows */
#define POINTS_PER_LAG 16
#define STEP_SIGMAS 8.0	 /* less at once is scatter */
#define DROP_SHARE 0.2	 /* losing so much of its gain ends a rise */
#define REST_FACTOR 2.0	 /* level for so many times as long as it rose ends a rise */
#define PACE_SHARE 0.5	 /* what is at least so fast goes on with what came before */
#define SLOW_SHARE 0.2	 /* a beginning slower than so much of what follows is none */
#define SPIKE_SHARE 0.25 /* going down by as much as up but for that share is a spike */
#define STAIRS 3	 /* so many equal steps are stairs */
#define STAIR_FACTOR 2.0 /* and so equal they are */
#define LARGE_SHARE 0.25 /* unless it is so large */

static double time_of(const struct series *s, size_t sample)
{
	return (double)(s->stream->samples[sample].timestamp_ns - s->origin_ns) / 1e9;
}

static double mib_of(const struct series *s, size_t sample)
{
	return (double)s->stream->samples[sample].used_bytes / SERIES_BYTES_PER_MIB;
}

static void make_bins(struct series *s)
{
	size_t n = s->hi - s->lo;

	s->per_bin = (n + SERIES_BINS - 1) / SERIES_BINS;
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

/* From the point before i to that behind it. */
static double step_around(const struct series *s, size_t i)
{
	size_t last = s->n - 1;

	if (i == 0 || i == last)
		return 0;
	return series_step(s->y[i > 1 ? i - 2 : 0], s->y[i - 1], s->y[i + 1],
			   s->y[i + 2 < last ? i + 2 : last]);
}

/*
 * The series without what goes up at once, which is no scatter: of stairs most points have a step
 * within reach. What goes down stays: saw-teeth do both and lead nowhere.
 */
static void take_out_steps(const struct series *s, double *ret)
{
	double taken = 0, least = STEP_SIGMAS * fmax(s->sigma, MIN_SIGMA_MIB);
	size_t next = 0; /* a step shows around two points, and is taken once */

	for (size_t i = 0; i < s->n; i++) {
		double step = i >= next ? step_around(s, i) : 0;

		ret[i] = s->y[i] - taken;
		if (!(step > least))
			continue;
		ret[i] = s->y[i - 1] - taken;
		taken += step;
		next = i + 2;
	}
}

/* Over a lag; in a short series most points would have a corner within reach. */
static double wander_sigma(const struct series *s)
{
	size_t lag = s->n / POINTS_PER_LAG < WANDER_LAG ? s->n / POINTS_PER_LAG : WANDER_LAG;
	double plain[SERIES_BINS], scratch[SERIES_BINS];

	if (lag < 2)
		return 0;
	take_out_steps(s, plain);
	return noise_sigma(s->t, plain, s->n, lag, scratch);
}

double series_least_rise(const struct series *s)
{
	return fmax(SERIES_MIN_RISE_MIB, MIN_RISE_SHARE * s->high);
}

static void set_scales(struct series *s)
{
	double scratch[SERIES_BINS], low = INFINITY, high = -INFINITY;

	for (size_t i = 0; i < s->n; i++) {
		low = fmin(low, s->y[i]);
		high = fmax(high, s->y[i]);
	}
	s->high = high;
	s->range = high - low;
	s->sigma = noise_sigma(s->t, s->y, s->n, 1, scratch);
	s->sigma = fmax(s->sigma, wander_sigma(s));
	s->sigma = fmax(s->sigma, fmax(MIN_SIGMA_MIB, MIN_SIGMA_SHARE * s->range));
	s->min_rise = fmax(series_least_rise(s), MIN_RISE_SIGMAS * s->sigma);
}

void series_fill(struct series *s)
{
	make_bins(s);
	s->n_segments = 0;
	if (s->n >= 2)
		set_scales(s);
}

int series_cut(struct series *s)
{
	series_fill(s);
	memset(s->is_passing, 0, sizeof(s->is_passing));
	if (s->n < 2)
		return 0;
	return segments_find(s->t, s->y, s->n, s->sigma, s->segments, &s->n_segments);
}

/* ---- moves: along a part, and from one part to the next ---- */

size_t series_count_moves(const struct series *s)
{
	return s->n_segments ? 2 * s->n_segments - 1 : 0;
}

struct move series_move(const struct series *s, size_t i)
{
	const struct segment *a = &s->segments[i / 2];
	bool passes = s->is_passing[i];

	if (i % 2 == 0)
		return (struct move){ s->t[a->from], s->t[a->to - 1],
				      passes ? 0 : a->end - a->begin };
	return (struct move){ s->t[a->to - 1], s->t[a[1].from], passes ? 0 : a[1].begin - a->end };
}

/* ---- runs ---- */

/* Between two samples, or as good as that. */
static bool is_jump(const struct series *s, size_t i)
{
	return i % 2 == 1 || s->segments[i / 2].to - s->segments[i / 2].from <= 2;
}

/*
 * A spike on top of a rise that was under way: move `down` takes away what a jump before it
 * brought. Neither of the two counts any more.
 */
static bool pass_over(struct series *s, const struct run *run, size_t down)
{
	double lost = -series_move(s, down).gain, before = 0;

	for (size_t up = run->first; up < down; up++) {
		double gain = series_move(s, up).gain;

		if (before >= s->min_rise && is_jump(s, up) && gain >= s->min_rise &&
		    fabs(gain - lost) <= SPIKE_SHARE * lost) {
			s->is_passing[up] = s->is_passing[down] = true;
			return true;
		}
		before += gain;
	}
	return false;
}

/*
 * Whether move i rises for a while, at about the pace of what came before, which may have been a
 * sample or two: it is no rest then, however long it is.
 */
static bool keeps_pace(const struct series *s, size_t i, double gain, double seconds)
{
	struct move m = series_move(s, i);

	return !is_jump(s, i) && m.gain > SERIES_LEVEL_SIGMAS * s->sigma &&
	       m.gain / (m.to - m.from) >= PACE_SHARE * gain / seconds;
}

/* How far a rise that begins with move first goes: up, or level for a while. */
static struct run follow(struct series *s, size_t first)
{
	struct run run = { first, first, series_move(s, first).gain, false };
	double sum = run.gain, level = SERIES_LEVEL_SIGMAS * s->sigma,
	       began = series_move(s, first).from;

	for (size_t i = first + 1; i < series_count_moves(s); i++) {
		struct move m = series_move(s, i);
		double rose = series_move(s, run.last).to - began + s->t[1] - s->t[0];
		double rests = keeps_pace(s, i, run.gain, rose) ? m.from : m.to;

		sum += m.gain;
		if (sum < run.gain - fmax(DROP_SHARE * run.gain, level)) {
			if (!pass_over(s, &run, i))
				break;
			return follow(s, first);
		}
		if (rests - series_move(s, run.last).to > REST_FACTOR * rose)
			break;
		if (sum > run.gain + level) {
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

static size_t largest_move(const struct series *s, const struct run *run)
{
	size_t main = run->first;

	for (size_t i = run->first; i <= run->last; i++)
		if (series_move(s, i).gain > series_move(s, main).gain)
			main = i;
	return main;
}

/*
 * Cuts off what goes before it: walks back from the largest move over those that touch what is
 * behind them and are about as steep, and over others that are large themselves. What speeds up bit
 * by bit stays whole. What was cut off is the head, which has gained nothing if there is none.
 */
static struct run cut_head(const struct series *s, struct run *run)
{
	size_t main = largest_move(s, run), first = main;
	struct move largest = series_move(s, main);
	struct run head = { .first = run->first, .is_head = true };
	double steep = slope_of(largest);
	bool touches = true;

	for (size_t i = main; i-- > run->first;) {
		struct move m = series_move(s, i);
		bool is_steep = m.gain > s->sigma && slope_of(m) >= SLOW_SHARE * steep;

		if ((touches && is_steep) || m.gain >= LARGE_SHARE * largest.gain) {
			first = i;
			steep = is_steep ? slope_of(m) : steep;
			touches = true;
		} else if (i % 2 == 0 || fabs(m.gain) > SERIES_LEVEL_SIGMAS * s->sigma) {
			touches = false;
		}
	}
	for (size_t i = run->first; i < first; i++)
		head.gain += series_move(s, i).gain;
	head.last = first > run->first ? first - 1 : first;
	run->gain -= head.gain;
	run->first = first;
	return head;
}

/* ---- stairs ---- */

static bool is_alike(double a, double b)
{
	return a <= STAIR_FACTOR * b && b <= STAIR_FACTOR * a;
}

static double begin_of(const struct series *s, const struct run *run)
{
	return series_move(s, run->first).from;
}

/* Whether run k is the next stair behind run k - 1: as high, as far, and nothing was lost. */
static bool is_stair(const struct series *s, const struct run_list *list, size_t k, double width)
{
	const struct run *a = &list->items[k - 1], *b = &list->items[k];
	double lost = 0;

	for (size_t i = a->last + 1; i < b->first; i++)
		lost -= series_move(s, i).gain;
	return is_alike(a->gain, b->gain) && is_alike(begin_of(s, b) - begin_of(s, a), width) &&
	       lost <= DROP_SHARE * a->gain;
}

/* Equal steps one after the other are one rise, which began with the first. */
static void join_stairs(const struct series *s, struct run_list *list)
{
	size_t n = 0;

	for (size_t i = 0, end; i < list->n; i = end) {
		struct run joined = list->items[i];
		double width = i + 1 < list->n
				       ? begin_of(s, &list->items[i + 1]) - begin_of(s, &joined)
				       : 0;

		for (end = i + 1; end < list->n && is_stair(s, list, end, width);)
			end++;
		end = end - i >= STAIRS ? end : i + 1;
		for (size_t k = i + 1; k < end; k++) {
			joined.gain += list->items[k].gain;
			joined.last = list->items[k].last;
		}
		list->items[n++] = joined;
	}
	list->n = n;
}

static double level_before(const struct series *s, const struct run *run)
{
	const struct segment *part = &s->segments[run->first / 2];

	return run->first % 2 == 0 ? part->begin : part->end;
}

/* What a head gained before that which follows, whose first sample may be put to the head. */
static double head_gain(const struct series *s, const struct run *head)
{
	size_t end = s->segments[head->last / 2].to;
	double top = end >= 2 ? fmin(s->y[end - 1], s->y[end - 2]) : s->y[0];

	return fmin(head->gain, top - level_before(s, head));
}

/* How fast it goes up, from where it begins to where it is highest. */
static double pace_of(const struct series *s, const struct run *run)
{
	double gain = 0, most = 0, seconds = 0, from = series_move(s, run->first).from;

	for (size_t i = run->first; i <= run->last; i++) {
		struct move m = series_move(s, i);

		gain += m.gain;
		if (gain > most + SERIES_LEVEL_SIGMAS * s->sigma) {
			most = gain;
			seconds = m.to - from;
		}
	}
	return seconds > 0 ? most / seconds : 0;
}

/*
 * Whether the rise began with its head and paused behind that: too little to be a rise of its own
 * beside all the memory there is, but it stands out, and goes as fast. One with nothing before it
 * is the end of a start-up.
 */
static bool is_pause(const struct series *s, const struct run *head, const struct run *run)
{
	return head->first > 0 && head->gain >= MIN_RISE_SIGMAS * s->sigma &&
	       pace_of(s, head) >= PACE_SHARE * pace_of(s, run);
}

/* A run, and before it its head if it has one, which may have one, too. */
static void add_run(const struct series *s, struct run run, struct run_list *list)
{
	const struct run whole = run;
	struct run head = cut_head(s, &run);

	head.gain = head_gain(s, &head);
	if (head.gain >= s->min_rise)
		add_run(s, head, list);
	else if (run.gain >= s->min_rise && is_pause(s, &head, &run))
		run = whole;
	if (run.gain >= s->min_rise && list->n < SERIES_BINS)
		list->items[list->n++] = run;
}

void series_find_runs(struct series *s, struct run_list *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < series_count_moves(s);) {
		struct run run;

		if (series_move(s, i).gain < SERIES_LEVEL_SIGMAS * s->sigma) {
			i++;
			continue;
		}
		run = follow(s, i);
		i = run.last + 1;
		add_run(s, run, ret);
	}
	join_stairs(s, ret);
}
