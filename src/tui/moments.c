#include "tui/moments.h"

#include <errno.h>
#include <stdlib.h>

#define GAP_RATIO 3 /* to those before: who looks but every minute has recorded all the time */

void moments_release(struct moments *m)
{
	free(m->items);
	map_release(&m->recorders);
	*m = (struct moments){ 0 };
}

/* Whether it belongs to the last one. */
static bool is_same(const struct moments *m, const struct snapshot *snap)
{
	const struct moment *last = m->n > 0 ? &m->items[m->n - 1] : NULL;

	if (!last || snap->wall_ns == last->last_ns)
		return last != NULL;
	return snap->wall_ns - last->first_ns <= MOMENT_NS &&
	       !map_get(&m->recorders, (uint64_t)snap->recorder, NULL);
}

static int begin(struct moments *m, uint64_t wall_ns)
{
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 1024;
		struct moment *items = reallocarray(m->items, cap, sizeof(*items));

		if (!items)
			return -ENOMEM;
		m->items = items;
		m->cap = cap;
	}
	m->items[m->n++] = (struct moment){ wall_ns, wall_ns };
	map_clear(&m->recorders);
	return 0;
}

int moments_add(struct moments *m, const struct snapshot *snap)
{
	if (!is_same(m, snap) && begin(m, snap->wall_ns) < 0)
		return -ENOMEM;
	m->items[m->n - 1].last_ns = snap->wall_ns;
	return map_put(&m->recorders, (uint64_t)snap->recorder, 1);
}

uint64_t moments_gap(const struct moments *m, size_t i)
{
	return i > 0 && i < m->n ? m->items[i].last_ns - m->items[i - 1].last_ns : 0;
}

uint64_t moments_empty_gap(const struct moments *m, size_t i)
{
	uint64_t gap_ns = moments_gap(m, i), usual_ns = i > 0 ? moments_gap(m, i - 1) : 0;

	if (i > 2 && moments_gap(m, i - 2) < usual_ns)
		usual_ns = moments_gap(m, i - 2);
	return gap_ns > MOMENTS_LONG_GAP_NS && gap_ns > GAP_RATIO * usual_ns ? gap_ns : 0;
}
