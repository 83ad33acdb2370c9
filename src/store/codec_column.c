#include "store/codec_column.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "store/codec_rice.h"

/*
 * A column is a kind; of ordinary ones then:
 *	its known rows, where not all are
 *	the order: 0 takes the values as they are, 1 their steps, 2 the steps of those;
 *	the first order values stand before the others
 *	whether rows that are 0 now are left out, and which
 *	what is left, as Rice codes (codec_rice.h)
 */
enum kind { KIND_UNKNOWN, KIND_CONSTANT, KIND_ORDINARY, KIND_GAPS, KIND_SAME_GAPS, KIND_ZERO };
#define KIND_BITS 3

#define ORDER_BITS 2
#define ORDER_MAX 2

/* ---- sets of rows ---- */

void row_set_write(struct bit_writer *w, const struct row_set *set, unsigned n)
{
	bits_put_wide(w, set->bits[0], n < 64 ? n : 64);
	if (n > 64)
		bits_put_wide(w, set->bits[1], n - 64);
}

void row_set_read(struct bit_reader *r, struct row_set *ret, unsigned n)
{
	ret->bits[0] = bits_get_wide(r, n < 64 ? n : 64);
	ret->bits[1] = n > 64 ? bits_get_wide(r, n - 64) : 0;
}

static bool row_sets_equal(const struct row_set *a, const struct row_set *b)
{
	return a->bits[0] == b->bits[0] && a->bits[1] == b->bits[1];
}

static unsigned row_set_count(const struct row_set *set)
{
	return (unsigned)(__builtin_popcountll(set->bits[0]) + __builtin_popcountll(set->bits[1]));
}

struct row_set row_set_all(unsigned n)
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
		bits += rice_bit_length(zigzag(v[i]));
	return bits;
}

/* As they are, and without what all have: their least is told once. */
static unsigned estimate_plain(const uint64_t *v, unsigned n)
{
	uint64_t least = rice_any_negative(v, n) ? 0 : rice_minimum(v, n);
	unsigned bits = n; /* as much more than zigzag would take, less the sign */

	if (least == 0)
		return estimate(v, n);
	for (unsigned i = 0; i < n; i++)
		bits += rice_bit_length(v[i] - least);
	return bits;
}

/* Leaves v in the order that it returns. */
static unsigned choose_order(uint64_t *v, unsigned n)
{
	unsigned plain = estimate_plain(v, n), steps, second;

	if (n < 4)
		return 0;
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

/* A few zeros among the others take less than telling where they are. */
static bool is_much_like(const struct row_set *changed, const struct row_set *known, unsigned n)
{
	return is_within(changed, known) &&
	       (row_set_count(known) - row_set_count(changed)) * 6 <= n;
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
	if (is_much_like(&changed, &known, n)) {
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

/* Each like the next: libc compares several of them at once. */
bool column_is_constant(const uint64_t *v, unsigned n)
{
	return memcmp(v, v + 1, (n - 1) * sizeof(*v)) == 0;
}

static enum kind choose_kind(const uint64_t *v, unsigned n_known, unsigned n,
			     const struct row_set *known, const struct column_memory *memory)
{
	if (n_known == 0)
		return KIND_UNKNOWN;
	if (n_known < n)
		return row_sets_equal(known, &memory->known) ? KIND_SAME_GAPS : KIND_GAPS;
	if (!column_is_constant(v, n))
		return KIND_ORDINARY;
	return v[0] ? KIND_CONSTANT : KIND_ZERO;
}

void column_write(struct bit_writer *w, const uint64_t *values, const struct row_set *known,
		  unsigned n, struct column_memory *memory)
{
	uint64_t v[CODEC_ROWS];
	unsigned n_known;
	enum kind kind;

	memcpy(v, values, n * sizeof(*v));
	n_known = row_set_count(known);
	if (n_known > 0 && n_known < n)
		keep_rows(v, n, known);
	kind = choose_kind(v, n_known, n, known, memory);
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

/* The values that are known, to the rows that they are of. */
static void spread(const uint64_t *v, const struct row_set *known, unsigned n, uint64_t *ret)
{
	for (unsigned i = 0; i < n; i++)
		ret[i] = row_set_has(known, i) ? *v++ : 0;
}

static int get_with_gaps(struct bit_reader *r, unsigned n, struct column_memory *memory,
			 uint64_t *ret)
{
	uint64_t v[CODEC_ROWS];
	unsigned n_known = row_set_count(&memory->known);

	if (n_known == 0 || n_known > n || get_ordinary(r, v, n_known, memory) < 0)
		return -EBADMSG;
	spread(v, &memory->known, n, ret);
	return 0;
}

static void fill(uint64_t *ret, unsigned n, uint64_t value)
{
	for (unsigned i = 0; i < n; i++)
		ret[i] = value;
}

int column_read(struct bit_reader *r, unsigned n, struct column_memory *memory, uint64_t *ret,
		struct row_set *ret_known)
{
	unsigned kind = (unsigned)bits_get(r, KIND_BITS);

	*ret_known = row_set_all(n);
	switch (kind) {
	case KIND_UNKNOWN:
		*ret_known = (struct row_set){ { 0, 0 } };
		fill(ret, n, 0);
		return 0;
	case KIND_ZERO:
	case KIND_CONSTANT:
		fill(ret, n, kind == KIND_ZERO ? 0 : rice_get_number(r));
		return 0;
	case KIND_ORDINARY:
		return get_ordinary(r, ret, n, memory);
	case KIND_GAPS:
		row_set_read(r, &memory->known, n);
		/* fallthrough */
	case KIND_SAME_GAPS:
		*ret_known = memory->known;
		return get_with_gaps(r, n, memory, ret);
	}
	return -EBADMSG;
}
