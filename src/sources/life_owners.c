#include "sources/life_owners.h"

#include "base/unknown.h"

/* Of all jobs together; who comes later is unknown. */
#define MAX_FOLLOWED 65536

void life_owners_release(struct life_owners *o)
{
	map_release(&o->by_pid);
}

void life_owners_forget(struct life_owners *o)
{
	map_clear(&o->by_pid);
}

void life_owners_follow(struct life_owners *o, pid_t pid, uint64_t uid)
{
	if (o->by_pid.len < MAX_FOLLOWED)
		(void)map_put(&o->by_pid, (uint64_t)pid, uid); /* or it is unknown */
}

/* Whoever had the pid before is gone. */
static void take_fork(struct life_owners *o, const struct life_raw *raw)
{
	uint64_t uid;

	if (raw->tid != raw->pid)
		return;
	if (map_get(&o->by_pid, (uint64_t)raw->parent_pid, &uid))
		life_owners_follow(o, raw->pid, uid);
	else
		map_remove(&o->by_pid, (uint64_t)raw->pid);
}

/* No program of a user's own changes its group. */
static void take_change(struct life_owners *o, const struct life_raw *raw)
{
	uint64_t uid;

	if (map_get(&o->by_pid, (uint64_t)raw->pid, &uid) &&
	    (raw->type == LIFE_RAW_GID || raw->uid != uid || raw->euid != uid))
		map_remove(&o->by_pid, (uint64_t)raw->pid);
}

void life_owners_feed(struct life_owners *o, const struct life_raw *raw)
{
	if (raw->type == LIFE_RAW_FORK)
		take_fork(o, raw);
	else if (raw->type == LIFE_RAW_UID || raw->type == LIFE_RAW_GID)
		take_change(o, raw);
}

uint64_t life_owners_take(struct life_owners *o, pid_t pid)
{
	uint64_t uid = U64_UNKNOWN;

	if (map_get(&o->by_pid, (uint64_t)pid, &uid))
		map_remove(&o->by_pid, (uint64_t)pid);
	return uid;
}
