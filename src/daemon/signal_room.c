#include "daemon/signal_room.h"

#include "base/hash.h"

/* Of all attempts together: when there are more, some are listed once more. */
#define MAX_KINDS 65536

void signal_room_release(struct signal_room *room)
{
	map_release(&room->n_of);
	map_release(&room->n_same);
}

/* How many there were of its kind before. */
static uint64_t count_same(struct signal_room *room, int64_t attempt_id,
			   const struct proc_event *ev, pid_t sender)
{
	const int64_t parts[] = { attempt_id, ev->key.pid, ev->status.signal, sender };
	uint64_t key = hash_bytes(HASH_INIT, parts, sizeof(parts)), n = 0;

	if (room->n_same.len >= MAX_KINDS)
		map_clear(&room->n_same);
	map_get(&room->n_same, key, &n);
	(void)map_put(&room->n_same, key, n + 1); /* without memory it counts as the first */
	return n;
}

static uint64_t limit_for(const struct proc_event *ev, uint64_t n_same)
{
	if (ev->type == EVENT_KILL || ev->type == EVENT_OOM)
		return SIGNAL_ROOM_KILLS;
	if (n_same == 0)
		return SIGNAL_ROOM_FIRST;
	return n_same < SIGNAL_ROOM_SAME ? SIGNAL_ROOM_REPEATED : 0;
}

bool signal_room_take(struct signal_room *room, int64_t attempt_id, const struct proc_event *ev,
		      pid_t sender)
{
	uint64_t limit = limit_for(ev, count_same(room, attempt_id, ev, sender)), n = 0;

	map_get(&room->n_of, (uint64_t)attempt_id, &n);
	return n < limit && map_put(&room->n_of, (uint64_t)attempt_id, n + 1) == 0;
}

void signal_room_forget(struct signal_room *room, int64_t attempt_id)
{
	map_remove(&room->n_of, (uint64_t)attempt_id);
}
