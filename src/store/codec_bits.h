/*
 * codec_bits - numbers of any width, one behind the other, lowest bit first.
 *
 * The writer does not check for room: who uses it knows the most that can come.
 * The reader gives zeros behind the end, and remembers it.
 */
#ifndef PROCTOR_STORE_CODEC_BITS_H
#define PROCTOR_STORE_CODEC_BITS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Small numbers of either sign become small ones without: 0, -1, 1, -2… are 0, 1, 2, 3… */
static inline uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ -(v >> 63);
}

static inline uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ -(v & 1);
}

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

/* The end of what was written, with the last byte filled up. */
static inline uint8_t *bits_end(const struct bit_writer *w)
{
	return w->p + (w->n > 0);
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

#endif
