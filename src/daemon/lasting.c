#include "daemon/lasting.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define MAX_WRITTEN 1024 /* then they are forgotten, and written once more */

void lasting_release(struct lasting *l)
{
	map_release(&l->written);
}

static uint64_t hash_numbers(const struct episode *e)
{
	uint64_t h = hash_bytes(HASH_INIT, &e->count, sizeof(e->count));

	h = hash_bytes(h, &e->peak_value, sizeof(e->peak_value));
	return hash_bytes(h, &e->worst.severity, sizeof(e->worst.severity));
}

/* 1: it was written. 0: it is as it was. */
static int renew(struct lasting *l, const struct lasting_of *of, const struct episode *e)
{
	uint64_t name = hash_bytes(HASH_INIT, e->name, strlen(e->name)), was;
	uint64_t numbers = hash_numbers(e);
	int64_t attempt_id = e->worst.job_id && of->attempt_id ? of->attempt_id : e->attempt_id;
	struct err err = ERR_INIT;
	int r;

	if (map_get(&l->written, name, &was) && was == numbers)
		return 0;
	r = store_renew_anomaly(of->store, attempt_id, e, &err);
	if (r < 0) {
		log_debug("%s is not renewed: %s", e->name, err.text);
		return r;
	}
	if (l->written.len >= MAX_WRITTEN)
		map_clear(&l->written);
	map_put(&l->written, name, numbers); /* without memory it is written again */
	return 1;
}

/* Whether there may be more. What cannot be written now is written the next time. */
static bool write_some(struct lasting *l, const struct lasting_of *of, size_t n_most)
{
	const struct episode *e;
	size_t n = 0;

	for (size_t i = 0; n < n_most && (e = detect_active(of->detect, i)); i++) {
		int r = renew(l, of, e);

		if (r < 0)
			return false;
		n += (size_t)r;
	}
	return n == n_most;
}

void lasting_look(struct lasting *l, const struct lasting_of *of)
{
	uint64_t now_ns = clock_boot_ns();

	if (!of->store || now_ns < l->next_boot_ns)
		return;
	if (!write_some(l, of, LASTING_PER_LOOK))
		l->next_boot_ns = now_ns + LASTING_SECONDS * UINT64_C(1000000000);
}

void lasting_write_all(struct lasting *l, const struct lasting_of *of)
{
	if (of->store)
		write_some(l, of, SIZE_MAX);
}
