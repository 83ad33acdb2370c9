/*
 * spans - from when to when anomalies of the record went on.
 */
#ifndef PROCTOR_TUI_SPANS_H
#define PROCTOR_TUI_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ended_ns is U64_UNKNOWN where nobody saw its end. */
struct span {
	uint64_t began_ns, ended_ns;
};

/* All zeros is empty. Of more than SPANS_MAX the later ones are not kept. */
#define SPANS_MAX 65536
struct spans {
	struct span *items; /* by when they began */
	size_t n, cap;
};

void spans_release(struct spans *s);

/* In the order of their beginnings, or with spans_sort() behind it. -ENOMEM. */
int spans_add(struct spans *s, uint64_t began_ns, uint64_t ended_ns);

/* Of those that were added in another order. */
void spans_sort(struct spans *s);

/* How many were going on at that moment. */
uint64_t spans_count(const struct spans *s, uint64_t at_ns);

/* Whether one began or ended after the one moment and not after the other. */
bool spans_change(const struct spans *s, uint64_t after_ns, uint64_t until_ns);

/* When the first began of those that ended after the one moment and not after the other. */
uint64_t spans_first(const struct spans *s, uint64_t after_ns, uint64_t until_ns);

#endif
