/*
 * minute_sums - minutes of processes while samples are added up: a row for each process
 * and minute, found by both, and then in order.
 */
#ifndef PROCTOR_STORE_MINUTE_SUMS_H
#define PROCTOR_STORE_MINUTE_SUMS_H

#include "base/map.h"
#include "store/rollup.h"

/* A process in a minute. */
struct minute_sum {
	int64_t process;
	uint64_t minute;
	struct rollup_minute sums;
};

struct minute_sums {
	uint64_t from, to; /* minutes that there is room for: to is not part of it */
	struct minute_sum *rows;
	size_t n, cap;
	const struct minute_sum **sorted; /* by minute, then by process */
	size_t cap_sorted;
	struct map row_of; /* process and minute -> place in rows */
};

void minute_sums_release(struct minute_sums *s); /* of one that was zeroed */

/* No rows, for these minutes: an hour at most. */
void minute_sums_begin(struct minute_sums *s, uint64_t from, uint64_t to);

/*
 * The row, made if need be; it may move when another is made. -EOVERFLOW: there are too
 * many, but for a single minute there may be as many as there are. -ENOMEM
 */
int minute_sums_find(struct minute_sums *s, int64_t process, uint64_t minute,
		     struct minute_sum **ret);

int minute_sums_sort(struct minute_sums *s); /* -ENOMEM */

static inline bool minute_sums_has_room_for(const struct minute_sums *s, uint64_t minute)
{
	return minute >= s->from && minute < s->to;
}

#endif
