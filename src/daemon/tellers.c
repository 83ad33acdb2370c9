#include "daemon/tellers.h"

#include "base/hash.h"

/* So many of each age. */
#define MAX_TOLD 32768

void tellers_release(struct tellers *told)
{
	map_release(&told->young);
	map_release(&told->old);
}

static uint64_t key_of(enum teller teller, int64_t attempt_id, const struct proc_event *ev)
{
	const int64_t parts[] = { teller, attempt_id, ev->key.pid, (int64_t)ev->type };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

/* A pid may be used again in the same attempt: they are counted. */
void tellers_note(struct tellers *told, enum teller teller, int64_t attempt_id,
		  const struct proc_event *ev)
{
	uint64_t key = key_of(teller, attempt_id, ev), n = 0;

	if (told->young.len >= MAX_TOLD) {
		map_release(&told->old);
		told->old = told->young;
		told->young = (struct map)MAP_INIT;
	}
	map_get(&told->young, key, &n);
	map_put(&told->young, key, n + 1); /* without memory it is told twice */
}

static bool take_from(struct map *map, uint64_t key)
{
	uint64_t n = 0;

	if (!map_get(map, key, &n))
		return false;
	if (n > 1)
		map_put(map, key, n - 1); /* it is there: no memory is needed */
	else
		map_remove(map, key);
	return true;
}

bool tellers_take(struct tellers *told, enum teller teller, int64_t attempt_id,
		  const struct proc_event *ev)
{
	uint64_t key = key_of(teller, attempt_id, ev);

	return take_from(&told->old, key) || take_from(&told->young, key);
}
