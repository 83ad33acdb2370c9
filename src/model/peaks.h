/*
 * peaks - the largest of several peaks that came one after the other, and what
 * may be said of it.
 *
 * The sheets of a job run one after the other, and so do the tries of a sheet. The
 * largest of their peaks is exact only if none of the others can have been larger.
 */
#ifndef PROCTOR_MODEL_PEAKS_H
#define PROCTOR_MODEL_PEAKS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/job.h"

struct peaks {
	uint64_t bytes; /* of those that are exact, sampled or lower bounds */
	enum evidence evidence;
	uint64_t limit_bytes; /* of those that are upper bounds */
	bool all_exact;	      /* but for the upper bounds */
};

void peaks_init(struct peaks *p);

/* One more; U64_UNKNOWN: there was one, and nobody knows how high. */
void peaks_add(struct peaks *p, uint64_t bytes, enum evidence evidence);

/* Both unknown if nothing is known. */
void peaks_settle(const struct peaks *p, uint64_t *ret_bytes, enum evidence *ret_evidence);

#endif
