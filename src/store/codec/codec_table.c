#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/unknown.h"
#include "store/codec/codec.h"

/*
 * codec_bits - numbers of any width, one behind the other, lowest bit first.
 *
 * The writer does not check for room: who uses it knows the most that can come.
 * The reader gives zeros behind the end, and remembers it.
 */

struct bit_writer {
	uint8_t *p;
	uint64_t acc; /* less than 8 bits are in it between calls */
	unsigned n;
};

/* v has no bits above width; width is at most 56. */
static inline void bits_put(struct bit_writer *w, uint64_t v, unsigned width)
{
	uint64_t le;

	w->acc |= v << w->n;
	w->n += width;
	le = htole64(w->acc);
	memcpy(w->p, &le, sizeof(le)); /* what is beyond is written over */
	w->p += w->n / 8;
	w->acc >>= w->n / 8 * 8;
	w->n %= 8;
}

static inline void bits_put_wide(struct bit_writer *w, uint64_t v, unsigned width)
{
	if (width > 32)
		bits_put(w, v & UINT32_MAX, 32);
	bits_put(w, width > 32 ? v >> 32 : v, width > 32 ? width - 32 : width);
}

struct bit_reader {
	const uint8_t *data;
	size_t len; /* bytes */
	size_t at;  /* bit */
	bool failed;
};

/* The next bits, at least 56 of them (zeros behind the end), without moving on. */
static inline uint64_t bits_peek(const struct bit_reader *r)
{
	size_t byte = r->at / 8;
	uint64_t le = 0;

	if (byte + sizeof(le) <= r->len)
		memcpy(&le, r->data + byte, sizeof(le));
	else if (byte < r->len)
		memcpy(&le, r->data + byte, r->len - byte);
	return le64toh(le) >> r->at % 8;
}

static inline void bits_skip(struct bit_reader *r, unsigned width)
{
	r->at += width;
	if (r->at > r->len * 8)
		r->failed = true;
}

/* width is at most 56. */
static inline uint64_t bits_get(struct bit_reader *r, unsigned width)
{
	uint64_t v = bits_peek(r) & ((UINT64_C(1) << width) - 1);

	bits_skip(r, width);
	return v;
}

static inline uint64_t bits_get_wide(struct bit_reader *r, unsigned width)
{
	uint64_t low = bits_get(r, width > 32 ? 32 : width);

	return width > 32 ? bits_get(r, width - 32) << 32 | low : low;
}

/*
 * ---- Rice codes: noise in as many bits as it has; general compression finds nothing in it ----
 *
 * Values, one or more: whether some are negative (then the sign is the lowest
 * bit) or else the least; what all are multiples of (clock ticks, pages); and
 * Rice codes of the rest: v >> k as so many ones and a zero, then the k lower bits.
 */
#define ESCAPE 24 /* so many ones: all 64 bits follow */

#define LENGTH_BITS 7

static unsigned bit_length(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* One number: how many bits, then those. */
static void rice_put_number(struct bit_writer *w, uint64_t v)
{
	unsigned len = bit_length(v);

	bits_put(w, len, LENGTH_BITS);
	bits_put_wide(w, v, len);
}

static uint64_t rice_get_number(struct bit_reader *r)
{
	unsigned len = (unsigned)bits_get(r, LENGTH_BITS);

	if (len > 64)
		r->failed = true;
	return len > 64 ? 0 : bits_get_wide(r, len);
}

static uint64_t rice_cost(const uint64_t *v, unsigned n, unsigned k)
{
	uint64_t bits = (uint64_t)n * (k + 1);

	for (unsigned i = 0; i < n; i++) {
		uint64_t ones = v[i] >> k;

		bits += ones < ESCAPE ? ones : ESCAPE + 64;
	}
	return bits;
}

/* Near the middle of their lengths: a few that are much longer do not move it. */
static unsigned choose_k(const uint64_t *v, unsigned n)
{
	unsigned lengths[65] = { 0 }, seen = 0, middle = 0, best;
	uint64_t least;

	for (unsigned i = 0; i < n; i++)
		lengths[bit_length(v[i])]++;
	for (; middle < 64 && seen + lengths[middle] <= n / 2; middle++)
		seen += lengths[middle];
	best = middle > 2 ? middle - 2 : 0;
	least = rice_cost(v, n, best);
	for (unsigned k = best + 1; k <= middle + 2 && k < 56; k++) {
		uint64_t cost = rice_cost(v, n, k);

		if (cost < least) {
			least = cost;
			best = k;
		}
	}
	return best < 56 ? best : 55;
}

static void put_rice(struct bit_writer *w, uint64_t v, unsigned k)
{
	uint64_t ones = v >> k;

	if (ones >= ESCAPE) {
		bits_put(w, (UINT64_C(1) << ESCAPE) - 1, ESCAPE);
		bits_put_wide(w, v, 64);
		return;
	}
	bits_put(w, (UINT64_C(1) << ones) - 1, (unsigned)ones + 1);
	bits_put(w, v & ((UINT64_C(1) << k) - 1), k);
}

static uint64_t get_rice(struct bit_reader *r, unsigned k)
{
	uint64_t zeros = ~bits_peek(r);
	unsigned ones = zeros ? (unsigned)__builtin_ctzll(zeros) : 64;

	if (ones >= ESCAPE) {
		bits_skip(r, ESCAPE);
		return bits_get_wide(r, 64);
	}
	bits_skip(r, ones + 1);
	return (uint64_t)ones << k | bits_get(r, k);
}

/* As two's complement. */
static bool rice_any_negative(const uint64_t *v, unsigned n)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all |= v[i];
	return all >> 63;
}

static uint64_t rice_minimum(const uint64_t *v, unsigned n)
{
	uint64_t least = v[0];

	for (unsigned i = 1; i < n; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

/* What all are multiples of: at least 1. */
static uint64_t common_unit(const uint64_t *v, unsigned n, bool is_signed)
{
	uint64_t unit = 0;

	for (unsigned i = 0; i < n && unit != 1; i++) {
		uint64_t a = is_signed && v[i] >> 63 ? -v[i] : v[i];

		while (unit) { /* the greatest divisor that both have */
			uint64_t rest = a % unit;

			a = unit;
			unit = rest;
		}
		unit = a;
	}
	return unit ? unit : 1;
}

/* Changes v. */
static void rice_put(struct bit_writer *w, uint64_t *v, unsigned n)
{
	bool is_signed = rice_any_negative(v, n);
	uint64_t least = is_signed ? 0 : rice_minimum(v, n);
	uint64_t unit;
	unsigned k;

	for (unsigned i = 0; i < n; i++)
		v[i] -= least;
	unit = common_unit(v, n, is_signed);
	for (unsigned i = 0; i < n && (unit > 1 || is_signed); i++) {
		bool is_negative = is_signed && v[i] >> 63;

		v[i] = is_negative ? -(-v[i] / unit) : v[i] / unit;
		v[i] = is_signed ? zigzag(v[i]) : v[i];
	}
	k = choose_k(v, n);
	bits_put(w, is_signed, 1);
	rice_put_number(w, least);
	rice_put_number(w, unit - 1);
	bits_put(w, k, 6);
	for (unsigned i = 0; i < n; i++)
		put_rice(w, v[i], k);
}

static int rice_get(struct bit_reader *r, uint64_t *ret, unsigned n)
{
	bool is_signed = bits_get(r, 1);
	uint64_t least = rice_get_number(r);
	uint64_t unit = rice_get_number(r) + 1;
	unsigned k = (unsigned)bits_get(r, 6);

	if (k >= 56)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++) {
		uint64_t v = get_rice(r, k);

		ret[i] = (is_signed ? unzigzag(v) : v) * unit + least;
	}
	return 0;
}

/*
 * A column is a kind; of ordinary ones then:
 *	its known rows, where not all are
 *	the order: 0 takes the values as they are, 1 their steps, 2 the steps of those;
 *	the first order values stand before the others
 *	whether rows that are 0 now are left out, and which
 *	what is left, as Rice codes
 */
enum kind { KIND_UNKNOWN, KIND_CONSTANT, KIND_ORDINARY, KIND_GAPS, KIND_SAME_GAPS, KIND_ZERO };
#define KIND_BITS 3

#define ORDER_BITS 2
#define ORDER_MAX 2

#define COLUMN_MAX_BYTES 1536 /* that one can take, and what the writer needs behind it */

/* ---- sets of rows ---- */

/* A bit per row. */
struct row_set {
	uint64_t bits[2];
};

static void row_set_add(struct row_set *set, unsigned i)
{
	set->bits[i / 64] |= UINT64_C(1) << i % 64;
}

static bool row_set_has(const struct row_set *set, unsigned i)
{
	return set->bits[i / 64] >> i % 64 & 1;
}

static void row_set_write(struct bit_writer *w, const struct row_set *set, unsigned n)
{
	bits_put_wide(w, set->bits[0], n < 64 ? n : 64);
	if (n > 64)
		bits_put_wide(w, set->bits[1], n - 64);
}

static void row_set_read(struct bit_reader *r, struct row_set *ret, unsigned n)
{
	ret->bits[0] = bits_get_wide(r, n < 64 ? n : 64);
	ret->bits[1] = n > 64 ? bits_get_wide(r, n - 64) : 0;
}

static unsigned row_set_count(const struct row_set *set)
{
	return (unsigned)(__builtin_popcountll(set->bits[0]) + __builtin_popcountll(set->bits[1]));
}

static struct row_set row_set_all(unsigned n)
{
	return (struct row_set){ {
		n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX,
		n > 64 ? (UINT64_C(1) << (n - 64)) - 1 : 0,
	} };
}

/* Those of the set that a column of n values has. */
static struct row_set first_rows(const struct row_set *set, unsigned n)
{
	struct row_set all = row_set_all(n);

	return (struct row_set){ { set->bits[0] & all.bits[0], set->bits[1] & all.bits[1] } };
}

/* ---- the order ---- */

/* Each value becomes its step from the one before; the first stays. */
static void take_steps(uint64_t *v, unsigned from, unsigned n)
{
	for (unsigned i = n; i-- > from + 1;)
		v[i] -= v[i - 1];
}

static void add_steps(uint64_t *v, unsigned from, unsigned n)
{
	for (unsigned i = from + 1; i < n; i++)
		v[i] += v[i - 1];
}

/* About how many bits the steps take. */
static unsigned estimate(const uint64_t *v, unsigned n)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < n; i++)
		bits += bit_length(zigzag(v[i]));
	return bits;
}

/* Leaves v in the order that it returns. */
static unsigned choose_order(uint64_t *v, unsigned n)
{
	uint64_t least = rice_any_negative(v, n) ? 0 : rice_minimum(v, n);
	unsigned plain = n, steps, second; /* more than zigzag would take, less the sign */

	if (n < 4)
		return 0;
	/* As they are, and without what all have: their least is told once. */
	for (unsigned i = 0; i < n && least > 0; i++)
		plain += bit_length(v[i] - least);
	if (least == 0)
		plain = estimate(v, n);
	take_steps(v, 0, n);
	steps = estimate(v + 1, n - 1);
	if (plain <= steps) {
		add_steps(v, 0, n);
		return 0;
	}
	take_steps(v, 1, n);
	second = estimate(v + 2, n - 2);
	if (second + second / 8 < steps)
		return 2;
	add_steps(v, 1, n);
	return 1;
}

/* ---- columns ---- */

/* What columns of a table have in common: mostly the same rows change. */
struct column_memory {
	struct row_set changed, known;
};

static bool is_within(const struct row_set *set, const struct row_set *whole)
{
	return !(set->bits[0] & ~whole->bits[0]) && !(set->bits[1] & ~whole->bits[1]);
}

/* The widest set is the one that others are most often like. */
static void remember_changed(struct column_memory *memory, const struct row_set *changed)
{
	if (!is_within(changed, &memory->changed))
		memory->changed = *changed;
}

static unsigned keep_rows(uint64_t *v, unsigned n, const struct row_set *kept)
{
	unsigned n_kept = 0;

	for (unsigned i = 0; i < n; i++)
		if (row_set_has(kept, i))
			v[n_kept++] = v[i];
	return n_kept;
}

/* Puts down which of the n are 0 where that is worth it, and takes those out. Returns the rest. */
static unsigned leave_out_zeros(struct bit_writer *w, uint64_t *v, unsigned n,
				struct column_memory *memory)
{
	struct row_set changed = { { 0, 0 } }, known = first_rows(&memory->changed, n);

	for (unsigned i = 0; i < n; i++)
		if (v[i])
			row_set_add(&changed, i);
	/* A few zeros among the others take less than telling where they are. */
	if (is_within(&changed, &known) &&
	    (row_set_count(&known) - row_set_count(&changed)) * 6 <= n) {
		bits_put(w, 3, 2);
		return keep_rows(v, n, &known);
	}
	if ((n - row_set_count(&changed)) * 4 < n) {
		bits_put(w, 0, 1);
		return n;
	}
	bits_put(w, 1, 2);
	row_set_write(w, &changed, n);
	remember_changed(memory, &changed);
	return keep_rows(v, n, &changed);
}

/* At least one value. */
static void put_ordinary(struct bit_writer *w, uint64_t *v, unsigned n,
			 struct column_memory *memory)
{
	unsigned order = choose_order(v, n);

	bits_put(w, order, ORDER_BITS);
	for (unsigned i = 0; i < order; i++)
		rice_put_number(w, i == 0 ? v[0] : zigzag(v[i]));
	n = leave_out_zeros(w, v + order, n - order, memory);
	if (n > 0)
		rice_put(w, v + order, n);
}

/* Most are: of processes that sleep, and where values are unknown. At least one value. Each like
 * the next: libc compares several of them at once. */
static bool column_is_constant(const uint64_t *v, unsigned n)
{
	return memcmp(v, v + 1, (n - 1) * sizeof(*v)) == 0;
}

/*
 * The n values, of which those outside known are not looked at. With memory as
 * it was after the column before; zeroed for the first.
 */
static void column_write(struct bit_writer *w, const uint64_t *values, const struct row_set *known,
			 unsigned n, struct column_memory *memory)
{
	uint64_t v[CODEC_ROWS];
	unsigned n_known;
	enum kind kind;

	memcpy(v, values, n * sizeof(*v));
	n_known = row_set_count(known);
	if (n_known > 0 && n_known < n)
		keep_rows(v, n, known);
	if (n_known == 0)
		kind = KIND_UNKNOWN;
	else if (n_known < n)
		kind = memcmp(known, &memory->known, sizeof(*known)) == 0 ? KIND_SAME_GAPS
									  : KIND_GAPS;
	else
		kind = !column_is_constant(v, n) ? KIND_ORDINARY : v[0] ? KIND_CONSTANT : KIND_ZERO;
	bits_put(w, kind, KIND_BITS);
	if (kind == KIND_CONSTANT)
		rice_put_number(w, v[0]);
	if (kind == KIND_GAPS) {
		row_set_write(w, known, n);
		memory->known = *known;
	}
	if (kind == KIND_ORDINARY || kind == KIND_GAPS || kind == KIND_SAME_GAPS)
		put_ordinary(w, v, n_known, memory);
}

/* The other way: n values, zeros where they were left out. */
static int get_rest(struct bit_reader *r, uint64_t *ret, unsigned n, struct column_memory *memory)
{
	struct row_set changed = first_rows(&memory->changed, n);
	uint64_t packed[CODEC_ROWS];
	unsigned n_packed, next = 0;

	if (!bits_get(r, 1))
		return rice_get(r, ret, n);
	if (!bits_get(r, 1)) {
		row_set_read(r, &changed, n);
		remember_changed(memory, &changed);
	}
	n_packed = row_set_count(&changed);
	if (n_packed > n)
		return -EBADMSG;
	if (n_packed > 0 && rice_get(r, packed, n_packed) < 0)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++)
		ret[i] = row_set_has(&changed, i) ? packed[next++] : 0;
	return 0;
}

static int get_ordinary(struct bit_reader *r, uint64_t *ret, unsigned n,
			struct column_memory *memory)
{
	unsigned order = (unsigned)bits_get(r, ORDER_BITS);

	if (order > ORDER_MAX || order >= n)
		return -EBADMSG;
	for (unsigned i = 0; i < order; i++)
		ret[i] = i == 0 ? rice_get_number(r) : unzigzag(rice_get_number(r));
	if (get_rest(r, ret + order, n - order, memory) < 0)
		return -EBADMSG;
	for (; order > 0; order--)
		add_steps(ret, order - 1, n);
	return 0;
}

/* Values outside of known are 0. r->failed or -EBADMSG if it makes no sense. */
static int column_read(struct bit_reader *r, unsigned n, struct column_memory *memory,
		       uint64_t *ret, struct row_set *ret_known)
{
	unsigned kind = (unsigned)bits_get(r, KIND_BITS), n_known;
	uint64_t v[CODEC_ROWS], value, next = 0;

	*ret_known = kind == KIND_UNKNOWN ? (struct row_set){ { 0, 0 } } : row_set_all(n);
	switch (kind) {
	case KIND_UNKNOWN:
	case KIND_ZERO:
	case KIND_CONSTANT:
		value = kind == KIND_CONSTANT ? rice_get_number(r) : 0;
		for (unsigned i = 0; i < n; i++)
			ret[i] = value;
		return 0;
	case KIND_ORDINARY:
		return get_ordinary(r, ret, n, memory);
	case KIND_GAPS:
		row_set_read(r, &memory->known, n);
		/* fallthrough */
	case KIND_SAME_GAPS:
		*ret_known = memory->known;
		n_known = row_set_count(&memory->known);
		if (n_known == 0 || n_known > n || get_ordinary(r, v, n_known, memory) < 0)
			return -EBADMSG;
		for (unsigned i = 0; i < n; i++)
			ret[i] = row_set_has(&memory->known, i) ? v[next++] : 0;
		return 0;
	}
	return -EBADMSG;
}

/*
 * A table: how many columns it has (with TABLE_MARK), n, whether it has the ticks from the first
 * on without a gap, those ticks, then the columns. Who reads more columns than it has, as a field
 * was added since, gets unknown ones.
 *
 * Values that others nearly tell are kept as what differs: see expect().
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

static int get_ticks(struct bit_reader *r, struct table *t)
{
	struct row_set ticks;
	unsigned first, n = 0;

	t->n = (unsigned)bits_get(r, ROWS_BITS);
	if (t->n == 0 || t->n > CODEC_ROWS)
		return -EBADMSG;
	if (bits_get(r, 1)) {
		row_set_read(r, &ticks, CODEC_ROWS);
		for (unsigned i = 0; i < CODEC_ROWS; i++)
			if (row_set_has(&ticks, i))
				t->tick[n++] = (uint8_t)i;
		return n == t->n ? 0 : -EBADMSG;
	}
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
	out->len = (size_t)(w.p + (w.n > 0) - (uint8_t *)out->data);
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
	for (unsigned i = 0; i < t->n; i++)
		if (!row_set_has(&known, i))
			column[i] = U64_UNKNOWN;
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
