#include "cli/detect_watchers.h"

#include <stddef.h>

#include "base/unknown.h"

/* Between two who record one after the other nobody looked, unless it was for a moment. */
#define MOMENT_NS UINT64_C(10000000000)

/* U64_UNKNOWN: it goes on. One that was lost has no end; each of its looks is in the record, and
 * what came after the last it has not seen. */
static uint64_t watched_until(const struct watchers *w, size_t i)
{
	const struct attempt *a = &w->attempts->items[i];

	return a->is_lost ? w->looked_wall_ns[i] : a->ended_wall_ns;
}

bool watchers_looked(const struct watchers *w, uint64_t from_wall_ns, uint64_t until_wall_ns)
{
	uint64_t at = from_wall_ns;

	for (size_t i = 0; i < w->attempts->n && at < until_wall_ns; i++) {
		const struct attempt *a = &w->attempts->items[i];
		const uint64_t ended = watched_until(w, i);

		if (!u64_known(a->started_wall_ns) || a->started_wall_ns > u64_add(at, MOMENT_NS))
			continue;
		if (!u64_known(ended))
			return true;
		at = ended > at ? ended : at;
	}
	return u64_add(at, MOMENT_NS) >= until_wall_ns;
}
