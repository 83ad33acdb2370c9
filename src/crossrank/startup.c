#include "crossrank/startup.h"

#include <math.h>

#include "crossrank/series.h"
#include "stats/noise.h"

#define REST_POINTS 4  /* a rest is so long at least */
#define SHORT_RECORD 8 /* where a record has not so many times as much, less is enough */
#define MIN_REST_POINTS 2
#define REST_SECONDS 2.0     /* who loads waits for disks and other ranks in between */
#define REST_TIME_SHARE 0.25 /* of the time since the record began */
#define REST_RISE_SHARE 0.1  /* of what it rose until then: so much may still change */
#define REST_LEAST_SHARE \
	0.5		 /* of the least rise: where most samples are equal noise seems to be 0 */
#define LOAD_FACTOR 2.0	 /* what multiplies memory by so much */
#define AGAIN_SHARE 0.2	 /* and goes before another rise of such a share is loading */
#define EQUAL_FACTOR 1.1 /* between blocks of one size */
#define MIN_RISE_SIGMAS 8.0
#define REST_SIGMAS 6.0 /* what noise alone spreads over */
#define STEP_SIGMAS 3.0 /* and what it does not do at once, and stay there */

/* How many points a rest that begins with point i has, if it is one; 0: the record is too short. */
static size_t rest_length(const struct series *s, size_t i)
{
	double seconds = fmax(REST_SECONDS, REST_TIME_SHARE * (s->t[i] - s->t[0]));
	size_t least = s->n / SHORT_RECORD, n;

	least = least > REST_POINTS ? REST_POINTS : least;
	least = least < MIN_REST_POINTS ? MIN_REST_POINTS : least;
	for (n = least; i + n <= s->n; n++)
		if (s->t[i + n - 1] - s->t[i] >= seconds)
			return n;
	return 0;
}

struct spread {
	double low, high;
};

static void widen(struct spread *spread, double y)
{
	spread->low = fmin(spread->low, y);
	spread->high = fmax(spread->high, y);
}

/* What goes up at once in n points: more than those before or behind it spread over. */
static double step_in(const double *y, size_t n, struct spread *ret_all)
{
	struct spread behind[SERIES_BINS + 1], before = { INFINITY, -INFINITY };
	double most = 0;

	behind[n] = before;
	for (size_t k = n; k-- > 0;) {
		behind[k] = behind[k + 1];
		widen(&behind[k], y[k]);
	}
	for (size_t k = 1; k < n; k++) {
		double step;

		widen(&before, y[k - 1]);
		step = behind[k].low - before.high;
		if (step > before.high - before.low && step > behind[k].high - behind[k].low)
			most = fmax(most, step);
	}
	*ret_all = behind[0];
	return most;
}

/*
 * The scatter is that of the whole record, and of a short one that rises later it is large: what
 * goes up at once and stays there is no scatter, however small it is beside that.
 */
static bool is_rest(const struct series *s, size_t i, size_t n, double rose)
{
	struct spread all;
	double step = step_in(s->y + i, n, &all), still = REST_RISE_SHARE * rose;

	return all.high - all.low <=
		       fmax(REST_LEAST_SHARE * s->min_rise, fmax(REST_SIGMAS * s->sigma, still)) &&
	       step <= fmax(REST_LEAST_SHARE * SERIES_MIN_RISE_MIB,
			    fmax(STEP_SIGMAS * s->sigma, still));
}

static double level_of(const struct series *s, size_t i, size_t n)
{
	double sum = 0;

	for (size_t k = i; k < i + n; k++)
		sum += s->y[k];
	return sum / (double)n;
}

struct rest {
	size_t point;
	double level;
};

/* The first from a point on that is as high as that; lowest: before it. */
static bool find_rest(const struct series *s, size_t from, double least, struct rest *ret)
{
	double lowest = INFINITY;
	size_t n;

	for (size_t i = 0; (n = rest_length(s, i)) > 0; i++) {
		lowest = fmin(lowest, s->y[i]);
		if (i < from || !is_rest(s, i, n, s->y[i] - lowest) || level_of(s, i, n) < least)
			continue;
		*ret = (struct rest){ i, level_of(s, i, n) };
		return true;
	}
	return false;
}

static bool rises_again(const struct series *s, const struct rest *rest, double gain)
{
	double limit = rest->level + fmax(AGAIN_SHARE * gain, MIN_RISE_SIGMAS * s->sigma);

	for (size_t i = rest->point * s->per_bin; i < s->stream->n; i++)
		if ((double)s->stream->samples[i].used_bytes / SERIES_BYTES_PER_MIB > limit)
			return true;
	return false;
}

/* In bytes; of samples, as bins blur it. 0: there is none around that sample. */
static double block_around(const struct stream *s, size_t i)
{
	const struct sample *at = s->samples;

	if (i == 0 || i + 1 >= s->n)
		return 0;
	return series_step((double)at[i > 1 ? i - 2 : 0].used_bytes, (double)at[i - 1].used_bytes,
			   (double)at[i + 1].used_bytes,
			   (double)at[i + 2 < s->n ? i + 2 : i + 1].used_bytes);
}

/* Loading comes to an end: a block, and behind the second rest another as large, is none. */
static bool goes_on(const struct series *s, const struct rest *from, const struct rest *to)
{
	double least = AGAIN_SHARE * (to->level - from->level) * SERIES_BYTES_PER_MIB, block = 0;
	size_t between = to->point * s->per_bin;

	for (size_t i = from->point * s->per_bin; i < between; i++)
		block = fmax(block, block_around(s->stream, i));
	for (size_t i = between + 1; block >= least && i < s->stream->n; i++) {
		double other = block_around(s->stream, i);

		if (other <= EQUAL_FACTOR * block && block <= EQUAL_FACTOR * other)
			return true;
	}
	return false;
}

/* Who waits before it loads rests twice; the second counts if another thing happens behind it. */
static bool find_next_rest(const struct series *s, bool is_again, struct rest *rest)
{
	double least = fmax(LOAD_FACTOR * rest->level, rest->level + SERIES_MIN_RISE_MIB);
	struct rest next;

	if (!find_rest(s, rest->point + 1, least, &next))
		return false;
	if (!is_again &&
	    (!rises_again(s, &next, next.level - rest->level) || goes_on(s, rest, &next)))
		return false;
	*rest = next;
	return true;
}

/*
 * Start-ups take seconds or minutes, and records may be long: the beginning is looked at closely
 * first, then twice as much of it half as closely.
 */
void startup_find(const struct stream *stream, bool is_again, struct startup *ret)
{
	struct series s = { .stream = stream };
	struct rest rest = { 0, -INFINITY };

	*ret = (struct startup){ 0 };
	for (size_t n = SERIES_BINS;; n *= 2) {
		s.hi = n < stream->n ? n : stream->n;
		series_fill(&s);
		rest.point = (ret->begin + s.per_bin - 1) / s.per_bin;
		if (!ret->has_rest && s.n >= MIN_REST_POINTS) {
			ret->has_rest = find_rest(&s, 0, -INFINITY, &rest);
			ret->first = rest.point * s.per_bin;
		}
		while (ret->has_rest && find_next_rest(&s, is_again, &rest))
			;
		ret->begin = rest.point * s.per_bin;
		if (s.hi == stream->n)
			return;
	}
}
