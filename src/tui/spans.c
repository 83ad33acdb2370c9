#include "tui/spans.h"

#include <errno.h>
#include <stdlib.h>

#include "base/unknown.h"

void spans_release(struct spans *s)
{
	free(s->items);
	*s = (struct spans){ 0 };
}

int spans_add(struct spans *s, uint64_t began_ns, uint64_t ended_ns)
{
	if (s->n == SPANS_MAX)
		return 0;
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct span *items = reallocarray(s->items, cap, sizeof(*items));

		if (!items)
			return -ENOMEM;
		s->items = items;
		s->cap = cap;
	}
	s->items[s->n++] = (struct span){ began_ns, ended_ns };
	return 0;
}

static int compare(const void *l, const void *r)
{
	const struct span *a = l, *b = r;

	return (a->began_ns > b->began_ns) - (a->began_ns < b->began_ns);
}

void spans_sort(struct spans *s)
{
	if (s->n > 1)
		qsort(s->items, s->n, sizeof(*s->items), compare);
}

uint64_t spans_count(const struct spans *s, uint64_t at_ns)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n && s->items[i].began_ns <= at_ns; i++)
		n += !u64_known(s->items[i].ended_ns) || s->items[i].ended_ns > at_ns;
	return n;
}

bool spans_change(const struct spans *s, uint64_t after_ns, uint64_t until_ns)
{
	for (size_t i = 0; i < s->n && s->items[i].began_ns <= until_ns; i++)
		if (s->items[i].began_ns > after_ns ||
		    (s->items[i].ended_ns > after_ns && s->items[i].ended_ns <= until_ns))
			return true;
	return false;
}

uint64_t spans_first(const struct spans *s, uint64_t after_ns, uint64_t until_ns)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->items[i].ended_ns > after_ns && s->items[i].ended_ns <= until_ns)
			return s->items[i].began_ns;
	return U64_UNKNOWN;
}
