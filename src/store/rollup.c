#include "store/rollup.h"

#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"

/* What has a sum, a least and a largest. */
struct gauge {
	unsigned word;
	size_t average; /* in struct sample_averages, or of a GPU in its sample */
};

/* GAUGE_rss_bytes and so on: the places in struct rollup_minute. */
enum sample_gauge {
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, ...) GAUGE_##member_ = gauge_,
#include "model/sample_fields.def"
};

static const struct gauge sample_gauges[SAMPLE_N_GAUGES] = {
#define SAMPLE_GAUGE(kind_, member_, ...) \
	[GAUGE_##member_] = { SAMPLE_##member_, offsetof(struct sample_averages, member_) },
#include "model/sample_fields.def"
};

static const struct gauge gpu_gauges[] = {
	{ GPU_UTILIZATION, offsetof(struct gpu_sample, utilization_pct) },
	{ GPU_MEMORY_USED, offsetof(struct gpu_sample, memory_used_mb) },
	{ GPU_TEMPERATURE, offsetof(struct gpu_sample, temperature_c) },
	{ GPU_POWER, offsetof(struct gpu_sample, power_watts) },
	{ GPU_CLOCK, offsetof(struct gpu_sample, sm_clock_mhz) },
};

/* Of words that are numbers with a point: they are added up as numbers of 1/scale. */
#define SCALE_U64 0
#define SCALE_MB 0
#define SCALE_F64 PERCENT_SCALE
static const double sample_scales[SAMPLE_WORDS] = {
#define SAMPLE_GAUGE(kind_, member_, ...) [SAMPLE_##member_] = SCALE_##kind_,
#include "model/sample_fields.def"
};
static const double gpu_scales[GPU_WORDS] = {
	[GPU_UTILIZATION] = PERCENT_SCALE,
	[GPU_MEMORY_USED] = MB_SCALE,
	[GPU_TEMPERATURE] = 100,
	[GPU_POWER] = POWER_SCALE,
	[GPU_CLOCK] = 1,
};

static const struct kind {
	unsigned n_words; /* of a sample */
	unsigned n_gauges;
	unsigned left_out;  /* the word that minutes do not have */
	bool is_told_apart; /* values that others nearly tell, see codec.c */
	const struct gauge *gauges;
	const double *scales; /* by word; 0: it is a number of whole things */
} kinds[] = {
	/* The start is by the clock of its tick: not here. */
	[ROLLUP_SAMPLES] = { SAMPLE_WORDS, SAMPLE_N_GAUGES, SAMPLE_START, true, sample_gauges,
			     sample_scales },
	[ROLLUP_GPUS] = { GPU_WORDS, ARRAY_SIZE(gpu_gauges), GPU_WORDS, false, gpu_gauges,
			  gpu_scales },
};

/*
 * A rollup: a table whose ticks are the minutes. Its columns begin with what a chunk has, so that
 * the same values are nearly told by others (codec.c). Gauges are kept by what is 0 in a minute in
 * which nothing changed.
 */
enum rollup_word {
	ROLLUP_N, /* behind the last values, which come first */
	ROLLUP_TICK,
	ROLLUP_GAUGE, /* GAUGE_WORDS for each */
};
enum gauge_word {
	GAUGE_MISSING, /* samples that did not know it; unknown, as the others: all of them */
	GAUGE_DOWN,    /* last - min */
	GAUGE_UP,      /* max - last */
	GAUGE_OVER,    /* sum - n * min */
	GAUGE_WORDS
};
#define WORDS(n_words_, n_gauges_) ((n_words_) + ROLLUP_GAUGE + (n_gauges_)*GAUGE_WORDS)

/* No clock: the share of CPU that was the last does not follow from minutes. */
static const uint64_t no_boot_ns[ROLLUP_MINUTES];

_Static_assert(WORDS(SAMPLE_WORDS, ROLLUP_GAUGES) <= TABLE_COLUMNS,
	       "a table has room for a rollup");

/* ---- adding samples ---- */

void rollup_init(struct rollup *rollup)
{
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++)
		rollup->minutes[i].n = 0;
}

/* A sample's value as minutes have it. */
static uint64_t minute_value(const struct kind *k, unsigned word, uint64_t v)
{
	if (word == k->left_out)
		return U64_UNKNOWN;
	return k->scales[word] > 0 ? word_to_scaled(v, k->scales[word]) : v;
}

unsigned rollup_find_run(const struct table *samples, unsigned from, const uint64_t *wall_ns,
			 uint64_t *ret_minute)
{
	uint64_t minute = wall_ns[samples->tick[from]] / MINUTE_NS;
	unsigned to = from + 1;

	while (to < samples->n && wall_ns[samples->tick[to]] / MINUTE_NS == minute)
		to++;
	*ret_minute = minute;
	return to;
}

void rollup_minute_add(struct rollup_minute *m, enum rollup_kind kind, const struct table *samples,
		       unsigned from, unsigned to, const int64_t *tick_ids)
{
	const struct kind *k = &kinds[kind];
	int64_t newest = tick_ids[samples->tick[to - 1]];
	bool is_newer;

	if (m->n == 0) {
		m->last_tick = 0;
		for (unsigned i = 0; i < SAMPLE_WORDS; i++)
			m->last[i] = U64_UNKNOWN;
		for (unsigned g = 0; g < ROLLUP_GAUGES; g++)
			m->gauges[g] = (struct rollup_gauge){ .min = U64_UNKNOWN };
	}
	is_newer = newest >= m->last_tick;
	m->n += to - from;
	m->last_tick = is_newer ? newest : m->last_tick;
	for (unsigned i = 0; i < k->n_words; i++) { /* the last that is known */
		uint64_t last = U64_UNKNOWN;

		for (unsigned row = to; row > from && !u64_known(last);)
			last = minute_value(k, i, samples->columns[i][--row]);
		if (u64_known(last) && (is_newer || !u64_known(m->last[i])))
			m->last[i] = last;
	}
	for (unsigned g = 0; g < k->n_gauges; g++) {
		struct rollup_gauge *gauge = &m->gauges[g];
		unsigned word = k->gauges[g].word;

		for (unsigned i = from; i < to; i++) {
			uint64_t v = minute_value(k, word, samples->columns[word][i]);

			if (!u64_known(v))
				continue;
			gauge->n++;
			gauge->sum = u64_add(gauge->sum, v);
			gauge->min = v < gauge->min ? v : gauge->min;
			gauge->max = v > gauge->max ? v : gauge->max;
		}
	}
}

/* ---- bytes ---- */

static void gauge_to_words(const struct kind *k, const struct rollup_minute *m, unsigned g,
			   uint64_t *ret)
{
	const struct rollup_gauge *gauge = &m->gauges[g];
	uint64_t last = m->last[k->gauges[g].word];
	bool is_known = gauge->n > 0;

	ret[GAUGE_MISSING] = is_known ? m->n - gauge->n : U64_UNKNOWN;
	ret[GAUGE_DOWN] = is_known ? last - gauge->min : U64_UNKNOWN;
	ret[GAUGE_UP] = is_known ? gauge->max - last : U64_UNKNOWN;
	ret[GAUGE_OVER] = is_known && u64_known(gauge->sum) ? gauge->sum - gauge->n * gauge->min
							    : U64_UNKNOWN;
}

/* -EBADMSG: no samples can have led to it. */
static int gauge_from_words(const struct kind *k, const uint64_t *words, struct rollup_minute *m,
			    unsigned g)
{
	struct rollup_gauge *gauge = &m->gauges[g];
	uint64_t last = m->last[k->gauges[g].word], least_sum;

	*gauge = (struct rollup_gauge){ .min = U64_UNKNOWN };
	if (!u64_known(words[GAUGE_MISSING]))
		return 0;
	if (words[GAUGE_MISSING] >= m->n)
		return -EBADMSG;
	gauge->n = m->n - words[GAUGE_MISSING];
	gauge->min = u64_delta(last, words[GAUGE_DOWN]);
	gauge->max = u64_add(last, words[GAUGE_UP]);
	if (!u64_known(gauge->min) || !u64_known(gauge->max))
		return -EBADMSG;
	gauge->sum = __builtin_mul_overflow(gauge->n, gauge->min, &least_sum)
			     ? U64_UNKNOWN
			     : u64_add(least_sum, words[GAUGE_OVER]);
	return 0;
}

/* Behind the last values. */
static uint64_t *column_of(const struct kind *k, struct table *t, unsigned word)
{
	return t->columns[k->n_words + word];
}

static void minute_to_row(const struct kind *k, const struct rollup_minute *m, struct table *t,
			  unsigned row)
{
	column_of(k, t, ROLLUP_N)[row] = m->n;
	column_of(k, t, ROLLUP_TICK)[row] = (uint64_t)m->last_tick;
	for (unsigned i = 0; i < k->n_words; i++)
		t->columns[i][row] = m->last[i];
	for (unsigned g = 0; g < k->n_gauges; g++) {
		uint64_t words[GAUGE_WORDS];

		gauge_to_words(k, m, g, words);
		for (unsigned i = 0; i < GAUGE_WORDS; i++)
			column_of(k, t, ROLLUP_GAUGE + g * GAUGE_WORDS + i)[row] = words[i];
	}
}

static int minute_from_row(const struct kind *k, struct table *t, unsigned row,
			   struct rollup_minute *m)
{
	m->n = column_of(k, t, ROLLUP_N)[row];
	m->last_tick = (int64_t)column_of(k, t, ROLLUP_TICK)[row];
	if (m->n == 0 || !u64_known(m->n) || m->last_tick < 0)
		return -EBADMSG;
	for (unsigned i = 0; i < k->n_words; i++)
		m->last[i] = t->columns[i][row];
	for (unsigned g = 0; g < k->n_gauges; g++) {
		uint64_t words[GAUGE_WORDS];

		for (unsigned i = 0; i < GAUGE_WORDS; i++)
			words[i] = column_of(k, t, ROLLUP_GAUGE + g * GAUGE_WORDS + i)[row];
		if (gauge_from_words(k, words, m, g) < 0)
			return -EBADMSG;
	}
	return 0;
}

static const uint64_t *clock_of(const struct kind *k)
{
	return k->is_told_apart ? no_boot_ns : NULL;
}

void rollup_write(struct buf *out, const struct rollup *rollup, enum rollup_kind kind,
		  struct table *t)
{
	const struct kind *k = &kinds[kind];

	t->n = 0;
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++) {
		if (rollup->minutes[i].n == 0)
			continue;
		t->tick[t->n] = (uint8_t)i;
		minute_to_row(k, &rollup->minutes[i], t, t->n++);
	}
	table_write(out, t, WORDS(k->n_words, k->n_gauges), clock_of(k));
}

ssize_t rollup_read(const void *data, size_t len, enum rollup_kind kind, struct table *t,
		    struct rollup *ret)
{
	const struct kind *k = &kinds[kind];
	ssize_t n = table_read(data, len, ROLLUP_MINUTES, WORDS(k->n_words, k->n_gauges),
			       clock_of(k), t);

	rollup_init(ret);
	for (unsigned i = 0; n >= 0 && i < t->n; i++)
		if (minute_from_row(k, t, i, &ret->minutes[t->tick[i]]) < 0)
			return -EBADMSG;
	return n;
}

/* ---- telling ---- */

/* ret: what the gauges of this kind have their averages in. */
static void tell_average(const struct rollup_gauge *sums, const struct kind *k, unsigned g,
			 void *ret)
{
	double *avg = (double *)((char *)ret + k->gauges[g].average);
	double scale = k->scales[k->gauges[g].word];

	*avg = sums->n == 0 || !u64_known(sums->sum)
		       ? F64_UNKNOWN
		       : (double)sums->sum / (double)sums->n / (scale > 0 ? scale : 1);
}

int rollup_minute_tell(const struct rollup_minute *m, struct minute_row *row)
{
	uint64_t min[SAMPLE_WORDS], max[SAMPLE_WORDS];

	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		min[k] = max[k] = U64_UNKNOWN;
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++) {
		const struct rollup_gauge *gauge = &m->gauges[g];

		tell_average(gauge, &kinds[ROLLUP_SAMPLES], g, &row->avg);
		if (gauge->n == 0)
			continue;
		min[sample_gauges[g].word] = gauge->min;
		max[sample_gauges[g].word] = gauge->max;
	}
	row->n_samples = m->n;
	proc_sample_init(&row->min);
	proc_sample_init(&row->max);
	if (sample_from_words(min, U64_UNKNOWN, &row->min) < 0 ||
	    sample_from_words(max, U64_UNKNOWN, &row->max) < 0)
		return -EBADMSG;
	return sample_from_words(m->last, U64_UNKNOWN, &row->last);
}

int rollup_minute_tell_gpu(const struct rollup_minute *m, struct gpu_sample *ret)
{
	int r = gpu_from_words(m->last, ret);

	for (unsigned g = 0; g < ARRAY_SIZE(gpu_gauges); g++)
		tell_average(&m->gauges[g], &kinds[ROLLUP_GPUS], g, ret);
	return r;
}
