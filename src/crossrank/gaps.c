#include "crossrank/facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "stats/noise.h"

#define MAX_POINTS 4096
#define MIN_GAP_BYTES (64.0 * 1024 * 1024)
#define MIN_GAP_SHARE 0.05 /* of the device */
#define SPIKE_SIGMAS 6.0
#define SPIKE_GONE 0.25 /* of a spike may be left in the end */
#define DRIFT_R_SQUARED 0.6
#define FRAGMENTATION_SHARE 0.3
#define SIGMA_PER_MAD 1.4826
#define NEAR_MARKER_NS 150000000

static double gap_of(const struct sample *s)
{
	return (double)s->used_bytes - (double)s->reserved_bytes;
}

/* The exact extremes and means. */
static void measure(const struct stream *s, struct rank_facts *ret)
{
	double sum = 0, share = 0;
	size_t n_reserved = 0;

	ret->gap_max_bytes = INT64_MIN;
	for (size_t i = 0; i < s->n; i++) {
		const struct sample *at = &s->samples[i];
		int64_t gap = at->used_bytes - at->reserved_bytes;

		sum += (double)gap;
		if (gap > ret->gap_max_bytes) {
			ret->gap_max_bytes = gap;
			ret->gap_max_ns = at->timestamp_ns;
		}
		if (at->reserved_bytes > 0) {
			share += ((double)at->reserved_bytes - (double)at->allocated_bytes) /
				 (double)at->reserved_bytes;
			n_reserved++;
		}
	}
	ret->gap_mean_bytes = sum / (double)s->n;
	ret->gap_last_bytes = s->samples[s->n - 1].used_bytes - s->samples[s->n - 1].reserved_bytes;
	ret->unallocated_share = n_reserved ? share / (double)n_reserved : NAN;
}

/* A line through the gaps over time. */
static void fit_drift(const struct stream *s, struct rank_facts *ret)
{
	double t_mean = 0, tt = 0, tg = 0, gg = 0;

	for (size_t i = 0; i < s->n; i++)
		t_mean += (double)(s->samples[i].timestamp_ns - ret->first_ns) / 1e9 / (double)s->n;
	for (size_t i = 0; i < s->n; i++) {
		double t = (double)(s->samples[i].timestamp_ns - ret->first_ns) / 1e9 - t_mean;
		double g = gap_of(&s->samples[i]) - ret->gap_mean_bytes;

		tt += t * t;
		tg += t * g;
		gg += g * g;
	}
	ret->drift_bytes_per_second = tt > 0 ? tg / tt : NAN;
	ret->drift_r_squared = tt > 0 && gg > 0 ? tg * tg / (tt * gg) : NAN;
}

/* Whether the largest gap stands out, and has gone. */
static int is_spike(const struct stream *s, struct rank_facts *f, bool *ret)
{
	size_t step = s->n / MAX_POINTS + 1, n = 0;
	CLEANUP(free_ptr) double *v = calloc(s->n / step + 2, sizeof(*v));
	double median, sigma, height;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i += step)
		v[n++] = gap_of(&s->samples[i]);
	median = noise_median(v, n);
	for (size_t i = 0; i < n; i++)
		v[i] = fabs(v[i] - median);
	sigma = SIGMA_PER_MAD * noise_median(v, n);
	height = (double)f->gap_max_bytes - median;
	f->spike_sigmas = sigma > 0 ? height / sigma : NAN;
	*ret = height > fmax(SPIKE_SIGMAS * sigma, MIN_GAP_BYTES) &&
	       (double)f->gap_last_bytes - median < SPIKE_GONE * height;
	return 0;
}

static bool is_large(const struct rank_analysis *a, const struct rank *rank,
		     const struct rank_facts *f)
{
	const struct sample *last = &rank->stream->samples[rank->stream->n - 1];
	int64_t total = a->telemetry->identities[last->identity].total_bytes;

	return (double)f->gap_max_bytes >= MIN_GAP_BYTES ||
	       (total > 0 && (double)f->gap_max_bytes >= MIN_GAP_SHARE * (double)total);
}

static int64_t add_ns(int64_t ns, int64_t by)
{
	int64_t sum;

	return __builtin_add_overflow(ns, by, &sum) ? INT64_MAX : sum;
}

static bool is_near_marker(const struct telemetry *t, int64_t ns)
{
	return telemetry_has_marker(t, ns - NEAR_MARKER_NS, add_ns(ns, NEAR_MARKER_NS));
}

int gaps_find(const struct rank_analysis *a, const struct rank *rank, struct rank_facts *ret)
{
	const struct stream *s = rank->total;
	double seconds = (double)(ret->last_ns - ret->first_ns) / 1e9;
	bool spikes = false;
	int r = 0;

	ret->spike_sigmas = NAN;
	measure(s, ret);
	fit_drift(s, ret);
	if (ret->unallocated_share >= FRAGMENTATION_SHARE &&
	    (double)s->samples[s->n - 1].reserved_bytes >= MIN_GAP_BYTES)
		ret->gap_kinds |= GAP_FRAGMENTATION_LIKE;
	if (!is_large(a, rank, ret))
		return 0;
	r = is_spike(s, ret, &spikes);
	if (spikes)
		ret->gap_kinds |= GAP_TRANSIENT_SPIKE;
	ret->is_spike_collective = spikes && is_near_marker(a->telemetry, ret->gap_max_ns);
	if (s->n >= 5 && ret->drift_r_squared >= DRIFT_R_SQUARED &&
	    ret->drift_bytes_per_second * seconds >= MIN_GAP_BYTES)
		ret->gap_kinds |= GAP_PERSISTENT_DRIFT;
	return r;
}
