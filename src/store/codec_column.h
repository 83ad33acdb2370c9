/*
 * codec_column - up to CODEC_ROWS values of one field, as few bits.
 */
#ifndef PROCTOR_STORE_CODEC_COLUMN_H
#define PROCTOR_STORE_CODEC_COLUMN_H

#include "store/codec.h"
#include "store/codec_bits.h"

#define COLUMN_MAX_BYTES 1536 /* that one can take, and what the writer needs behind it */

/* A bit per row. */
struct row_set {
	uint64_t bits[2];
};

static inline void row_set_add(struct row_set *set, unsigned i)
{
	set->bits[i / 64] |= UINT64_C(1) << i % 64;
}

static inline bool row_set_has(const struct row_set *set, unsigned i)
{
	return set->bits[i / 64] >> i % 64 & 1;
}

struct row_set row_set_all(unsigned n);
void row_set_write(struct bit_writer *w, const struct row_set *set, unsigned n);
void row_set_read(struct bit_reader *r, struct row_set *ret, unsigned n);

/* Most are: of who sleeps, and where nobody knows. At least one value. */
bool column_is_constant(const uint64_t *v, unsigned n);

/* What columns of a table have in common: mostly the same rows change. */
struct column_memory {
	struct row_set changed, known;
};

/*
 * The n values, of which those outside known are not looked at. With memory as
 * it was after the column before; zeroed for the first.
 */
void column_write(struct bit_writer *w, const uint64_t *values, const struct row_set *known,
		  unsigned n, struct column_memory *memory);

/* Values outside of known are 0. r->failed or -EBADMSG if it makes no sense. */
int column_read(struct bit_reader *r, unsigned n, struct column_memory *memory, uint64_t *ret,
		struct row_set *ret_known);

#endif
