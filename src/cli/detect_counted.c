#include "cli/detect_counted.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MOST_KILLS 1e9 /* more is nonsense */

void counted_list_release(struct counted_list *list)
{
	free(list->items);
	map_release(&list->seen);
}

/* What events tell of is of a process, or critical. */
static bool is_by_count(const struct episode *e)
{
	return e->worst.type == ANOMALY_OOM_KILL && !e->worst.has_pid &&
	       e->worst.severity < SEVERITY_CRITICAL && e->peak_value >= 1 &&
	       e->peak_value < MOST_KILLS;
}

static int add(struct counted_list *list, uint64_t wall_ns, uint64_t n)
{
	if (list->n == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 16;
		struct counted *grown = reallocarray(list->items, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		list->items = grown;
		list->cap = cap;
	}
	list->items[list->n++] = (struct counted){ wall_ns, n };
	return 0;
}

int counted_list_note(struct counted_list *list, const struct episode *e)
{
	uint64_t hash, before = 0, now;
	int r;

	if (!is_by_count(e))
		return 0;
	now = (uint64_t)e->peak_value;
	hash = hash_bytes(HASH_INIT, e->name, strlen(e->name));
	map_get(&list->seen, hash, &before);
	if (now <= before)
		return 0;
	r = map_put(&list->seen, hash, now);
	return r < 0 ? r : add(list, e->peak_wall_ns, now - before);
}

static int by_time(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;

	return x->wall_ns < y->wall_ns ? -1 : x->wall_ns > y->wall_ns;
}

void counted_list_sort(struct counted_list *list)
{
	if (list->n > 0)
		qsort(list->items, list->n, sizeof(*list->items), by_time);
}

uint64_t counted_list_take(const struct counted_list *list, size_t *next, uint64_t wall_ns)
{
	uint64_t n = 0;

	while (*next < list->n && list->items[*next].wall_ns <= wall_ns)
		n += list->items[(*next)++].n;
	return n;
}
