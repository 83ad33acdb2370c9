#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/rollup.h"

#define MAX_FOLDS 40
#define FIRST_NS (UINT64_C(472222) * HOUR_NS)

static uint64_t random_u64(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(uint64_t *seed, uint64_t n)
{
	return random_u64(seed) % n;
}

/* A fold's table of one process, with what the head says of its ticks. */
struct made_fold {
	struct table samples;
	int64_t ids[CODEC_ROWS];
	uint64_t wall_ns[CODEC_ROWS];
};

/* Whether a test lets a sample be anything, or what a process could have. */
enum wildness { TAME, WILD };

static uint64_t make_value(enum wildness wildness, unsigned word, uint64_t *seed)
{
	if (below(seed, 8) == 0)
		return U64_UNKNOWN;
	if (wildness == WILD && below(seed, 4) == 0)
		return random_u64(seed) >> below(seed, 64);
	if (word == SAMPLE_state)
		return (uint64_t) "RSDZT"[below(seed, 5)];
	return below(seed, 3) ? below(seed, UINT64_C(1) << 40) : 7;
}

/* The fold's ticks, of which the process is there at some. */
static void make_fold(struct made_fold *f, enum wildness wildness, int64_t *id, uint64_t *now_ns,
		      uint64_t *seed)
{
	unsigned n = 1 + (unsigned)below(seed, CODEC_ROWS);
	uint64_t interval_ns = 100000000 + below(seed, UINT64_C(20000000000));

	f->samples.n = 0;
	for (unsigned i = 0; i < n; i++) {
		f->ids[i] = ++*id;
		*now_ns += interval_ns;
		if (below(seed, 50) == 0)
			*now_ns -= below(seed, 4 * HOUR_NS); /* the clock is set back */
		f->wall_ns[i] = *now_ns;
		if (i > 0 && below(seed, 10) == 0)
			continue;
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			f->samples.columns[k][f->samples.n] = make_value(wildness, k, seed);
		f->samples.tick[f->samples.n++] = (uint8_t)i;
	}
}

/* ---- the naive way: for each minute all samples once more ---- */

static const unsigned gauge_words[ROLLUP_GAUGES] = {
#define SAMPLE_GAUGE(kind_, member_, key_, word_, gauge_, ...) [gauge_] = word_,
#include "model/sample_fields.def"
};

struct naive {
	uint64_t n, n_known, min, max, last;
	unsigned __int128 sum;
	int64_t last_tick, newest;
};

static uint64_t naive_value(unsigned word, uint64_t v)
{
	double percent;

	if ((word != SAMPLE_cpu_percent && word != SAMPLE_gpu_percent) || v < UINT64_C(1) << 60 ||
	    v == U64_UNKNOWN)
		return v;
	memcpy(&percent, &v, sizeof(v));
	return percent >= 0 && percent < 9e13 ? (uint64_t)floor(percent * 100 + 0.5) : U64_UNKNOWN;
}

static void naive_add(struct naive *sum, uint64_t v, int64_t id)
{
	sum->n++;
	sum->newest = id > sum->newest ? id : sum->newest;
	if (v == U64_UNKNOWN)
		return;
	sum->n_known++;
	sum->sum += v;
	sum->min = v < sum->min ? v : sum->min;
	sum->max = v > sum->max ? v : sum->max;
	if (id > sum->last_tick) {
		sum->last_tick = id;
		sum->last = v;
	}
}

static struct naive compute(const struct made_fold *folds, unsigned n_folds, uint64_t minute,
			    unsigned word)
{
	struct naive sum = { .min = UINT64_MAX, .last = U64_UNKNOWN };

	for (unsigned f = 0; f < n_folds; f++)
		for (unsigned i = 0; i < folds[f].samples.n; i++) {
			unsigned tick = folds[f].samples.tick[i];

			if (folds[f].wall_ns[tick] / 60000000000 == minute)
				naive_add(&sum,
					  naive_value(word, folds[f].samples.columns[word][i]),
					  folds[f].ids[tick]);
		}
	return sum;
}

static void check_gauge(const struct rollup_gauge *gauge, const struct naive *want)
{
	assert_int_equal(gauge->n, want->n_known);
	if (want->n_known == 0)
		return;
	assert_int_equal(gauge->min, want->min);
	assert_int_equal(gauge->max, want->max);
	if (want->sum < UINT64_MAX)
		assert_true(gauge->sum == want->sum);
	else
		assert_false(u64_known(gauge->sum));
}

/* in_order: what was known last is right only then. */
static void check_minute(const struct rollup_minute *m, const struct made_fold *folds,
			 unsigned n_folds, uint64_t minute, bool in_order)
{
	struct naive n = compute(folds, n_folds, minute, SAMPLE_state);

	assert_int_equal(m->n, n.n);
	if (n.n == 0)
		return;
	assert_int_equal(m->last_tick, n.newest);
	for (unsigned k = 1; in_order && k < SAMPLE_WORDS; k++)
		assert_int_equal(m->last[k], compute(folds, n_folds, minute, k).last);
	for (unsigned g = 0; g < ROLLUP_GAUGES; g++) {
		struct naive want = compute(folds, n_folds, minute, gauge_words[g]);

		check_gauge(&m->gauges[g], &want);
	}
}

/* ---- hours, as retention makes them ---- */

#define N_HOURS 64 /* from 32 before FIRST_NS */

static struct rollup *hour_of(struct rollup *hours, uint64_t minute)
{
	uint64_t hour = minute / 60 - (FIRST_NS / HOUR_NS - N_HOURS / 2);

	assert_in_range(hour, 0, N_HOURS - 1);
	return &hours[hour];
}

/* To bytes and back: each time a fold is added, as the database does. */
static void store_again(struct rollup *rollup)
{
	static struct table t;
	static struct rollup back;
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;

	rollup_write(&bytes, rollup, ROLLUP_SAMPLES, &t);
	assert_int_equal(buf_error(&bytes), 0);
	assert_true(rollup_read(bytes.data, bytes.len, ROLLUP_SAMPLES, &t, &back) > 0);
	for (unsigned i = 0; i < ROLLUP_MINUTES; i++) {
		assert_int_equal(back.minutes[i].n, rollup->minutes[i].n);
		if (back.minutes[i].n > 0)
			rollup->minutes[i] = back.minutes[i];
	}
}

static void add_fold(struct rollup *hours, const struct made_fold *f)
{
	uint64_t minute;

	for (unsigned from = 0, to; from < f->samples.n; from = to) {
		to = rollup_find_run(&f->samples, from, f->wall_ns, &minute);
		assert_in_range(to, from + 1, f->samples.n);
		rollup_minute_add(&hour_of(hours, minute)->minutes[minute % 60], ROLLUP_SAMPLES,
				  &f->samples, from, to, f->ids);
		store_again(hour_of(hours, minute));
	}
}

static void shuffle(unsigned *order, unsigned n, uint64_t *seed)
{
	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = n; i > 1; i--) {
		unsigned k = (unsigned)below(seed, i), held = order[k];

		order[k] = order[i - 1];
		order[i - 1] = held;
	}
}

static void check_all(struct rollup *hours, const struct made_fold *folds, unsigned n_folds,
		      bool in_order)
{
	uint64_t first = (FIRST_NS / HOUR_NS - N_HOURS / 2) * 60;

	for (uint64_t minute = first; minute < first + N_HOURS * 60; minute++)
		check_minute(&hour_of(hours, minute)->minutes[minute % 60], folds, n_folds, minute,
			     in_order);
}

static void check_round(enum wildness wildness, bool in_order, uint64_t *seed)
{
	static struct made_fold folds[MAX_FOLDS];
	static struct rollup hours[N_HOURS];
	unsigned order[MAX_FOLDS], n_folds = 1 + (unsigned)below(seed, 4);
	uint64_t now_ns = FIRST_NS;
	int64_t id = 0;

	for (unsigned i = 0; i < N_HOURS; i++)
		rollup_init(&hours[i]);
	for (unsigned i = 0; i < n_folds; i++)
		make_fold(&folds[i], wildness, &id, &now_ns, seed);
	shuffle(order, n_folds, seed);
	for (unsigned i = 0; i < n_folds; i++)
		add_fold(hours, &folds[in_order ? i : order[i]]);
	check_all(hours, folds, n_folds, in_order);
}

/* Minutes that straddle folds, unknown values, gaps, a clock that is set back. */
static void test_against_naive_sums(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 40; i++) {
		check_round(TAME, true, &seed);
		check_round(TAME, false, &seed);
	}
}

/* Sums that do not fit, shares of CPU that are no number of 1/100. */
static void test_values_that_make_no_sense(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int i = 0; i < 20; i++) {
		check_round(WILD, true, &seed);
		check_round(WILD, false, &seed);
	}
}

/* ---- what a caller sees ---- */

static struct made_fold *one_minute(unsigned n)
{
	static struct made_fold f;

	f.samples.n = n;
	for (unsigned i = 0; i < n; i++) {
		f.samples.tick[i] = (uint8_t)i;
		f.ids[i] = 100 + i;
		f.wall_ns[i] = FIRST_NS + i;
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			f.samples.columns[k][i] = U64_UNKNOWN;
	}
	return &f;
}

static void test_a_row_is_told(void **state)
{
	struct made_fold *f = one_minute(4);
	struct rollup_minute m = { 0 };
	struct minute_row row = { 0 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		f->samples.columns[SAMPLE_rss_bytes][i] = 4096 << i;
		f->samples.columns[SAMPLE_cpu_percent][i] = 1000 * (i + 1);
		f->samples.columns[SAMPLE_user_ns][i] = 50 * i;
		f->samples.columns[SAMPLE_threads][i] = i == 1 ? U64_UNKNOWN : i + 1;
	}
	f->samples.columns[SAMPLE_state][3] = 'Z';
	proc_sample_init(&row.last);
	row.last.key.pid = 7;
	rollup_minute_add(&m, ROLLUP_SAMPLES, &f->samples, 0, 4, f->ids);
	assert_int_equal(rollup_minute_tell(&m, &row), 0);
	assert_int_equal(row.n_samples, 4);
	assert_true(row.avg.rss_bytes == 4096.0 * 7 / 3);
	assert_int_equal(row.min.rss_bytes, 4096);
	assert_int_equal(row.max.rss_bytes, 16384);
	assert_int_equal(row.last.rss_bytes, 16384);
	assert_true(row.avg.cpu_percent == 20.0 && row.min.cpu_percent == 10.0);
	assert_true(row.max.cpu_percent == 30.0 && row.last.cpu_percent == 30.0);
	assert_true(row.avg.threads == 2.0);
	assert_int_equal(row.last.user_ns, 100);
	assert_false(u64_known(row.max.user_ns));
	assert_int_equal(row.last.state, 'Z');
	assert_int_equal(row.last.key.pid, 7);
	assert_true(isnan(row.avg.vms_bytes) && isnan(row.last.age_seconds));
	assert_false(u64_known(row.max.vms_bytes));
	assert_false(u64_known(row.last.vms_bytes));
}

/* Bytes that samples cannot have led to are refused, wherever they are wrong. */
static void test_damage(void **state)
{
	static struct rollup rollup, back;
	static struct table t;
	CLEANUP(buf_release) struct buf bytes = BUF_INIT;
	struct made_fold *f = one_minute(4);

	(void)state;
	f->samples.columns[SAMPLE_rss_bytes][0] = 10;
	f->samples.columns[SAMPLE_rss_bytes][3] = 5;
	rollup_init(&rollup);
	rollup_minute_add(&rollup.minutes[3], ROLLUP_SAMPLES, &f->samples, 0, 4, f->ids);
	rollup_write(&bytes, &rollup, ROLLUP_SAMPLES, &t);
	assert_true(rollup_read(bytes.data, bytes.len, ROLLUP_SAMPLES, &t, &back) > 0);
	for (size_t n = 0; n < bytes.len; n++)
		assert_int_equal(rollup_read(bytes.data, n, ROLLUP_SAMPLES, &t, &back), -EBADMSG);

	rollup.minutes[3].gauges[1].n = 6; /* of four */
	buf_reset(&bytes);
	rollup_write(&bytes, &rollup, ROLLUP_SAMPLES, &t);
	assert_int_equal(rollup_read(bytes.data, bytes.len, ROLLUP_SAMPLES, &t, &back), -EBADMSG);
	rollup.minutes[3].gauges[1].n = 2;
	rollup.minutes[3].gauges[1].min = UINT64_C(1) << 63; /* above the last */
	buf_reset(&bytes);
	rollup_write(&bytes, &rollup, ROLLUP_SAMPLES, &t);
	assert_int_equal(rollup_read(bytes.data, bytes.len, ROLLUP_SAMPLES, &t, &back), -EBADMSG);
}

/* An hour of a process with two samples, of which the GPU's values are these. */
static void roll_two(uint64_t gpu_bytes, uint64_t gpu_percent, struct buf *out,
		     struct minute_row *row)
{
	static struct made_fold f;
	static struct rollup rollup, back;
	static struct table t;

	f.samples.n = 2;
	for (unsigned i = 0; i < 2; i++) {
		f.samples.tick[i] = (uint8_t)i;
		f.ids[i] = i + 1;
		f.wall_ns[i] = FIRST_NS + i;
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			f.samples.columns[k][i] = k == SAMPLE_state ? 'S' : 7;
		f.samples.columns[SAMPLE_gpu_memory_bytes][i] = gpu_bytes << i;
		f.samples.columns[SAMPLE_gpu_percent][i] = gpu_percent;
		if (gpu_bytes == U64_UNKNOWN)
			f.samples.columns[SAMPLE_gpu_memory_bytes][i] = U64_UNKNOWN;
	}
	rollup_init(&rollup);
	rollup_minute_add(&rollup.minutes[0], ROLLUP_SAMPLES, &f.samples, 0, 2, f.ids);
	rollup_write(out, &rollup, ROLLUP_SAMPLES, &t);
	assert_true(rollup_read(out->data, out->len, ROLLUP_SAMPLES, &t, &back) > 0);
	*row = (struct minute_row){ 0 };
	proc_sample_init(&row->last);
	assert_int_equal(rollup_minute_tell(&back.minutes[0], row), 0);
}

/* Most processes use none. */
static void test_gpu(void **state)
{
	CLEANUP(buf_release) struct buf without = BUF_INIT;
	CLEANUP(buf_release) struct buf with = BUF_INIT;
	struct minute_row row;

	(void)state;
	roll_two(U64_UNKNOWN, U64_UNKNOWN, &without, &row);
	assert_true(isnan(row.avg.gpu_memory_bytes) && isnan(row.avg.gpu_percent));
	assert_true(row.max.gpu_memory_bytes == U64_UNKNOWN);
	roll_two(1000, 4250, &with, &row);
	assert_true(row.avg.gpu_memory_bytes == 1500);
	assert_true(row.min.gpu_memory_bytes == 1000 && row.max.gpu_memory_bytes == 2000);
	assert_true(row.last.gpu_memory_bytes == 2000);
	assert_true(row.avg.gpu_percent == 42.5 && row.max.gpu_percent == 42.5);
	assert_true(with.len > without.len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpu),
		cmocka_unit_test(test_against_naive_sums),
		cmocka_unit_test(test_values_that_make_no_sense),
		cmocka_unit_test(test_a_row_is_told),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
