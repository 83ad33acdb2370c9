#include "detect/limits.h"

#include <stddef.h>

#include "base/unknown.h"

/* Its own, or one that is free; NULL: all are of others. */
static struct limit_count *find_place(struct limits *l, uint64_t limit)
{
	struct limit_count *vacant = NULL;

	for (size_t i = 0; i < LIMITS_COUNTED; i++) {
		struct limit_count *c = &l->of[i];

		if (c->n > 0 && c->limit == limit)
			return c;
		if (c->n == 0 && !vacant)
			vacant = c;
	}
	return vacant;
}

void limits_add(struct limits *l, uint64_t limit)
{
	struct limit_count *c = find_place(l, limit);

	if (c) {
		c->limit = limit;
		c->n++;
		return;
	}
	for (size_t i = 0; i < LIMITS_COUNTED; i++)
		l->of[i].n--;
	l->n_taken_off++;
}

uint64_t limits_of_half(const struct limits *l, uint64_t n_all)
{
	uint64_t least = U64_UNKNOWN; /* the largest */

	for (size_t i = 0; i < LIMITS_COUNTED; i++) {
		const struct limit_count *c = &l->of[i];

		if (c->n > 0 && c->limit < least && 2 * (c->n + l->n_taken_off) >= n_all)
			least = c->limit;
	}
	return least;
}
