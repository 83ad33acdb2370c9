#include "daemon/tellers.h"

#include "base/hash.h"

#define MAX_TOLD 65536 /* of some the other never tells */

static uint64_t key_of(enum teller teller, int64_t attempt_id, const struct proc_event *ev)
{
	const int64_t parts[] = { teller, attempt_id, ev->key.pid, (int64_t)ev->type };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

/* A pid may be used again in the same attempt: they are counted. */
void tellers_note(struct map *told, enum teller teller, int64_t attempt_id,
		  const struct proc_event *ev)
{
	uint64_t key = key_of(teller, attempt_id, ev), n = 0;

	if (told->len >= MAX_TOLD)
		map_clear(told);
	map_get(told, key, &n);
	map_put(told, key, n + 1); /* without memory it is told twice */
}

bool tellers_take(struct map *told, enum teller teller, int64_t attempt_id,
		  const struct proc_event *ev)
{
	uint64_t key = key_of(teller, attempt_id, ev), n = 0;

	if (!map_get(told, key, &n))
		return false;
	if (n > 1)
		map_put(told, key, n - 1); /* it is there: no memory is needed */
	else
		map_remove(told, key);
	return true;
}
