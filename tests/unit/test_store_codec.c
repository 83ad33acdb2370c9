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
#include "store/codec.h"

#define N_ROUNDS 3000

/* ---- numbers that are the same in every run ---- */

static uint64_t random_u64(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

/* How a column goes on after v. */
typedef uint64_t go_on_fn(uint64_t v, uint64_t *seed);

static uint64_t go_constant(uint64_t v, uint64_t *seed)
{
	(void)seed;
	return v;
}

static uint64_t go_unknown(uint64_t v, uint64_t *seed)
{
	(void)v;
	(void)seed;
	return U64_UNKNOWN;
}

static uint64_t go_wild(uint64_t v, uint64_t *seed)
{
	(void)v;
	return random_u64(seed) >> random_u64(seed) % 64;
}

static uint64_t go_steadily(uint64_t v, uint64_t *seed)
{
	(void)seed;
	return v + 10000000;
}

static uint64_t go_in_bursts(uint64_t v, uint64_t *seed)
{
	return random_u64(seed) % 3 ? v : v + 4096 * (random_u64(seed) % 100000);
}

static uint64_t go_down(uint64_t v, uint64_t *seed)
{
	return v - random_u64(seed) % 1000;
}

static uint64_t go_with_gaps(uint64_t v, uint64_t *seed)
{
	(void)v;
	return random_u64(seed) % 4 ? random_u64(seed) % 1000 : U64_UNKNOWN;
}

static uint64_t go_to_limits(uint64_t v, uint64_t *seed)
{
	static const uint64_t limits[] = {
		0, 1, FD_LIMIT_UNLIMITED, U64_UNKNOWN, INT64_MAX, UINT64_C(1) << 63, 1 << 30,
	};

	(void)v;
	return limits[random_u64(seed) % ARRAY_SIZE(limits)];
}

static go_on_fn *const ways[] = {
	go_constant,  go_unknown, go_wild,	go_steadily,
	go_in_bursts, go_down,	  go_with_gaps, go_to_limits,
};

static void fill_column(uint64_t *column, unsigned n, uint64_t *seed)
{
	go_on_fn *go_on = ways[random_u64(seed) % ARRAY_SIZE(ways)];
	uint64_t v = random_u64(seed) >> random_u64(seed) % 64;

	for (unsigned i = 0; i < n; i++)
		column[i] = v = go_on(v, seed);
}

/* A process that is there at every tick, or at some of them; at least at one. */
static void fill_chunk(struct chunk *c, unsigned n_ticks, uint64_t *seed)
{
	uint64_t rarity = 1 + random_u64(seed) % 5;

	c->n = 0;
	for (unsigned i = 0; i < n_ticks; i++)
		if (random_u64(seed) % rarity == 0)
			c->tick[c->n++] = (uint8_t)i;
	if (c->n == 0)
		c->tick[c->n++] = (uint8_t)(n_ticks - 1);
	for (unsigned k = 0; k < SAMPLE_WORDS; k++)
		fill_column(c->columns[k], c->n, seed);
}

static void assert_chunk(const struct chunk *a, const struct chunk *b, unsigned n_words)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->tick, b->tick, a->n);
	for (unsigned k = 0; k < n_words; k++)
		assert_memory_equal(a->columns[k], b->columns[k], a->n * sizeof(uint64_t));
}

/* In memory of exactly its size, so that AddressSanitizer sees one byte too many. */
static void *exact_bytes(const struct buf *b, size_t len)
{
	void *copy = malloc(len > 0 ? len : 1);

	assert_non_null(copy);
	return memcpy(copy, b->data, len);
}

static void *exact_copy(const struct buf *b)
{
	return exact_bytes(b, b->len);
}

/* ---- chunks ---- */

static void test_chunks_come_back(void **state)
{
	static struct chunk c, back;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < N_ROUNDS; round++) {
		unsigned n_ticks = 1 + (unsigned)(random_u64(&seed) % CODEC_ROWS);
		CLEANUP(free_ptr) void *copy = NULL;
		uint64_t boot_ns[CODEC_ROWS];

		fill_column(boot_ns, n_ticks, &seed);
		fill_chunk(&c, n_ticks, &seed);
		buf_reset(&out);
		chunk_write(&out, &c, boot_ns);
		assert_int_equal(buf_error(&out), 0);
		copy = exact_copy(&out);
		assert_int_equal(chunk_read(copy, out.len, boot_ns, n_ticks, SAMPLE_WORDS, &back),
				 0);
		assert_chunk(&c, &back, SAMPLE_WORDS);
		memset(&back, 0, sizeof(back));
		assert_int_equal(chunk_read(copy, out.len, boot_ns, n_ticks, 10, &back), 0);
		assert_chunk(&c, &back, 10);
	}
}

/* A process that sleeps costs a few bytes per chunk. */
static void test_idle_chunks_are_small(void **state)
{
	static struct chunk c;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	uint64_t boot_ns[CODEC_ROWS];

	(void)state;
	c.n = CODEC_ROWS;
	for (unsigned i = 0; i < CODEC_ROWS; i++) {
		boot_ns[i] = i * UINT64_C(5000000000);
		c.tick[i] = (uint8_t)i;
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			c.columns[k][i] = 4096 * k;
		c.columns[SAMPLE_BOOT_NS][i] = boot_ns[i] + 12345;
		c.columns[SAMPLE_AGE][i] = boot_ns[i] + 12345 - 777;
	}
	chunk_write(&out, &c, boot_ns);
	assert_in_range(out.len, 1, CODEC_ROWS + 30); /* about one per row */
}

/* Whatever is done to the bytes: an error or other numbers, nothing else. */
static void test_damaged_chunks_are_survived(void **state)
{
	static struct chunk c, back;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const uint64_t boot_ns[CODEC_ROWS] = { 0 };
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < N_ROUNDS; round++) {
		CLEANUP(free_ptr) uint8_t *copy = NULL;
		size_t len;

		fill_chunk(&c, CODEC_ROWS, &seed);
		buf_reset(&out);
		chunk_write(&out, &c, boot_ns);
		len = random_u64(&seed) % out.len;
		copy = exact_bytes(&out, len + 1);
		assert_int_equal(chunk_read(copy, 0, boot_ns, 120, SAMPLE_WORDS, &back), -EBADMSG);
		assert_int_equal(chunk_read(copy, len, boot_ns, 120, SAMPLE_WORDS, &back),
				 -EBADMSG);
		for (int i = 0; i < 4; i++)
			copy[random_u64(&seed) % (len + 1)] ^=
				(uint8_t)(1 << random_u64(&seed) % 8);
		chunk_read(copy, len + 1, boot_ns, 120, SAMPLE_WORDS, &back);
		assert_true(chunk_read(copy, len + 1, boot_ns, 120, SAMPLE_WORDS, &back) < 0 ||
			    back.n <= CODEC_ROWS);
	}
}

/* ---- ticks ---- */

static void random_sample(struct proc_sample *p, uint64_t *seed)
{
	uint64_t words[SAMPLE_WORDS];

	proc_sample_init(p);
	do
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			fill_column(&words[k], 1, seed);
	while (sample_from_words(words, p) < 0);
}

static void test_ticks_come_back(void **state)
{
	static struct proc_sample samples[40];
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	uint64_t seed = 3, want[SAMPLE_WORDS];

	(void)state;
	snapshot_init(&snap);
	for (int round = 0; round < 300; round++) {
		size_t n = random_u64(&seed) % ARRAY_SIZE(samples);
		struct series_point point = { .wall_ns = random_u64(&seed), .cpu_percent = 0.1 };
		CLEANUP(free_ptr) void *copy = NULL;
		struct tick_head head;
		struct tick_reader r;

		snap.boot_ns = random_u64(&seed);
		snap.pressure_level = round % 3 ? (round % 2 ? "" : "high") : NULL;
		tick_head_init(&head, &snap, round % 2 ? &point : NULL);
		buf_reset(&out);
		tick_write_head(&out, &head, n);
		for (size_t i = 0; i < n; i++) {
			random_sample(&samples[i], &seed);
			tick_write_sample(&out, &head, (int64_t)i * 3, (int64_t)i * 3 + 3,
					  &samples[i]);
		}
		assert_int_equal(buf_error(&out), 0);
		copy = exact_copy(&out);
		assert_int_equal(tick_read_head(&r, copy, out.len), 0);
		assert_memory_equal(r.head.words, head.words, sizeof(head.words));
		assert_int_equal(!r.head.level, !snap.pressure_level);
		assert_int_equal(r.head.level_len, head.level_len);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(tick_read_sample(&r), 1);
			assert_int_equal(r.process, i * 3 + 3);
			sample_to_words(&samples[i], want);
			assert_memory_equal(r.words, want, sizeof(want));
		}
		assert_int_equal(tick_read_sample(&r), 0);
	}
}

static void test_cut_ticks_are_refused(void **state)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	CLEANUP(snapshot_release) struct snapshot snap;
	struct proc_sample p;
	struct tick_head head;
	uint64_t seed = 4;

	(void)state;
	snapshot_init(&snap);
	snap.pressure_level = "low";
	random_sample(&p, &seed);
	tick_head_init(&head, &snap, NULL);
	tick_write_head(&out, &head, 2);
	tick_write_sample(&out, &head, 0, 1, &p);
	tick_write_sample(&out, &head, 1, 2, &p);
	for (size_t len = 0; len < out.len; len++) {
		CLEANUP(free_ptr) char *copy = exact_bytes(&out, len);
		struct tick_reader r;
		int result;

		result = tick_read_head(&r, copy, len);
		while (result == 0 && (result = tick_read_sample(&r)) > 0)
			result = 0;
		assert_int_equal(result, -EBADMSG);
	}
}

/* ---- heads of folds ---- */

static void test_heads_come_back(void **state)
{
	static struct fold_head head, back;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	static const char *const levels[] = { NULL, "none", "low", "", "critical" };
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < N_ROUNDS; round++) {
		CLEANUP(free_ptr) char *copy = NULL;

		head.n = 1 + (unsigned)(random_u64(&seed) % CODEC_ROWS);
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			fill_column(head.columns[k], head.n, &seed);
		for (unsigned i = 0; i < head.n; i++) {
			head.ids[i] = (int64_t)(random_u64(&seed) >> 2);
			head.levels[i] = levels[random_u64(&seed) % ARRAY_SIZE(levels)];
			head.level_lens[i] = head.levels[i] ? strlen(head.levels[i]) : 0;
		}
		buf_reset(&out);
		fold_head_write(&out, &head);
		copy = exact_copy(&out);
		assert_int_equal(fold_head_read(copy, out.len, &back), 0);
		assert_int_equal(back.n, head.n);
		assert_memory_equal(back.ids, head.ids, head.n * sizeof(*head.ids));
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			assert_memory_equal(back.columns[k], head.columns[k],
					    head.n * sizeof(uint64_t));
		for (unsigned i = 0; i < head.n; i++) {
			assert_int_equal(!back.levels[i], !head.levels[i]);
			assert_int_equal(back.level_lens[i], head.level_lens[i]);
			if (head.levels[i])
				assert_memory_equal(back.levels[i], head.levels[i],
						    head.level_lens[i]);
		}
		copy[random_u64(&seed) % out.len] ^= (char)(1 << random_u64(&seed) % 8);
		fold_head_read(copy, out.len, &back);
	}
}

/* ---- numbers with a point ---- */

static void test_doubles_are_exact(void **state)
{
	static const double values[] = {
		0,    0.01,	 0.1,	  99.99,    12345.67,  1e15,
		1e16, 0.1 + 0.2, 1e300,	  -1,	    -0.01,     -1e300,
		1e-9, 1e-200,	 1.0 / 3, INFINITY, -INFINITY, 99.999999999999986,
	};
	uint64_t words[SAMPLE_WORDS], seed = 6;
	struct proc_sample p, back;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		double v = i < ARRAY_SIZE(values) ? values[i]
						  : (double)(random_u64(&seed) >> i % 64) / 1e9;

		proc_sample_init(&p);
		p.cpu_percent = p.age_seconds = v;
		sample_to_words(&p, words);
		assert_int_equal(sample_from_words(words, &back), 0);
		assert_memory_equal(&back.cpu_percent, &v, sizeof(v));
		assert_memory_equal(&back.age_seconds, &v, sizeof(v));
	}
	p.cpu_percent = -0.0;
	sample_to_words(&p, words);
	assert_int_equal(sample_from_words(words, &back), 0);
	assert_true(back.cpu_percent == 0 && signbit(back.cpu_percent));
	p.cpu_percent = F64_UNKNOWN;
	sample_to_words(&p, words);
	assert_true(words[SAMPLE_CPU_PERCENT] == U64_UNKNOWN);
}

/* Each word has a field of its own: two for one field, and one of them comes back wrong. */
static void test_each_word_has_its_field(void **state)
{
	uint64_t host[HOST_WORDS], sample[SAMPLE_WORDS], point[POINT_WORDS], back[HOST_WORDS];
	CLEANUP(snapshot_release) struct snapshot snap;
	struct proc_sample p;
	struct series_point at;

	(void)state;
	snapshot_init(&snap);
	proc_sample_init(&p);
	for (unsigned i = 0; i < HOST_WORDS; i++)
		host[i] = 100 + i;
	for (unsigned i = 0; i < SAMPLE_WORDS; i++)
		sample[i] = 100 + i;
	for (unsigned i = 0; i < POINT_WORDS; i++)
		point[i] = 100 + i;
	assert_int_equal(host_from_words(host, &snap), 0);
	host_to_words(&snap, back);
	assert_memory_equal(back, host, sizeof(host));
	assert_int_equal(sample_from_words(sample, &p), 0);
	sample_to_words(&p, back);
	assert_memory_equal(back, sample, sizeof(sample));
	assert_int_equal(point_from_words(point, &at), 0);
	point_to_words(&at, back);
	assert_memory_equal(back, point, sizeof(point));
}

static void test_words_that_fit_nothing_are_refused(void **state)
{
	uint64_t words[HOST_WORDS];
	struct snapshot snap;

	(void)state;
	snapshot_init(&snap);
	host_to_words(&snap, words);
	assert_int_equal(host_from_words(words, &snap), 0);
	words[HOST_BOOT_NS + 1] = UINT64_C(1) << 40; /* a pid */
	assert_int_equal(host_from_words(words, &snap), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks_come_back),
		cmocka_unit_test(test_idle_chunks_are_small),
		cmocka_unit_test(test_damaged_chunks_are_survived),
		cmocka_unit_test(test_ticks_come_back),
		cmocka_unit_test(test_cut_ticks_are_refused),
		cmocka_unit_test(test_heads_come_back),
		cmocka_unit_test(test_doubles_are_exact),
		cmocka_unit_test(test_each_word_has_its_field),
		cmocka_unit_test(test_words_that_fit_nothing_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
