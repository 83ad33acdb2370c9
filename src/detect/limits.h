/*
 * limits - which limit most processes of a job have, of whatever each has set for itself.
 *
 * A few of them are counted at a time: where there are more, one of each and the one that finds no
 * place are taken off together. What half of them have is left over from that, and its count is
 * short by no more than how often it was done.
 */
#ifndef PROCTOR_DETECT_LIMITS_H
#define PROCTOR_DETECT_LIMITS_H

#include <stdint.h>

#define LIMITS_COUNTED 8

/* All zeros is empty. */
struct limits {
	struct limit_count {
		uint64_t limit, n; /* 0: the place is free */
	} of[LIMITS_COUNTED];
	uint64_t n_taken_off;
};

void limits_add(struct limits *l, uint64_t limit);

/*
 * The least that at least half of so many have, or U64_UNKNOWN. Where there are more than
 * LIMITS_COUNTED different ones it may be one that only seven in eighteen have.
 */
uint64_t limits_of_half(const struct limits *l, uint64_t n_all);

#endif
