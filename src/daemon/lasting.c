#include "daemon/lasting.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/macros.h"
#include "daemon/own.h"

#define MAX_WRITTEN 1024 /* then they are forgotten, and written once more */

void lasting_release(struct lasting *l)
{
	map_release(&l->written);
}

static uint64_t hash_name(const struct episode *e)
{
	return hash_bytes(HASH_INIT, e->name, strlen(e->name));
}

static uint64_t hash_numbers(const struct episode *e)
{
	const uint64_t seen = e->seen_wall_ns / (LASTING_SEEN_SECONDS * UINT64_C(1000000000));
	uint64_t h = hash_bytes(HASH_INIT, &e->count, sizeof(e->count));

	h = hash_bytes(h, &seen, sizeof(seen));
	h = hash_bytes(h, &e->peak_value, sizeof(e->peak_value));
	return hash_bytes(h, &e->worst.severity, sizeof(e->worst.severity));
}

static bool is_written(const struct lasting *l, const struct episode *e)
{
	uint64_t was;

	return map_get(&l->written, hash_name(e), &was) && was == hash_numbers(e);
}

static void note_written(struct lasting *l, const struct anomaly_renewal *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (l->written.len >= MAX_WRITTEN)
			map_clear(&l->written);
		/* Without memory it is written again. */
		map_put(&l->written, hash_name(list[i].episode), hash_numbers(list[i].episode));
	}
}

static int write_some(struct lasting *l, const struct lasting_of *of,
		      const struct anomaly_renewal *list, size_t n)
{
	int r = n > 0 ? of->write(of->ctx, list, n) : 0;

	if (r == 0)
		note_written(l, list, n);
	return r;
}

/* What cannot be written now is written in the next round. One that is refused though others can
 * be written does not keep them out. */
static int write_list(struct lasting *l, const struct lasting_of *of,
		      const struct anomaly_renewal *list, size_t n)
{
	int r = write_some(l, of, list, n);

	if (r == 0 || trouble_may_pass(r))
		return r;
	for (size_t i = 0; n > 1 && i < n; i++) {
		r = write_some(l, of, &list[i], 1);
		if (trouble_may_pass(r))
			return r;
	}
	return 0;
}

void lasting_look(struct lasting *l, const struct lasting_of *of)
{
	struct anomaly_renewal list[LASTING_PER_LOOK];
	uint64_t now_ns = clock_boot_ns();
	const struct episode *e = NULL;
	size_t n = 0;

	if (!of->write || (l->at == 0 && now_ns < l->next_boot_ns))
		return;
	if (l->at == 0)
		l->next_boot_ns = now_ns + LASTING_SECONDS * UINT64_C(1000000000);
	while (n < LASTING_PER_LOOK && (e = detect_active(of->detect, l->at))) {
		if (!is_written(l, e))
			list[n++] = (struct anomaly_renewal){ e->attempt_id, e };
		l->at++;
	}
	if (write_list(l, of, list, n) < 0 || !e)
		l->at = 0;
}

void lasting_write_all(struct lasting *l, const struct lasting_of *of)
{
	CLEANUP(free_ptr) struct anomaly_renewal *list = NULL;
	size_t n = 0;

	while (of->write && detect_active(of->detect, n))
		n++;
	list = n > 0 ? calloc(n, sizeof(*list)) : NULL;
	for (size_t i = 0; list && i < n; i++) {
		const struct episode *e = detect_active(of->detect, i);

		list[i] = (struct anomaly_renewal){ e->attempt_id, e };
	}
	if (list)
		write_list(l, of, list, n);
}
