#include <errno.h>
#include <string.h>

#include "base/unknown.h"
#include "store/codec.h"
#include "store/codec_column.h"

/*
 * A table: how many columns it has (with TABLE_MARK), n, whether it has the ticks from the first
 * on without a gap, those ticks, then the columns. Who reads more columns than it has, as a field
 * was added since, gets unknown ones.
 *
 * Values that others nearly tell are kept as what differs: see tell_apart().
 */
#define TABLE_MARK 0x80u /* without it: bytes of before 0.1.0, or damage */
#define ROWS_BITS 7

static struct row_set known_rows(const uint64_t *v, unsigned n)
{
	struct row_set known = { { 0, 0 } };

	if (column_is_constant(v, n))
		return u64_known(v[0]) ? row_set_all(n) : known;
	for (unsigned i = 0; i < n; i++)
		known.bits[i / 64] |= (uint64_t)u64_known(v[i]) << i % 64;
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

/* ---- what is known of a sample's value before it is read ---- */

/* The share of CPU in 1/100 %, as the collector counts it but for when it looked at the clock. */
static uint64_t expect_percent(const struct table *t, unsigned i, const uint64_t *boot_ns)
{
	const uint64_t *cpu = t->columns[SAMPLE_cpu_ns];
	uint64_t used, elapsed;

	if (i == 0)
		return 0;
	used = u64_delta(cpu[i], cpu[i - 1]);
	elapsed = u64_delta(boot_ns[t->tick[i]], boot_ns[t->tick[i - 1]]);
	if (!u64_known(used) || !u64_known(elapsed) || elapsed == 0 || used > UINT64_MAX / 20000)
		return 0;
	return (used * 10000 + elapsed / 2) / elapsed;
}

/*
 * Row i of a column, from columns before it in enum sample_word and ticks alone.
 * It need not be right: what it is wrong by is kept.
 */
static uint64_t expect(const struct table *t, enum sample_word word, unsigned i,
		       const uint64_t *boot_ns)
{
	switch (word) {
	case SAMPLE_cpu_ns:
		return or_zero(t->columns[SAMPLE_user_ns][i]) +
		       or_zero(t->columns[SAMPLE_system_ns][i]);
	case SAMPLE_cpu_percent:
		return expect_percent(t, i, boot_ns);
	case SAMPLE_rss_bytes:
		return or_zero(t->columns[SAMPLE_rss_anon_bytes][i]) +
		       or_zero(t->columns[SAMPLE_rss_file_bytes][i]) +
		       or_zero(t->columns[SAMPLE_rss_shmem_bytes][i]);
	default:
		return 0;
	}
}

static bool is_expected(enum sample_word word)
{
	return word == SAMPLE_cpu_ns || word == SAMPLE_cpu_percent || word == SAMPLE_rss_bytes;
}

/* The column as it is kept: by what it differs from what is expected. */
static void tell_apart(const struct table *t, enum sample_word word, const uint64_t *boot_ns,
		       uint64_t *ret)
{
	for (unsigned i = 0; i < t->n; i++)
		ret[i] = t->columns[word][i] - expect(t, word, i, boot_ns);
}

/* ---- which ticks ---- */

static void put_ticks(struct bit_writer *w, const struct table *t)
{
	bool has_gap = t->tick[t->n - 1] - t->tick[0] + 1u != t->n;
	struct row_set ticks = { { 0, 0 } };

	for (unsigned i = 0; i < t->n; i++)
		row_set_add(&ticks, t->tick[i]);
	bits_put(w, t->n, ROWS_BITS);
	bits_put(w, has_gap, 1);
	if (has_gap)
		row_set_write(w, &ticks, CODEC_ROWS);
	else
		bits_put(w, t->tick[0], ROWS_BITS);
}

static int get_ticks_with_gaps(struct bit_reader *r, struct table *t)
{
	struct row_set ticks;
	unsigned n = 0;

	row_set_read(r, &ticks, CODEC_ROWS);
	for (unsigned i = 0; i < CODEC_ROWS; i++)
		if (row_set_has(&ticks, i))
			t->tick[n++] = (uint8_t)i;
	return n == t->n ? 0 : -EBADMSG;
}

static int get_ticks(struct bit_reader *r, struct table *t)
{
	unsigned first;

	t->n = (unsigned)bits_get(r, ROWS_BITS);
	if (t->n == 0 || t->n > CODEC_ROWS)
		return -EBADMSG;
	if (bits_get(r, 1))
		return get_ticks_with_gaps(r, t);
	first = (unsigned)bits_get(r, ROWS_BITS);
	if (first + t->n > CODEC_ROWS)
		return -EBADMSG;
	for (unsigned i = 0; i < t->n; i++)
		t->tick[i] = (uint8_t)(first + i);
	return 0;
}

/* ---- tables ---- */

_Static_assert(TABLE_COLUMNS < TABLE_MARK, "a byte has their number and the mark");

void table_write(struct buf *out, const struct table *t, unsigned n_words, const uint64_t *boot_ns)
{
	struct column_memory memory = { 0 };
	struct bit_writer w;

	if (buf_reserve(out, (n_words + 1) * COLUMN_MAX_BYTES) < 0) {
		out->failed = true;
		return;
	}
	w = (struct bit_writer){ .p = (uint8_t *)out->data + out->len };
	bits_put(&w, TABLE_MARK | n_words, 8);
	put_ticks(&w, t);
	for (unsigned word = 0; word < n_words; word++) {
		const uint64_t *column = t->columns[word];
		struct row_set known = known_rows(column, t->n);
		uint64_t apart[CODEC_ROWS];

		if (boot_ns && is_expected(word)) {
			tell_apart(t, word, boot_ns, apart);
			column = apart;
		}
		column_write(&w, column, &known, t->n, &memory);
	}
	out->len = (size_t)(bits_end(&w) - (uint8_t *)out->data);
	out->data[out->len] = '\0';
}

static int read_column(struct bit_reader *r, unsigned word, const uint64_t *boot_ns,
		       struct column_memory *memory, struct table *t)
{
	uint64_t *column = t->columns[word];
	struct row_set known;

	if (column_read(r, t->n, memory, column, &known) < 0)
		return -EBADMSG;
	for (unsigned i = 0; boot_ns && is_expected(word) && i < t->n; i++)
		column[i] += expect(t, word, i, boot_ns);
	mark_unknown(column, &known, t->n);
	return 0;
}

ssize_t table_read(const void *data, size_t len, unsigned n_ticks, unsigned n_read,
		   const uint64_t *boot_ns, struct table *ret)
{
	struct bit_reader r = { .data = data, .len = len };
	struct column_memory memory = { 0 };
	unsigned mark = (unsigned)bits_get(&r, 8), n_there;

	ret->n_columns = mark & ~TABLE_MARK;
	if (!(mark & TABLE_MARK) || get_ticks(&r, ret) < 0 || ret->tick[ret->n - 1] >= n_ticks)
		return -EBADMSG;
	n_there = n_read < ret->n_columns ? n_read : ret->n_columns;
	for (unsigned word = 0; word < n_there; word++)
		if (read_column(&r, word, boot_ns, &memory, ret) < 0)
			return -EBADMSG;
	for (unsigned word = n_there; word < n_read; word++)
		for (unsigned i = 0; i < ret->n; i++)
			ret->columns[word][i] = U64_UNKNOWN;
	return r.failed ? -EBADMSG : (ssize_t)((r.at + 7) / 8);
}
