#include "store/codec_rice.h"

#include <errno.h>

#define ESCAPE 24 /* so many ones: all 64 bits follow */

/* ---- single numbers: how many bits, then those ---- */

#define LENGTH_BITS 7

void rice_put_number(struct bit_writer *w, uint64_t v)
{
	unsigned len = rice_bit_length(v);

	bits_put(w, len, LENGTH_BITS);
	bits_put_wide(w, v, len);
}

uint64_t rice_get_number(struct bit_reader *r)
{
	unsigned len = (unsigned)bits_get(r, LENGTH_BITS);

	if (len > 64)
		r->failed = true;
	return len > 64 ? 0 : bits_get_wide(r, len);
}

/* ---- Rice codes ---- */

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
		lengths[rice_bit_length(v[i])]++;
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

/* ---- residuals: what is left when order and zeros are told ---- */

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

bool rice_any_negative(const uint64_t *v, unsigned n)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all |= v[i];
	return all >> 63;
}

uint64_t rice_minimum(const uint64_t *v, unsigned n)
{
	uint64_t least = v[0];

	for (unsigned i = 1; i < n; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

/* At least 1. */
static uint64_t common_unit(const uint64_t *v, unsigned n, bool is_signed)
{
	uint64_t unit = 0;

	for (unsigned i = 0; i < n && unit != 1; i++) {
		bool is_negative = is_signed && v[i] >> 63;

		unit = gcd(is_negative ? -v[i] : v[i], unit);
	}
	return unit ? unit : 1;
}

static uint64_t divide(uint64_t v, uint64_t unit, bool is_signed)
{
	if (is_signed && v >> 63)
		return zigzag(-(-v / unit));
	v /= unit;
	return is_signed ? zigzag(v) : v;
}

void rice_put(struct bit_writer *w, uint64_t *v, unsigned n)
{
	bool is_signed = rice_any_negative(v, n);
	uint64_t least = is_signed ? 0 : rice_minimum(v, n);
	uint64_t unit;
	unsigned k;

	for (unsigned i = 0; i < n; i++)
		v[i] -= least;
	unit = common_unit(v, n, is_signed);
	for (unsigned i = 0; i < n && (unit > 1 || is_signed); i++)
		v[i] = divide(v[i], unit, is_signed);
	k = choose_k(v, n);
	bits_put(w, is_signed, 1);
	rice_put_number(w, least);
	rice_put_number(w, unit - 1);
	bits_put(w, k, 6);
	for (unsigned i = 0; i < n; i++)
		put_rice(w, v[i], k);
}

int rice_get(struct bit_reader *r, uint64_t *ret, unsigned n)
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
