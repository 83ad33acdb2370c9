/*
 * codec_rice - noise in as many bits as it has; general compression finds
 * nothing in it.
 *
 * Values, one or more: whether some are negative (then the sign is the lowest
 * bit) or else the least; what all are multiples of (clock ticks, pages); and
 * Rice codes of the rest: v >> k as so many ones and a zero, then the k lower bits.
 */
#ifndef PROCTOR_STORE_CODEC_RICE_H
#define PROCTOR_STORE_CODEC_RICE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/codec_bits.h"

/* Changes v. */
void rice_put(struct bit_writer *w, uint64_t *v, unsigned n);
int rice_get(struct bit_reader *r, uint64_t *ret, unsigned n);

/* One number: how many bits, then those. */
void rice_put_number(struct bit_writer *w, uint64_t v);
uint64_t rice_get_number(struct bit_reader *r);

static inline unsigned rice_bit_length(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

bool rice_any_negative(const uint64_t *v, unsigned n); /* as two's complement */
uint64_t rice_minimum(const uint64_t *v, unsigned n);

#endif
