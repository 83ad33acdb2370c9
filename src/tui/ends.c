#include "tui/ends.h"

#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

void ends_release(struct ends *ends)
{
	map_release(&ends->attempts);
}

static uint64_t key_of(const char *job_id, int attempt_num)
{
	uint64_t h = hash_bytes(HASH_INIT, job_id, strlen(job_id) + 1);

	return hash_bytes(h, &attempt_num, sizeof(attempt_num));
}

int ends_add(struct ends *ends, const struct attempt *a)
{
	return map_put(&ends->attempts, key_of(a->job_id, a->attempt_num), a->ended_wall_ns);
}

/* U64_UNKNOWN: nobody did, or it is not known when. */
static uint64_t told_end(const struct anomaly_row *row)
{
	const struct episode_moment *last =
		row->n_changes > 0 ? &row->changes[row->n_changes - 1] : NULL;

	return last && last->change == EPISODE_CLEARED ? last->wall_ns : U64_UNKNOWN;
}

uint64_t ends_of_anomaly(const struct ends *ends, const struct anomaly_row *row)
{
	const struct episode *e = &row->episode;
	uint64_t ended_ns = U64_UNKNOWN;

	if (u64_known(e->ended_wall_ns))
		return u64_max_known(e->ended_wall_ns, told_end(row));
	if (!e->worst.job_id)
		return U64_UNKNOWN;
	map_get(&ends->attempts, key_of(e->worst.job_id, row->attempt_num), &ended_ns);
	return ended_ns;
}
