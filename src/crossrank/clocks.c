#include "crossrank/clocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"

/* Names that any host may have. */
static const char *const no_names[] = { "unknown", "localhost", "localhost.localdomain", "" };

static bool is_unnamed(const struct identity *id)
{
	if (id->clock.boot_id.s)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(no_names); i++)
		if (id->host.n == strlen(no_names[i]) &&
		    strncasecmp(id->host.s, no_names[i], id->host.n) == 0)
			return true;
	return false;
}

/* A name that any host may have is this rank's alone. */
static uint64_t clock_key(const struct identity *id)
{
	bool has_boot = id->clock.boot_id.s != NULL;
	struct text name = has_boot ? id->clock.boot_id : id->host;
	uint64_t h = hash_bytes(HASH_INIT, &has_boot, sizeof(has_boot));

	if (is_unnamed(id))
		return hash_bytes(h, &id->rank, sizeof(id->rank));
	return hash_bytes(h, name.s, name.n);
}

/* What one of a rank's identities says about its clock; the worst of all of them counts. */
static void add_said(struct rank_clock *clock, const struct identity *id, int64_t assumed_ns)
{
	bool is_silent = id->clock.error_ns == EVENT_UNKNOWN;
	int64_t error_ns = id->clock.error_ns;

	if (is_silent)
		error_ns = assumed_ns == EVENT_UNKNOWN ? CLOCKS_ASSUMED_NS : assumed_ns;
	clock->is_assumed |= is_silent;
	clock->is_unnamed |= is_silent && assumed_ns == EVENT_UNKNOWN && is_unnamed(id);
	clock->is_free |= id->clock.is_free || clock->is_unnamed;
	clock->error = fmax(clock->error, (double)error_ns / 1e9);
}

double clocks_between(const struct identity *a, const struct identity *b, int64_t assumed_ns)
{
	struct rank_clock x = { 0 }, y = { 0 };

	if (clock_key(a) == clock_key(b))
		return 0;
	add_said(&x, a, assumed_ns);
	add_said(&y, b, assumed_ns);
	return x.is_free || y.is_free ? INFINITY : x.error + y.error;
}

/* Returns the key of its clock; of a rank that has been on several, one of its own. */
static uint64_t hear_rank(const struct rank_analysis *a, size_t i, int64_t assumed_ns,
			  struct rank_clock *ret)
{
	const struct stream *s = a->ranks[i].total;
	uint32_t last = UINT32_MAX;
	uint64_t key = 0, seen = 0;

	for (size_t k = 0; k < s->n; k++) {
		const struct identity *id = &a->telemetry->identities[s->samples[k].identity];

		if (s->samples[k].identity == last)
			continue;
		last = s->samples[k].identity;
		if (clock_key(id) != seen) {
			seen = clock_key(id);
			key = k == 0 ? seen : hash_bytes(key, &seen, sizeof(seen));
		}
		add_said(ret, id, assumed_ns);
	}
	return key;
}

int clocks_find(const struct rank_analysis *a, int64_t assumed_ns, struct rank_clock **ret,
		size_t *ret_n_clocks)
{
	CLEANUP(free_ptr) struct rank_clock *clocks = calloc(a->n_ranks + 1, sizeof(*clocks));
	CLEANUP(map_release) struct map numbers = MAP_INIT;

	if (!clocks)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_ranks; i++) {
		uint64_t key = hear_rank(a, i, assumed_ns, &clocks[i]), number;

		if (!map_get(&numbers, key, &number)) {
			number = numbers.len;
			if (map_put(&numbers, key, number) < 0)
				return -ENOMEM;
		}
		clocks[i].number = number;
	}
	/* One clock is in order with itself, whatever it says. */
	for (size_t i = 0; i < a->n_ranks && numbers.len == 1; i++)
		clocks[i] = (struct rank_clock){ .number = 0 };
	*ret_n_clocks = numbers.len;
	*ret = TAKE_PTR(clocks);
	return 0;
}
