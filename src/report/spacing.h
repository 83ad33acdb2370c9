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

/* "20 ms to 700 ms apart", "1.00 s apart"; nothing when unknown. */
void spacing_add(struct buf *out, const struct spacing *spacing);

#endif
