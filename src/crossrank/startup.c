#include "crossrank/startup.h"

#include <math.h>

#include "crossrank/series.h"
#include "stats/noise.h"

#define REST_POINTS 4  /* a rest is so long at least */
#define SHORT_RECORD 8 /* where a record has not so many times as much, less is enough */
#define MIN_REST_POINTS 2
#define REST_SECONDS 1.5     /* who loads waits for disks and other ranks in between */
#define REST_TIME_SHARE 0.25 /* of the time since the record began */
#define REST_RISE_SHARE 0.1  /* of what it rose until then: so much may still change */
#define REST_SIGMAS 6.0	     /* what noise alone spreads over */

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

static bool is_rest(const struct series *s, size_t i, size_t n, double rose)
{
	double low = INFINITY, high = -INFINITY;

	for (size_t k = i; k < i + n; k++) {
		low = fmin(low, s->y[k]);
		high = fmax(high, s->y[k]);
	}
	return high - low <= fmax(REST_SIGMAS * s->sigma, REST_RISE_SHARE * rose);
}

static bool find_rest(const struct series *s, size_t *ret_point)
{
	double lowest = INFINITY;
	size_t n;

	for (size_t i = 0; (n = rest_length(s, i)) > 0; i++) {
		lowest = fmin(lowest, s->y[i]);
		if (!is_rest(s, i, n, s->y[i] - lowest))
			continue;
		*ret_point = i;
		return true;
	}
	return false;
}

/*
 * Start-ups take seconds or minutes, and records may be long: the beginning is looked at closely
 * first, then twice as much of it half as closely.
 */
bool startup_end(const struct stream *stream, size_t *ret)
{
	struct series s = { .stream = stream };
	size_t point;

	for (size_t n = SERIES_BINS;; n *= 2) {
		s.hi = n < stream->n ? n : stream->n;
		series_fill(&s);
		if (s.n >= MIN_REST_POINTS && find_rest(&s, &point)) {
			*ret = point * s.per_bin;
			return true;
		}
		if (s.hi == stream->n)
			return false;
	}
}
