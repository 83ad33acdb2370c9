#include "crossrank/rises.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "crossrank/refill.h"
#include "crossrank/series.h"
#include "crossrank/shift.h"
#include "crossrank/waves.h"
#include "stats/noise.h"

#define NEAR_BINS 24   /* around an onset, when it is looked at more closely */
#define DOWN_SHARE 0.6 /* losing so much of its gain it has come down */
#define TEETH 3	       /* so many similar ones are a saw */
#define TOOTH_SHARE 0.5
#define SURE_SIGMAS 2.5	 /* what surely stays up by so much more than all scatters is a rise */
#define TOOTH_AFTER 0.25 /* of a tooth: so much later may begin what seems to begin in it */

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

/*
 * How long a tooth takes, in seconds; 0: it is no saw. A leak on top of it, which is not given
 * back, is no tooth, however large it is.
 */
static double tooth_of(const struct series *s, const struct run_list *found)
{
	double highest = 0, lengths[SERIES_BINS];
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++)
		if (!isinf(gone_at(s, &found->items[i])))
			highest = fmax(highest, found->items[i].gain);
	for (size_t i = 0; i < found->n; i++) {
		const struct run *run = &found->items[i];
		double gone = gone_at(s, run);

		if (run->gain >= TOOTH_SHARE * highest && !isinf(gone))
			lengths[n++] = gone - series_move(s, run->first).from;
	}
	return n >= TEETH ? noise_median(lengths, n) : 0;
}

/* What begins in a tooth shows when that falls, and is taken for one that began there. */
static void blur_saw(struct rise_list *list, double tooth)
{
	for (size_t i = 0; i < list->n; i++)
		onset_blur(&list->items[i].onset, tooth, TOOTH_AFTER * tooth, 1);
}

/*
 * From a low of the parts to a high behind it. Noise spreads over much more and goes nowhere; but
 * of a few samples nobody knows what is noise.
 */
static double climb_of(const struct series *s)
{
	double level = 0, low = 0, climb = 0;

	if (s->n < RISES_MIN_SAMPLES)
		return s->range;
	for (size_t i = 0; i < series_count_moves(s); i++) {
		level += series_move(s, i).gain;
		low = fmin(low, level);
		climb = fmax(climb, level - low);
	}
	return climb;
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
		double dwell, lost;

		rise_describe(s, &found->items[i], rise);
		lost = waves_lost(s, &found->items[i], rise->slope);
		dwell = rise->dwell;
		if (s->per_bin > 1 && !rise->is_censored && !found->items[i].is_head)
			r = refine(s, &found->items[i], rise);
		/* A close look may not reach as far as the next block. */
		rise->dwell = fmax(rise->dwell, dwell);
		rise->lost_mib = lost;
		rise->end = series_move(s, found->items[i].last).to;
		rise->gain_mib = found->items[i].gain;
		rise->gone = gone_at(s, &found->items[i]);
	}
	qsort(ret->items, ret->n, sizeof(ret->items[0]), compare_times);
	return r;
}

/* Those that began before the start-up may have ended are nobody's doing, or are they. */
static void mark_doubtful(const struct section *section, int64_t origin_ns, struct rise_list *list)
{
	const struct sample *loaded = &section->stream.samples[section->start.loaded];
	double until = (double)(loaded->timestamp_ns - origin_ns) / 1e9;

	for (size_t i = 0; section->start.is_doubtful && i < list->n; i++)
		if (list->items[i].onset.median < until)
			list->items[i].is_censored = list->items[i].may_load = true;
	if (!section->start.has_rest && !list->is_sawtooth && list->n > 0)
		list->items[0].is_censored = true;
}

/* A program that was started again surely loads: that is no rise. */
static void note_load(const struct section *section, int64_t origin_ns, struct rise_list *ret)
{
	const struct sample *samples = section->stream.samples,
			    *end = samples + section->start.begin;
	int64_t lowest = samples[0].used_bytes;

	if (section->is_again)
		return;
	for (const struct sample *s = samples; s < end; s++)
		lowest = s->used_bytes < lowest ? s->used_bytes : lowest;
	ret->loaded_mib = fmax((double)end->used_bytes - (double)lowest, 0) / SERIES_BYTES_PER_MIB;
	ret->loaded_until = (double)(end->timestamp_ns - origin_ns) / 1e9;
	ret->rested_mib = (double)end->used_bytes / SERIES_BYTES_PER_MIB;
}

/* A saw goes up by its teeth, which says nothing; what else goes up may be a rise. */
static void note_hidden(const struct series *s, struct rise_list *ret)
{
	struct shift shift;

	shift_find(s, ret->is_sawtooth, &shift);
	ret->hidden_mib = ret->is_sawtooth ? shift.most : fmax(shift.most, ret->climb_mib);
	ret->sure_mib = shift.least;
	ret->clear_mib = fmax(series_least_rise(s), SURE_SIGMAS * shift.sigma);
	ret->high_mib = s->high;
}

static int find_in_section(const struct section *section, int64_t origin_ns, struct rise_list *ret)
{
	CLEANUP(free_ptr) struct series *s = calloc(1, sizeof(*s));
	CLEANUP(free_ptr) struct run_list *found = calloc(1, sizeof(*found));
	double tooth;
	int r;

	if (!s || !found)
		return -ENOMEM;
	note_load(section, origin_ns, ret);
	ret->n_together = section->stream.n;
	s->stream = &section->stream;
	s->origin_ns = origin_ns;
	s->lo = s->begin = section->start.begin;
	s->hi = section->stream.n;
	r = series_cut(s);
	if (r < 0 || s->n_segments == 0)
		return r;
	series_find_runs(s, found);
	ret->sigma_mib = s->sigma;
	tooth = tooth_of(s, found);
	ret->is_sawtooth = tooth > 0;
	if (!ret->is_sawtooth)
		refill_drop(s, found);
	ret->climb_mib = climb_of(s);
	note_hidden(s, ret);
	r = take_runs(s, found, ret);
	blur_saw(ret, tooth);
	for (size_t i = 0; i < ret->n; i++) {
		ret->items[i].start =
			(double)(s->stream->samples[0].timestamp_ns - origin_ns) / 1e9;
		ret->items[i].born = (double)(section->born_ns - origin_ns) / 1e9;
	}
	mark_doubtful(section, origin_ns, ret);
	return r;
}

/* Adds those of a later section; a restart gives back all that was there before. */
static void append(struct rise_list *to, const struct rise_list *from, double restart)
{
	size_t least;

	for (size_t i = 0; i < to->n; i++)
		if (!(to->items[i].gone < restart)) {
			to->items[i].gone = restart;
			to->items[i].is_ended = true;
		}
	for (size_t i = 0; i < from->n; i++) {
		least = 0;
		for (size_t k = 1; k < to->n; k++)
			least = to->items[k].gain_mib < to->items[least].gain_mib ? k : least;
		if (to->n < RISES_MAX)
			to->items[to->n++] = from->items[i];
		else if (to->items[least].gain_mib < from->items[i].gain_mib)
			to->items[least] = from->items[i];
	}
	if (from->rested_mib > 0) {
		to->loaded_mib = from->loaded_mib;
		to->loaded_until = from->loaded_until;
		to->rested_mib = from->rested_mib;
	}
	to->is_sawtooth |= from->is_sawtooth;
	to->sigma_mib = fmax(to->sigma_mib, from->sigma_mib);
	to->climb_mib = fmax(to->climb_mib, from->climb_mib);
	to->hidden_mib = fmax(to->hidden_mib, from->hidden_mib);
	to->sure_mib = fmax(to->sure_mib, from->sure_mib);
	to->clear_mib = fmax(to->clear_mib, from->clear_mib);
	to->high_mib = fmax(to->high_mib, from->high_mib);
	to->n_together = from->n_together > to->n_together ? from->n_together : to->n_together;
}

/* A rise takes some kilobytes, and most ranks have few. */
static int keep(const struct rise_list *from, struct arena *arena, struct rise_list *ret)
{
	struct rise *items = NULL;

	if (from->n > 0) {
		items = arena_alloc(arena, from->n * sizeof(*items));
		if (!items)
			return -ENOMEM;
		memcpy(items, from->items, from->n * sizeof(*items));
	}
	*ret = *from;
	ret->items = items;
	return 0;
}

int rises_find(const struct section *sections, size_t n, int64_t origin_ns, struct arena *arena,
	       struct rise_list *ret)
{
	CLEANUP(free_ptr) struct rise *room = calloc(2 * RISES_MAX, sizeof(*room));
	struct rise_list all = { .items = room };
	int r = 0;

	if (!room)
		return -ENOMEM;
	if (n == 1)
		r = find_in_section(sections, origin_ns, &all);
	for (size_t i = 0; n > 1 && r == 0 && i < n; i++) {
		struct rise_list more = { .items = room + RISES_MAX };
		int64_t begin_ns = sections[i].stream.samples[0].timestamp_ns;

		memset(more.items, 0, RISES_MAX * sizeof(*room));
		r = find_in_section(&sections[i], origin_ns, &more);
		append(&all, &more, (double)(begin_ns - origin_ns) / 1e9);
	}
	if (all.n > 0)
		qsort(all.items, all.n, sizeof(all.items[0]), compare_times);
	return r < 0 ? r : keep(&all, arena, ret);
}
