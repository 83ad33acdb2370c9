/*
 * spacing - how far apart the samples of an attempt lie.
 *
 * The first ones come quickly, then the gaps grow to the interval, and a busy
 * machine misses some: so the interval alone would be a claim, the gaps are not.
 */
#ifndef PROCTOR_REPORT_SPACING_H
#define PROCTOR_REPORT_SPACING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/job.h"

/* The smallest and the largest gap. */
struct spacing {
	uint64_t min_ns, max_ns; /* unknown with fewer than two samples */
};

struct spacing spacing_of_samples(const struct attempt *a);

/* Of those that know the CPU use: it takes a longer look than memory does. */
struct spacing spacing_of_cpu(const struct attempt *a);

/*
 * The longest time without a sample, where that is longer than a busy machine explains: whoever
 * recorded was killed with what it had not stored yet, or stood still. False: there is none.
 */
struct gap {
	uint64_t from_wall_ns, until_wall_ns;
	size_t n; /* so many are longer than that; this is the longest */
};
bool spacing_find_gap(const struct attempt *a, struct gap *ret);

/* "20 ms to 700 ms apart", "1.00 s apart"; nothing when unknown. */
void spacing_add(struct buf *out, const struct spacing *spacing);

#endif
