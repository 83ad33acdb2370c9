#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "store/codec.h"
#include "store/codec_column.h"

/*
 * A chunk: version, n, whether it has the ticks from the first on without a gap,
 * those ticks, then the columns. A fold's head: version, n, the columns, then the
 * distinct levels and which tick has which.
 *
 * Values that others nearly tell are kept as what differs: see tell_apart().
 */
#define TABLE_VERSION 1
#define ROWS_BITS 7

static struct row_set known_rows(const uint64_t *v, unsigned n)
{
	struct row_set known = { { 0, 0 } };

	for (unsigned i = 0; i < n; i++)
		if (u64_known(v[i]))
			row_set_add(&known, i);
	return known;
}

static void mark_unknown(uint64_t *v, const struct row_set *known, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!row_set_has(known, i))
			v[i] = U64_UNKNOWN;
}

static uint64_t or_zero(uint64_t v)
{
	return u64_known(v) ? v : 0;
}

/* ---- what is known of a value before it is read ---- */

/* The share of CPU in 1/100 %, as the collector counts it but for when it looked at the clock. */
static uint64_t expect_percent(const struct chunk *c, unsigned i)
{
	const uint64_t *cpu = c->columns[SAMPLE_CPU_NS], *boot = c->columns[SAMPLE_BOOT_NS];
	uint64_t used, elapsed;

	if (i == 0)
		return 0;
	used = u64_delta(cpu[i], cpu[i - 1]);
	elapsed = u64_delta(boot[i], boot[i - 1]);
	if (!u64_known(used) || !u64_known(elapsed) || elapsed == 0 || used > UINT64_MAX / 20000)
		return 0;
	return (used * 10000 + elapsed / 2) / elapsed;
}

/*
 * Row i of a column, from columns before it in enum sample_word and ticks alone.
 * It need not be right: what it is wrong by is kept.
 */
static uint64_t expect(const struct chunk *c, enum sample_word word, unsigned i,
		       const uint64_t *boot_ns)
{
	switch (word) {
	case SAMPLE_BOOT_NS:
		return or_zero(boot_ns[c->tick[i]]);
	case SAMPLE_AGE:
		return or_zero(c->columns[SAMPLE_BOOT_NS][i]);
	case SAMPLE_CPU_NS:
		return or_zero(c->columns[SAMPLE_USER_NS][i]) +
		       or_zero(c->columns[SAMPLE_SYSTEM_NS][i]);
	case SAMPLE_CPU_PERCENT:
		return expect_percent(c, i);
	case SAMPLE_RSS_BYTES:
		return or_zero(c->columns[SAMPLE_ANON_BYTES][i]) +
		       or_zero(c->columns[SAMPLE_FILE_BYTES][i]) +
		       or_zero(c->columns[SAMPLE_SHMEM_BYTES][i]);
	default:
		return 0;
	}
}

static bool is_expected(enum sample_word word)
{
	return word == SAMPLE_BOOT_NS || word == SAMPLE_AGE || word == SAMPLE_CPU_NS ||
	       word == SAMPLE_CPU_PERCENT || word == SAMPLE_RSS_BYTES;
}

/* ---- chunks ---- */

static bool begin_table(struct buf *out, size_t n_columns, struct bit_writer *w)
{
	if (buf_reserve(out, (n_columns + 1) * COLUMN_MAX_BYTES) < 0) {
		out->failed = true;
		return false;
	}
	*w = (struct bit_writer){ .p = (uint8_t *)out->data + out->len };
	bits_put(w, TABLE_VERSION, 8);
	return true;
}

static void end_table(struct buf *out, const struct bit_writer *w)
{
	out->len = (size_t)(bits_end(w) - (uint8_t *)out->data);
	out->data[out->len] = '\0';
}

static void put_rows(struct bit_writer *w, const struct chunk *c)
{
	bool has_gap = c->tick[c->n - 1] - c->tick[0] + 1u != c->n;
	struct row_set ticks = { { 0, 0 } };

	for (unsigned i = 0; i < c->n; i++)
		row_set_add(&ticks, c->tick[i]);
	bits_put(w, c->n, ROWS_BITS);
	bits_put(w, has_gap, 1);
	if (has_gap)
		row_set_write(w, &ticks, CODEC_ROWS);
	else
		bits_put(w, c->tick[0], ROWS_BITS);
}

static int get_ticks(struct bit_reader *r, struct chunk *c)
{
	struct row_set ticks;
	unsigned n = 0;

	row_set_read(r, &ticks, CODEC_ROWS);
	for (unsigned i = 0; i < CODEC_ROWS; i++)
		if (row_set_has(&ticks, i))
			c->tick[n++] = (uint8_t)i;
	return n == c->n ? 0 : -EBADMSG;
}

static int get_rows(struct bit_reader *r, struct chunk *c)
{
	unsigned first;

	c->n = (unsigned)bits_get(r, ROWS_BITS);
	if (c->n == 0 || c->n > CODEC_ROWS)
		return -EBADMSG;
	if (bits_get(r, 1))
		return get_ticks(r, c);
	first = (unsigned)bits_get(r, ROWS_BITS);
	if (first + c->n > CODEC_ROWS)
		return -EBADMSG;
	for (unsigned i = 0; i < c->n; i++)
		c->tick[i] = (uint8_t)(first + i);
	return 0;
}

/* The column as it is kept: by what it differs from what is expected. */
static void tell_apart(const struct chunk *c, enum sample_word word, const uint64_t *boot_ns,
		       uint64_t *ret)
{
	for (unsigned i = 0; i < c->n; i++)
		ret[i] = c->columns[word][i] - expect(c, word, i, boot_ns);
}

void chunk_write(struct buf *out, const struct chunk *c, const uint64_t *boot_ns)
{
	struct column_memory memory = { 0 };
	struct bit_writer w;

	if (!begin_table(out, SAMPLE_WORDS, &w))
		return;
	put_rows(&w, c);
	for (enum sample_word word = 0; word < SAMPLE_WORDS; word++) {
		const uint64_t *column = c->columns[word];
		struct row_set known = known_rows(column, c->n);
		uint64_t apart[CODEC_ROWS];

		if (is_expected(word)) {
			tell_apart(c, word, boot_ns, apart);
			column = apart;
		}
		column_write(&w, column, &known, c->n, &memory);
	}
	end_table(out, &w);
}

static int begin_read(struct bit_reader *r, const void *data, size_t len)
{
	*r = (struct bit_reader){ .data = data, .len = len };
	return bits_get(r, 8) == TABLE_VERSION ? 0 : -EBADMSG;
}

static int read_column(struct bit_reader *r, enum sample_word word, const uint64_t *boot_ns,
		       struct column_memory *memory, struct chunk *c)
{
	uint64_t *column = c->columns[word];
	struct row_set known;
	int n = (int)c->n;

	if (column_read(r, c->n, memory, column, &known) < 0)
		return -EBADMSG;
	if (is_expected(word))
		for (int i = 0; i < n; i++)
			column[i] += expect(c, word, (unsigned)i, boot_ns);
	mark_unknown(column, &known, c->n);
	return 0;
}

int chunk_read(const void *data, size_t len, const uint64_t *boot_ns, unsigned n_ticks,
	       unsigned n_words, struct chunk *ret)
{
	struct column_memory memory = { 0 };
	struct bit_reader r;

	if (begin_read(&r, data, len) < 0 || get_rows(&r, ret) < 0 ||
	    ret->tick[ret->n - 1] >= n_ticks)
		return -EBADMSG;
	for (enum sample_word word = 0; word < n_words; word++)
		if (read_column(&r, word, boot_ns, &memory, ret) < 0)
			return -EBADMSG;
	return r.failed ? -EBADMSG : 0;
}

/* ---- heads ---- */

/* Levels are short and few: told once each, up to so many. */
#define LEVEL_MAX_BYTES 255

static bool same_level(const struct fold_head *h, unsigned a, unsigned b)
{
	return h->level_lens[a] == h->level_lens[b] &&
	       memcmp(h->levels[a], h->levels[b], h->level_lens[a]) == 0;
}

/* Which tick has the level of tick i first; U64_UNKNOWN: it has none. */
static uint64_t first_with_level(const struct fold_head *h, unsigned i)
{
	unsigned k = 0;

	if (!h->levels[i])
		return U64_UNKNOWN;
	while (k < i && (!h->levels[k] || !same_level(h, k, i)))
		k++;
	return k;
}

static void put_levels(struct buf *out, const struct fold_head *h)
{
	for (unsigned i = 0; i < h->n; i++) {
		size_t len = h->level_lens[i];

		if (first_with_level(h, i) != i)
			continue;
		if (len > LEVEL_MAX_BYTES)
			len = LEVEL_MAX_BYTES;
		buf_add_char(out, (char)len);
		buf_add(out, h->levels[i], len);
	}
}

void fold_head_write(struct buf *out, const struct fold_head *h)
{
	struct column_memory memory = { 0 };
	struct row_set known;
	uint64_t extra[CODEC_ROWS];
	struct bit_writer w;

	if (!begin_table(out, HEAD_WORDS + 2, &w))
		return;
	bits_put(&w, h->n, ROWS_BITS);
	for (unsigned i = 0; i < HEAD_WORDS; i++) {
		known = known_rows(h->columns[i], h->n);
		column_write(&w, h->columns[i], &known, h->n, &memory);
	}
	for (unsigned i = 0; i < h->n; i++)
		extra[i] = (uint64_t)h->ids[i];
	known = known_rows(extra, h->n);
	column_write(&w, extra, &known, h->n, &memory);
	for (unsigned i = 0; i < h->n; i++)
		extra[i] = first_with_level(h, i);
	known = known_rows(extra, h->n);
	column_write(&w, extra, &known, h->n, &memory);
	end_table(out, &w);
	put_levels(out, h);
}

static int get_levels(const uint8_t *p, const uint8_t *end, const uint64_t *firsts,
		      struct fold_head *h)
{
	for (unsigned i = 0; i < h->n; i++) {
		h->levels[i] = NULL;
		h->level_lens[i] = 0;
		if (!u64_known(firsts[i]))
			continue;
		if (firsts[i] > i || (firsts[i] < i && !h->levels[firsts[i]]))
			return -EBADMSG;
		if (firsts[i] < i) {
			h->levels[i] = h->levels[firsts[i]];
			h->level_lens[i] = h->level_lens[firsts[i]];
			continue;
		}
		if (p >= end || *p > end - p - 1)
			return -EBADMSG;
		h->levels[i] = (const char *)p + 1;
		h->level_lens[i] = *p;
		p += *p + 1;
	}
	return 0;
}

static int read_head_column(struct bit_reader *r, unsigned n, struct column_memory *memory,
			    uint64_t *ret)
{
	struct row_set known;

	if (column_read(r, n, memory, ret, &known) < 0)
		return -EBADMSG;
	mark_unknown(ret, &known, n);
	return 0;
}

int fold_head_read(const void *data, size_t len, struct fold_head *ret)
{
	struct column_memory memory = { 0 };
	uint64_t ids[CODEC_ROWS], firsts[CODEC_ROWS];
	struct bit_reader r;

	if (begin_read(&r, data, len) < 0)
		return -EBADMSG;
	ret->n = (unsigned)bits_get(&r, ROWS_BITS);
	if (ret->n == 0 || ret->n > CODEC_ROWS)
		return -EBADMSG;
	for (unsigned i = 0; i < HEAD_WORDS; i++)
		if (read_head_column(&r, ret->n, &memory, ret->columns[i]) < 0)
			return -EBADMSG;
	if (read_head_column(&r, ret->n, &memory, ids) < 0 ||
	    read_head_column(&r, ret->n, &memory, firsts) < 0 || r.failed)
		return -EBADMSG;
	for (unsigned i = 0; i < ret->n; i++)
		ret->ids[i] = (int64_t)ids[i];
	return get_levels(r.data + (r.at + 7) / 8, r.data + len, firsts, ret);
}
