#include "crossrank/clocks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"

/* A rank's own, as its first sample has it. */
static const struct identity *identity_of(const struct rank_analysis *a, size_t i)
{
	return &a->telemetry->identities[a->ranks[i].stream->samples[0].identity];
}

static uint64_t clock_key(const struct identity *id)
{
	bool has_boot = id->clock.boot_id.s != NULL;
	struct text name = has_boot ? id->clock.boot_id : id->host;

	return hash_bytes(hash_bytes(HASH_INIT, &has_boot, sizeof(has_boot)), name.s, name.n);
}

static int number_clocks(const struct rank_analysis *a, struct rank_clock *clocks, size_t *ret_n)
{
	CLEANUP(map_release) struct map numbers = MAP_INIT;

	for (size_t i = 0; i < a->n_ranks; i++) {
		uint64_t key = clock_key(identity_of(a, i)), number;

		if (!map_get(&numbers, key, &number)) {
			number = numbers.len;
			if (map_put(&numbers, key, number) < 0)
				return -ENOMEM;
		}
		clocks[i].number = number;
	}
	*ret_n = numbers.len;
	return 0;
}

int clocks_find(const struct rank_analysis *a, int64_t assumed_ns, struct rank_clock **ret,
		size_t *ret_n_clocks)
{
	CLEANUP(free_ptr) struct rank_clock *clocks = calloc(a->n_ranks + 1, sizeof(*clocks));
	int r = clocks ? number_clocks(a, clocks, ret_n_clocks) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t i = 0; i<a->n_ranks && * ret_n_clocks> 1; i++) {
		const struct event_clock *said = &identity_of(a, i)->clock;
		int64_t error_ns = said->error_ns;

		clocks[i].is_free = said->is_free;
		clocks[i].is_assumed = error_ns == EVENT_UNKNOWN;
		if (clocks[i].is_assumed)
			error_ns = assumed_ns == EVENT_UNKNOWN ? CLOCKS_ASSUMED_NS : assumed_ns;
		clocks[i].error = (double)error_ns / 1e9;
	}
	*ret = TAKE_PTR(clocks);
	return 0;
}
