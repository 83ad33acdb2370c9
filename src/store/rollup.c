#include "store/rollup.h"

#include <errno.h>

#include "base/macros.h"
#include "base/unknown.h"

/*
 * What has a sum, a least and a largest. A share of CPU or GPU is a number of 1/100 %. Those from
 * GAUGES_WITHOUT_GPU on are kept only where there is something to keep.
 */
#define GAUGES_WITHOUT_GPU 10
static const struct {
	enum sample_word word;
	double scale;
	size_t average; /* in struct sample_averages */
} gauges[ROLLUP_GAUGES] = {
	{ SAMPLE_CPU_PERCENT, 100, offsetof(struct sample_averages, cpu_percent) },
	{ SAMPLE_RSS_BYTES, 1, offsetof(struct sample_averages, rss_bytes) },
	{ SAMPLE_ANON_BYTES, 1, offsetof(struct sample_averages, rss_anon_bytes) },
	{ SAMPLE_FILE_BYTES, 1, offsetof(struct sample_averages, rss_file_bytes) },
	{ SAMPLE_SHMEM_BYTES, 1, offsetof(struct sample_averages, rss_shmem_bytes) },
	{ SAMPLE_HWM_BYTES, 1, offsetof(struct sample_averages, hwm_bytes) },
	{ SAMPLE_VMS_BYTES, 1, offsetof(struct sample_averages, vms_bytes) },
	{ SAMPLE_SWAP_BYTES, 1, offsetof(struct sample_averages, swap_bytes) },
	{ SAMPLE_THREADS, 1, offsetof(struct sample_averages, threads) },
	{ SAMPLE_OPEN_FDS, 1, offsetof(struct sample_averages, open_fds) },
	{ SAMPLE_GPU_BYTES, 1, offsetof(struct sample_averages, gpu_memory_bytes) },
	{ SAMPLE_GPU_PERCENT, 100, offsetof(struct sample_averages, gpu_percent) },
};

/*
 * The columns of a rollup's table; its ticks are the minutes. First comes what a chunk
 * has, so that the same values are nearly told by others (codec_table.c). Gauges are
 * kept by what is 0 in a minute in which nothing changed. Without those of GPUs that is all;
 * with them WITH_GPU stands before it, which is no version of a table.
 */
#define WITH_GPU 0xff
enum rollup_word {
	ROLLUP_LAST, /* SAMPLE_WORDS of them */
	ROLLUP_N = SAMPLE_WORDS,
	ROLLUP_TICK,
	ROLLUP_GAUGE, /* GAUGE_WORDS for each */
};
enum gauge_word {
	GAUGE_MISSING, /* samples that did not know it */
	GAUGE_DOWN,    /* last - min */
	GAUGE_UP,      /* max - last */
	GAUGE_OVER,    /* sum - n * min */
	GAUGE_WORDS
};
#define ROLLUP_WORDS (ROLLUP_GAUGE + ROLLUP_GAUGES * GAUGE_WORDS)
#define ROLLUP_WORDS_WITHOUT_GPU (ROLLUP_GAUGE + GAUGES_WITHOUT_GPU * GAUGE_WORDS)

/* No clock: the share of CPU that was the last does not follow from minutes. */
static const uint64_t no_boot_ns[ROLLUP_MINUTES];

_Static_assert(ROLLUP_WORDS <= TABLE_COLUMNS, "a table has room for a rollup");

/* ---- adding samples ---- */

void rollup_init(struct rollup *rollup)
{
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++)
		rollup->minutes[i].n = 0;
}

static void begin_minute(struct rollup_minute *m)
{
	m->last_tick = 0;
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		m->last[k] = U64_UNKNOWN;
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++)
		m->gauges[g] = (struct rollup_gauge){ .min = U64_UNKNOWN };
}

/* A sample's value as minutes have it. The start is told by the clock of its tick: not here. */
static uint64_t minute_value(enum sample_word word, uint64_t v)
{
	if (word == SAMPLE_START)
		return U64_UNKNOWN;
	if (word == SAMPLE_CPU_PERCENT || word == SAMPLE_GPU_PERCENT)
		return percent_to_hundredths(v);
	return v;
}

static void add_to_gauge(struct rollup_gauge *gauge, enum sample_word word, const uint64_t *column,
			 unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		uint64_t v = minute_value(word, column[i]);

		if (!u64_known(v))
			continue;
		gauge->n++;
		gauge->sum = u64_add(gauge->sum, v);
		gauge->min = v < gauge->min ? v : gauge->min;
		gauge->max = v > gauge->max ? v : gauge->max;
	}
}

static uint64_t last_known(enum sample_word word, const uint64_t *column, unsigned from,
			   unsigned to)
{
	while (to > from) {
		uint64_t v = minute_value(word, column[--to]);

		if (u64_known(v))
			return v;
	}
	return U64_UNKNOWN;
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

void rollup_minute_add(struct rollup_minute *m, const struct table *samples, unsigned from,
		       unsigned to, const int64_t *tick_ids)
{
	int64_t newest = tick_ids[samples->tick[to - 1]];
	bool is_newer;

	if (m->n == 0)
		begin_minute(m);
	is_newer = newest >= m->last_tick;
	m->n += to - from;
	m->last_tick = is_newer ? newest : m->last_tick;
	for (unsigned k = 0; k < SAMPLE_WORDS; k++) {
		uint64_t v = last_known(k, samples->columns[k], from, to);

		if (u64_known(v) && (is_newer || !u64_known(m->last[k])))
			m->last[k] = v;
	}
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++)
		add_to_gauge(&m->gauges[g], gauges[g].word, samples->columns[gauges[g].word], from,
			     to);
}

/* ---- bytes ---- */

static void gauge_to_words(const struct rollup_minute *m, unsigned g, uint64_t *ret)
{
	const struct rollup_gauge *gauge = &m->gauges[g];
	uint64_t last = m->last[gauges[g].word];
	bool is_known = gauge->n > 0;

	ret[GAUGE_MISSING] = m->n - gauge->n;
	ret[GAUGE_DOWN] = is_known ? last - gauge->min : U64_UNKNOWN;
	ret[GAUGE_UP] = is_known ? gauge->max - last : U64_UNKNOWN;
	ret[GAUGE_OVER] = is_known && u64_known(gauge->sum) ? gauge->sum - gauge->n * gauge->min
							    : U64_UNKNOWN;
}

/* -EBADMSG: no samples can have led to it. */
static int gauge_from_words(const uint64_t *words, struct rollup_minute *m, unsigned g)
{
	struct rollup_gauge *gauge = &m->gauges[g];
	uint64_t last = m->last[gauges[g].word], least_sum;

	if (words[GAUGE_MISSING] > m->n)
		return -EBADMSG;
	*gauge = (struct rollup_gauge){ .n = m->n - words[GAUGE_MISSING], .min = U64_UNKNOWN };
	if (gauge->n == 0)
		return 0;
	gauge->min = u64_delta(last, words[GAUGE_DOWN]);
	gauge->max = u64_add(last, words[GAUGE_UP]);
	if (!u64_known(gauge->min) || !u64_known(gauge->max))
		return -EBADMSG;
	gauge->sum = __builtin_mul_overflow(gauge->n, gauge->min, &least_sum)
			     ? U64_UNKNOWN
			     : u64_add(least_sum, words[GAUGE_OVER]);
	return 0;
}

static void minute_to_row(const struct rollup_minute *m, struct table *t, unsigned row)
{
	t->columns[ROLLUP_N][row] = m->n;
	t->columns[ROLLUP_TICK][row] = (uint64_t)m->last_tick;
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		t->columns[ROLLUP_LAST + k][row] = m->last[k];
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++) {
		uint64_t words[GAUGE_WORDS];

		gauge_to_words(m, g, words);
		for (unsigned k = 0; k < GAUGE_WORDS; k++)
			t->columns[ROLLUP_GAUGE + g * GAUGE_WORDS + k][row] = words[k];
	}
}

static int minute_from_row(const struct table *t, unsigned row, struct rollup_minute *m)
{
	m->n = t->columns[ROLLUP_N][row];
	m->last_tick = (int64_t)t->columns[ROLLUP_TICK][row];
	if (m->n == 0 || !u64_known(m->n) || m->last_tick < 0)
		return -EBADMSG;
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		m->last[k] = t->columns[ROLLUP_LAST + k][row];
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++) {
		uint64_t words[GAUGE_WORDS];

		for (unsigned k = 0; k < GAUGE_WORDS; k++)
			words[k] = t->columns[ROLLUP_GAUGE + g * GAUGE_WORDS + k][row];
		if (gauge_from_words(words, m, g) < 0)
			return -EBADMSG;
	}
	return 0;
}

static bool used_gpu(const struct rollup *rollup)
{
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++)
		for (unsigned g = GAUGES_WITHOUT_GPU; g < ROLLUP_GAUGES; g++)
			if (rollup->minutes[i].n > 0 && rollup->minutes[i].gauges[g].n > 0)
				return true;
	return false;
}

void rollup_write(struct buf *out, const struct rollup *rollup, struct table *t)
{
	bool has_gpu = used_gpu(rollup);

	t->n = 0;
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++) {
		if (rollup->minutes[i].n == 0)
			continue;
		t->tick[t->n] = (uint8_t)i;
		minute_to_row(&rollup->minutes[i], t, t->n++);
	}
	if (has_gpu)
		buf_add_char(out, (char)WITH_GPU);
	table_write(out, t, has_gpu ? ROLLUP_WORDS : ROLLUP_WORDS_WITHOUT_GPU, no_boot_ns);
}

/* As if they had been there: no sample knew them. */
static void add_no_gpu(struct table *t)
{
	for (unsigned i = 0; i < t->n; i++)
		for (unsigned g = GAUGES_WITHOUT_GPU; g < ROLLUP_GAUGES; g++)
			t->columns[ROLLUP_GAUGE + g * GAUGE_WORDS + GAUGE_MISSING][i] =
				t->columns[ROLLUP_N][i];
}

static int read_table(const uint8_t *data, size_t len, struct table *t)
{
	bool has_gpu = len > 0 && data[0] == WITH_GPU;
	unsigned n_words = has_gpu ? ROLLUP_WORDS : ROLLUP_WORDS_WITHOUT_GPU;

	if (table_read(data + has_gpu, len - has_gpu, ROLLUP_MINUTES, n_words, no_boot_ns, t) < 0)
		return -EBADMSG;
	if (!has_gpu)
		add_no_gpu(t);
	return 0;
}

int rollup_read(const void *data, size_t len, struct table *t, struct rollup *ret)
{
	rollup_init(ret);
	if (read_table(data, len, t) < 0)
		return -EBADMSG;
	for (unsigned i = 0; i < t->n; i++)
		if (minute_from_row(t, i, &ret->minutes[t->tick[i]]) < 0)
			return -EBADMSG;
	return 0;
}

/* ---- telling ---- */

static void tell_average(const struct rollup_gauge *gauge, unsigned g, struct sample_averages *ret)
{
	double *avg = (double *)((char *)ret + gauges[g].average);

	*avg = gauge->n == 0 || !u64_known(gauge->sum)
		       ? F64_UNKNOWN
		       : (double)gauge->sum / (double)gauge->n / gauges[g].scale;
}

int rollup_minute_tell(const struct rollup_minute *m, struct minute_row *row)
{
	uint64_t min[SAMPLE_WORDS], max[SAMPLE_WORDS];

	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		min[k] = max[k] = U64_UNKNOWN;
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++) {
		const struct rollup_gauge *gauge = &m->gauges[g];

		tell_average(gauge, g, &row->avg);
		if (gauge->n == 0)
			continue;
		min[gauges[g].word] = gauge->min;
		max[gauges[g].word] = gauge->max;
	}
	row->n_samples = m->n;
	proc_sample_init(&row->min);
	proc_sample_init(&row->max);
	if (sample_from_words(min, U64_UNKNOWN, &row->min) < 0 ||
	    sample_from_words(max, U64_UNKNOWN, &row->max) < 0)
		return -EBADMSG;
	return sample_from_words(m->last, U64_UNKNOWN, &row->last);
}
