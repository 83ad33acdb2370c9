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
#include "store/codec/codec.h"

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
static void fill_table(struct table *c, unsigned n_ticks, uint64_t *seed)
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

static void assert_table(const struct table *a, const struct table *b, unsigned n_words)
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

/* ---- tables ---- */

static void test_tables_come_back(void **state)
{
	static struct table c, back;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < N_ROUNDS; round++) {
		unsigned n_ticks = 1 + (unsigned)(random_u64(&seed) % CODEC_ROWS);
		CLEANUP(free_ptr) void *copy = NULL;
		uint64_t boot_ns[CODEC_ROWS];

		fill_column(boot_ns, n_ticks, &seed);
		fill_table(&c, n_ticks, &seed);
		buf_reset(&out);
		table_write(&out, &c, SAMPLE_WORDS, boot_ns);
		assert_int_equal(buf_error(&out), 0);
		copy = exact_copy(&out);
		assert_int_equal(table_read(copy, out.len, n_ticks, SAMPLE_WORDS, boot_ns, &back),
				 out.len);
		assert_table(&c, &back, SAMPLE_WORDS);
		memset(&back, 0, sizeof(back));
		assert_true(table_read(copy, out.len, n_ticks, 10, boot_ns, &back) > 0);
		assert_table(&c, &back, 10);
	}
}

/* Processes that sleep cost a few bytes per table. */
static void test_idle_tables_are_small(void **state)
{
	static struct table c;
	CLEANUP(buf_release) struct buf out = BUF_INIT, raw = BUF_INIT;
	uint64_t boot_ns[CODEC_ROWS];

	(void)state;
	c.n = CODEC_ROWS;
	for (unsigned i = 0; i < CODEC_ROWS; i++) {
		boot_ns[i] = i * UINT64_C(5000000000);
		c.tick[i] = (uint8_t)i;
		for (unsigned k = 0; k < SAMPLE_WORDS; k++)
			c.columns[k][i] = 4096 * k;
	}
	for (int64_t i = 0; i < GROUP_PROCESSES; i++) {
		buf_reset(&out);
		c.columns[SAMPLE_START][0] += 1234567;
		table_write(&out, &c, SAMPLE_WORDS, boot_ns);
		item_write(&raw, i, out.data, out.len);
	}
	buf_reset(&out);
	pack_write(&out, &raw);
	/* a byte for four rows at most */
	assert_in_range(out.len, 1, CODEC_ROWS * GROUP_PROCESSES / 4);
}

/* Whatever is done to the bytes: an error or other numbers, nothing else. */
static void test_damaged_tables_are_survived(void **state)
{
	static struct table c, back;
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	const uint64_t boot_ns[CODEC_ROWS] = { 0 };
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < N_ROUNDS; round++) {
		CLEANUP(free_ptr) uint8_t *copy = NULL;
		size_t len;

		fill_table(&c, CODEC_ROWS, &seed);
		buf_reset(&out);
		table_write(&out, &c, SAMPLE_WORDS, boot_ns);
		len = random_u64(&seed) % out.len;
		copy = exact_bytes(&out, len + 1);
		assert_int_equal(table_read(copy, 0, 120, SAMPLE_WORDS, boot_ns, &back), -EBADMSG);
		assert_int_equal(table_read(copy, len, 120, SAMPLE_WORDS, boot_ns, &back),
				 -EBADMSG);
		for (int i = 0; i < 4; i++)
			copy[random_u64(&seed) % (len + 1)] ^=
				(uint8_t)(1 << random_u64(&seed) % 8);
		table_read(copy, len + 1, 120, SAMPLE_WORDS, boot_ns, &back);
		assert_true(table_read(copy, len + 1, 120, SAMPLE_WORDS, boot_ns, &back) < 0 ||
			    back.n <= CODEC_ROWS);
	}
}

/* ---- ticks ---- */

/* A segment of ticks, as a recorder writes it: ids are 1, 2… */
#define N_SEGMENT 20
struct segment {
	struct tick ticks[N_SEGMENT];
	struct buf bytes[N_SEGMENT];
};

static void segment_release(struct segment *s)
{
	for (size_t i = 0; i < N_SEGMENT; i++) {
		tick_release(&s->ticks[i]);
		buf_release(&s->bytes[i]);
	}
}

/* Some keys come and go; of the words of those that stay some change. */
static void fill_list(struct tick *t, const struct tick *before, enum tick_list list,
		      uint64_t *seed)
{
	const struct tick_rows *old = before ? &before->lists[list] : NULL;

	for (size_t i = 0; i < random_u64(seed) % 30; i++) {
		uint64_t *words;

		if (random_u64(seed) % 4 == 0)
			continue;
		words = tick_add(t, list, (int64_t)i * 7);
		for (unsigned k = 0; k < list_words[list]; k++) {
			size_t at = i * (1 + list_words[list]) + 1 + k;

			fill_column(&words[k], 1, seed);
			if (old && i < old->n && random_u64(seed) % 3)
				words[k] = old->rows[at];
		}
	}
}

static void fill_segment(struct segment *s, uint64_t *seed)
{
	for (size_t i = 0; i < N_SEGMENT; i++) {
		struct tick *t = &s->ticks[i], *before = i > 0 ? &s->ticks[i - 1] : NULL;

		*t = (struct tick)TICK_INIT;
		s->bytes[i] = (struct buf)BUF_INIT;
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			fill_column(&t->head[k], 1, seed);
		t->head[HEAD_LEVEL] = tick_add_string(t, i % 3 ? "high" : NULL);
		assert_int_equal(tick_add_string(t, ""), i % 3 ? 1 : 0);
		for (enum tick_list list = 0; list < N_LISTS; list++)
			fill_list(t, before, list, seed);
		tick_write(&s->bytes[i], t, before, (int64_t)i);
		assert_int_equal(buf_error(&s->bytes[i]), 0);
	}
}

/* The row of the tick before with this key. */
static const uint64_t *find_words(const struct tick *t, enum tick_list list, int64_t key)
{
	size_t width = 1 + list_words[list];

	for (size_t i = 0; t && i < t->lists[list].n; i++)
		if (t->lists[list].rows[i * width] == (uint64_t)key)
			return t->lists[list].rows + i * width + 1;
	return NULL;
}

static void check_list(struct tick_cursor *c, const struct tick *t, const struct tick *before,
		       enum tick_list list)
{
	for (size_t i = 0; i < t->lists[list].n; i++) {
		const uint64_t *row = t->lists[list].rows + i * (1 + list_words[list]);
		uint64_t words[WORDS_MAX];

		assert_int_equal(tick_cursor_next(c), 1);
		assert_int_equal(c->key, row[0]);
		assert_int_equal(tick_cursor_read(c, find_words(before, list, c->key), words), 0);
		assert_memory_equal(words, row + 1, list_words[list] * sizeof(*words));
	}
	assert_int_equal(tick_cursor_next(c), 0);
}

static void test_ticks_come_back(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 100; round++) {
		static struct segment s;

		fill_segment(&s, &seed);
		for (size_t i = 0; i < N_SEGMENT; i++) {
			const struct tick *t = &s.ticks[i], *before = i ? t - 1 : NULL;
			CLEANUP(free_ptr) void *copy = exact_copy(&s.bytes[i]);
			CLEANUP(free_ptr) const char **strings = NULL;
			struct tick_reader r;

			assert_int_equal(tick_read(&r, copy, s.bytes[i].len, (int64_t)i,
						   before ? before->head : NULL),
					 0);
			assert_memory_equal(r.head, t->head, sizeof(t->head));
			assert_int_equal(r.n_strings, t->n_strings);
			assert_int_equal(tick_index_strings(&r, &strings), 0);
			if (i % 3)
				assert_string_equal(strings[r.head[HEAD_LEVEL]], "high");
			else
				assert_false(u64_known(r.head[HEAD_LEVEL]));
			for (enum tick_list list = 0; list < N_LISTS; list++)
				check_list(&r.lists[list], t, before, list);
		}
		segment_release(&s);
	}
}

/* A tick that differs from another is never read as if it differed from a third. */
static void test_ticks_out_of_order_are_refused(void **state)
{
	static struct segment s;
	struct tick_reader r;
	uint64_t seed = 7;

	(void)state;
	fill_segment(&s, &seed);
	assert_int_equal(tick_read(&r, s.bytes[5].data, s.bytes[5].len, 4, s.ticks[3].head),
			 -EBADMSG);
	assert_int_equal(tick_read(&r, s.bytes[5].data, s.bytes[5].len, 0, NULL), -EBADMSG);
	assert_int_equal(tick_read(&r, s.bytes[0].data, s.bytes[0].len, 4, s.ticks[3].head), 0);
	segment_release(&s);
}

/* Keys go up to what fits; those of processes no further than a chunk's id has room. */
static void test_keys_at_the_edge(void **state)
{
	static const struct {
		enum tick_list list;
		int64_t key;
		int want;
	} cases[] = {
		{ LIST_POINTS, 0, 0 },
		{ LIST_POINTS, INT64_MAX, 0 },
		{ LIST_SAMPLES, SAMPLE_KEY_MAX, 0 },
		{ LIST_SAMPLES, SAMPLE_KEY_MAX + 1, -EBADMSG },
		{ LIST_SAMPLES, INT64_MAX, -EBADMSG },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(tick_release) struct tick t = TICK_INIT;
		CLEANUP(buf_release) struct buf bytes = BUF_INIT;
		struct tick_reader r;
		uint64_t *words = tick_add(&t, cases[i].list, cases[i].key);

		assert_non_null(words);
		memset(words, 0, list_words[cases[i].list] * sizeof(*words));
		memset(t.head, 0, sizeof(t.head));
		tick_write(&bytes, &t, NULL, 0);
		assert_int_equal(tick_read(&r, bytes.data, bytes.len, 0, NULL), cases[i].want);
		if (cases[i].want < 0)
			continue;
		assert_int_equal(tick_cursor_next(&r.lists[cases[i].list]), 1);
		assert_true(r.lists[cases[i].list].key == cases[i].key);
	}
}

static void test_damaged_ticks_are_refused(void **state)
{
	static struct segment s;
	struct tick_reader r;
	uint64_t seed = 4;

	(void)state;
	fill_segment(&s, &seed);
	for (size_t i = 0; i < 4; i++) {
		const uint64_t *head = i ? s.ticks[i - 1].head : NULL;

		for (size_t len = 0; len < s.bytes[i].len; len++) {
			CLEANUP(free_ptr) char *copy = exact_bytes(&s.bytes[i], len);

			assert_int_equal(tick_read(&r, copy, len, (int64_t)i, head), -EBADMSG);
		}
		for (int round = 0; round < N_ROUNDS; round++) {
			CLEANUP(free_ptr) char *copy = exact_copy(&s.bytes[i]);

			copy[random_u64(&seed) % s.bytes[i].len] ^=
				(char)(1 << random_u64(&seed) % 8);
			tick_read(&r, copy, s.bytes[i].len, (int64_t)i, head);
		}
	}
	segment_release(&s);
}

/* ---- heads of folds ---- */

static void write_fold(struct buf *out, const struct table *head, const struct table *gpu,
		       const struct table *progress)
{
	CLEANUP(fold_strings_release) struct fold_strings strings = { 0 };

	assert_int_equal(fold_strings_add(&strings, "none"), 0);
	assert_int_equal(fold_strings_add(&strings, ""), 0);
	assert_int_equal(fold_strings_add(&strings, "critical"), 0);
	buf_reset(out);
	fold_write_head(out, head, &strings);
	fold_write_thing(out, LIST_GPUS, gpu);
	fold_write_thing(out, LIST_GPUS, gpu);
	fold_write_end(out);
	fold_write_thing(out, LIST_PROGRESS, progress);
	fold_write_end(out);
	assert_int_equal(buf_error(out), 0);
}

static void read_fold(const void *data, size_t len, unsigned n, struct fold_strings *strings)
{
	static struct table head, thing;
	struct fold_reader r;

	head.n = n;
	if (fold_read_head(&r, data, len, &head, strings) < 0)
		return;
	while (fold_read_thing(&r, LIST_GPUS, &thing) > 0)
		;
	while (fold_read_thing(&r, LIST_PROGRESS, &thing) > 0)
		;
}

static void test_folds_come_back(void **state)
{
	static struct table head, gpu, progress, back, cut;
	CLEANUP(fold_strings_release) struct fold_strings strings = { 0 };
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	int64_t ids[CODEC_ROWS], back_ids[CODEC_ROWS];
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < N_ROUNDS; round++) {
		CLEANUP(free_ptr) char *copy = NULL;
		struct fold_reader r;

		head.n = 1 + (unsigned)(random_u64(&seed) % CODEC_ROWS);
		for (unsigned i = 0; i < head.n; i++) {
			head.tick[i] = (uint8_t)i;
			ids[i] = (int64_t)(random_u64(&seed) >> 2);
		}
		for (unsigned k = 0; k < HEAD_WORDS; k++)
			fill_column(head.columns[k], head.n, &seed);
		fill_table(&gpu, head.n, &seed);
		fill_table(&progress, head.n, &seed);
		for (unsigned i = 0; i < head.n; i++)
			head.columns[HOST_WALL_NS][i] >>= 1; /* none is unknown */
		buf_reset(&out);
		fold_write_times(&out, ids, &head);
		copy = exact_copy(&out);
		assert_int_equal(fold_read_times(copy, out.len, back_ids, &back), 0);
		for (size_t len = 0; len < out.len; len += 7)
			assert_int_equal(fold_read_times(copy, len, back_ids, &cut), -EBADMSG);
		free(copy);
		write_fold(&out, &head, &gpu, &progress);
		copy = exact_copy(&out);
		assert_int_equal(fold_read_head(&r, copy, out.len, &back, &strings), 0);
		assert_table(&back, &head, HEAD_WORDS);
		assert_memory_equal(back_ids, ids, head.n * sizeof(*ids));
		assert_int_equal(strings.n, 3);
		assert_string_equal(strings.items[1], "");
		assert_string_equal(strings.items[2], "critical");
		for (int i = 0; i < 2; i++) {
			assert_int_equal(fold_read_thing(&r, LIST_GPUS, &back), 1);
			assert_table(&back, &gpu, GPU_WORDS);
		}
		assert_int_equal(fold_read_thing(&r, LIST_GPUS, &back), 0);
		assert_int_equal(fold_read_thing(&r, LIST_PROGRESS, &back), 1);
		assert_table(&back, &progress, PROGRESS_WORDS);
		assert_int_equal(fold_read_thing(&r, LIST_PROGRESS, &back), 0);
		copy[random_u64(&seed) % out.len] ^= (char)(1 << random_u64(&seed) % 8);
		read_fold(copy, out.len, head.n, &strings);
		read_fold(copy, out.len * 2 / 3, head.n, &strings);
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
		sample_to_words(&p, UINT64_C(1) << 62, words);
		assert_int_equal(sample_from_words(words, UINT64_C(1) << 62, &back), 0);
		assert_memory_equal(&back.cpu_percent, &v, sizeof(v));
		assert_memory_equal(&back.age_seconds, &v, sizeof(v));
	}
	p.cpu_percent = -0.0;
	sample_to_words(&p, UINT64_C(1) << 62, words);
	assert_int_equal(sample_from_words(words, UINT64_C(1) << 62, &back), 0);
	assert_true(back.cpu_percent == 0 && signbit(back.cpu_percent));
	p.cpu_percent = F64_UNKNOWN;
	sample_to_words(&p, UINT64_C(1) << 62, words);
	assert_true(words[SAMPLE_cpu_percent] == U64_UNKNOWN);
}

/* Each word has a field of its own: two for one field, and one of them comes back wrong. */
static void test_each_word_has_its_field(void **state)
{
	uint64_t host[HOST_WORDS], sample[SAMPLE_WORDS], point[POINT_WORDS], back[HOST_WORDS];
	uint64_t gpu[GPU_WORDS];
	struct gpu_sample device;
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
	assert_int_equal(sample_from_words(sample, 1000, &p), 0);
	sample_to_words(&p, 1000, back);
	assert_memory_equal(back, sample, sizeof(sample));
	for (unsigned i = 0; i < GPU_WORDS; i++)
		gpu[i] = 100 + i;
	assert_int_equal(gpu_from_words(gpu, &device), 0);
	gpu_to_words(&device, back);
	assert_memory_equal(back, gpu, sizeof(gpu));
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
		cmocka_unit_test(test_tables_come_back),
		cmocka_unit_test(test_idle_tables_are_small),
		cmocka_unit_test(test_damaged_tables_are_survived),
		cmocka_unit_test(test_ticks_come_back),
		cmocka_unit_test(test_ticks_out_of_order_are_refused),
		cmocka_unit_test(test_keys_at_the_edge),
		cmocka_unit_test(test_damaged_ticks_are_refused),
		cmocka_unit_test(test_folds_come_back),
		cmocka_unit_test(test_doubles_are_exact),
		cmocka_unit_test(test_each_word_has_its_field),
		cmocka_unit_test(test_words_that_fit_nothing_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
