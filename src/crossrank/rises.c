#include "crossrank/rises.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "crossrank/series.h"
#include "crossrank/startup.h"

#define NEAR_BINS 24   /* around an onset, when it is looked at more closely */
#define DOWN_SHARE 0.6 /* losing so much of its gain it has come down */
#define TEETH 3	       /* so many similar ones are a saw */
#define TOOTH_SHARE 0.5

int64_t rise_gain_bytes(const struct rise *rise)
{
	double bytes = rise->gain_mib * SERIES_BYTES_PER_MIB;

	return bytes < 0x1p63 ? (int64_t)bytes : INT64_MAX;
}

static size_t sample_of(const struct series *s, size_t bin)
{
	return s->lo + bin * s->per_bin;
}

/* When most of the gain is gone again. */
static double gone_at(const struct series *s, const struct run *run)
{
	double level = 0;

	for (size_t i = run->last + 1; i < series_count_moves(s); i++) {
		level += series_move(s, i).gain;
		if (level < -DOWN_SHARE * run->gain)
			return series_move(s, i).to;
	}
	return INFINITY;
}

static bool is_saw(const struct series *s, const struct run_list *found)
{
	double highest = 0;
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++)
		highest = fmax(highest, found->items[i].gain);
	for (size_t i = 0; i < found->n; i++)
		n += found->items[i].gain >= TOOTH_SHARE * highest &&
		     !isinf(gone_at(s, &found->items[i]));
	return n >= TEETH;
}

/* The same rise, in samples that are not thinned out. */
static int refine(const struct series *coarse, const struct run *run, struct rise *rise)
{
	CLEANUP(free_ptr) struct series *s = calloc(1, sizeof(*s));
	CLEANUP(free_ptr) struct run_list *found = calloc(1, sizeof(*found));
	size_t bin = coarse->segments[(run->first + 1) / 2].from, best = 0;
	int r;

	if (!s || !found)
		return -ENOMEM;
	s->stream = coarse->stream;
	s->origin_ns = coarse->origin_ns;
	s->begin = coarse->begin;
	s->lo = sample_of(coarse, bin > NEAR_BINS ? bin - NEAR_BINS : 0);
	s->hi = sample_of(coarse, bin + NEAR_BINS);
	s->hi = s->hi < coarse->hi ? s->hi : coarse->hi;
	r = series_cut(s);
	if (r < 0)
		return r;
	series_find_runs(s, found);
	for (size_t i = 1; i < found->n; i++)
		if (found->items[i].gain > found->items[best].gain)
			best = i;
	/* A rise that begins before what is looked at closely stays as it was seen from afar. */
	if (found->n == 0 || (found->items[best].first == 0 && s->lo > s->begin))
		return 0;
	if (s->per_bin > 1)
		return refine(s, &found->items[best], rise);
	rise_describe(s, &found->items[best], rise);
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

static int take_runs(const struct series *s, struct run_list *found, struct rise_list *ret)
{
	int r = 0;

	qsort(found->items, found->n, sizeof(found->items[0]), compare_gains);
	ret->n = found->n < RISES_MAX ? found->n : RISES_MAX;
	for (size_t i = 0; r == 0 && i < ret->n; i++) {
		struct rise *rise = &ret->items[i];

		rise_describe(s, &found->items[i], rise);
		if (s->per_bin > 1 && !rise->is_censored)
			r = refine(s, &found->items[i], rise);
		rise->end = series_move(s, found->items[i].last).to;
		rise->gain_mib = found->items[i].gain;
		rise->gone = gone_at(s, &found->items[i]);
	}
	qsort(ret->items, ret->n, sizeof(ret->items[0]), compare_times);
	return r;
}

int rises_find(const struct stream *stream, int64_t origin_ns, struct rise_list *ret)
{
	CLEANUP(free_ptr) struct series *s = calloc(1, sizeof(*s));
	CLEANUP(free_ptr) struct run_list *found = calloc(1, sizeof(*found));
	bool rests;
	int r;

	ret->n = 0;
	ret->is_sawtooth = false;
	ret->sigma_mib = ret->range_mib = 0;
	if (!s || !found)
		return -ENOMEM;
	s->stream = stream;
	s->origin_ns = origin_ns;
	rests = startup_end(stream, &s->begin);
	s->lo = s->begin;
	s->hi = stream->n;
	r = series_cut(s);
	if (r < 0 || s->n_segments == 0)
		return r;
	series_find_runs(s, found);
	ret->sigma_mib = s->sigma;
	ret->range_mib = s->range;
	ret->is_sawtooth = is_saw(s, found);
	r = take_runs(s, found, ret);
	if (!rests && !ret->is_sawtooth && ret->n > 0)
		ret->items[0].is_censored = true;
	return r;
}
