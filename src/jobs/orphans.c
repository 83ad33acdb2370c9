#include "jobs/orphans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"

struct orphans {
	struct orphan *items;
	size_t n;
	struct map index_of; /* pid -> index in items */
	unsigned look;
	size_t n_seen; /* by this look */
	bool has_late; /* one comes before its parent in the snapshot */
};

struct orphans *orphans_new(void)
{
	return calloc(1, sizeof(struct orphans));
}

struct orphans *orphans_free(struct orphans *o)
{
	if (!o)
		return NULL;
	for (size_t i = 0; i < o->n; i++)
		free((char *)o->items[i].job_id);
	free(o->items);
	map_release(&o->index_of);
	free(o);
	return NULL;
}

static struct orphan *find(const struct orphans *o, pid_t pid)
{
	uint64_t i;

	return map_get(&o->index_of, (uint64_t)(uint32_t)pid, &i) ? &o->items[i] : NULL;
}

static struct orphan *add(struct orphans *o, const struct orphan *orphan)
{
	struct orphan *items;
	char *job_id;

	items = reallocarray(o->items, o->n + 1, sizeof(*items));
	if (!items)
		return NULL;
	o->items = items;
	job_id = strdup(orphan->job_id);
	if (!job_id || map_put(&o->index_of, (uint64_t)(uint32_t)orphan->key.pid, o->n) < 0) {
		free(job_id);
		return NULL;
	}
	items[o->n] = *orphan;
	items[o->n].job_id = job_id;
	return &items[o->n++];
}

int orphans_suspect(struct orphans *o, const struct orphan *suspect)
{
	struct orphan fresh = *suspect;

	if (find(o, suspect->key.pid))
		return 0;
	if (o->n >= ORPHANS_MAX)
		return -ENOSPC;
	fresh.is_dead = fresh.is_judged = false;
	fresh.cancelled_boot_ns = 0;
	fresh.is_new = true;
	fresh.look = o->look;
	return add(o, &fresh) ? 0 : -ENOMEM;
}

/* ---- looks ---- */

/* A child of an orphan, which is one too. Its parent must live: the pid may be another's. */
static struct orphan *adopt(struct orphans *o, const struct proc_sample *p)
{
	const struct orphan *parent = find(o, p->ppid);
	struct orphan child;

	if (!parent || o->n >= ORPHANS_MAX)
		return NULL;
	if (parent->look != o->look) {
		o->has_late = true;
		return NULL;
	}
	child = *parent;
	child.key = p->key;
	child.left_wall_ns = U64_UNKNOWN;
	child.is_found = child.is_dead = child.is_judged = child.is_new = false;
	return add(o, &child);
}

static void see(struct orphans *o, const struct proc_sample *p, const struct orphans_ops *ops,
		void *ctx)
{
	struct orphan *orphan = find(o, p->key.pid);

	if (orphan && orphan->key.start_ticks != p->key.start_ticks)
		return; /* the pid is somebody else's: this one is gone */
	if (orphan)
		orphan->is_taken = p->job_id != NULL;
	else if (!p->job_id)
		orphan = adopt(o, p);
	if (!orphan || orphan->is_taken)
		return;
	o->n_seen += orphan->look != o->look || !orphan->is_found;
	orphan->look = o->look;
	if (!orphan->is_found)
		ops->found(ctx, orphan, p);
	orphan->is_found = true;
}

/* Snapshots go by pid, and pids wrap around: what comes before its parent is seen the next time. */
int orphans_look(struct orphans *o, const struct snapshot *snap, const struct orphans_ops *ops,
		 void *ctx)
{
	size_t n_seen, kept = 0;
	int r = 0;

	if (o->n == 0)
		return 0;
	o->look++;
	o->n_seen = 0;
	do {
		n_seen = o->n_seen;
		o->has_late = false;
		for (size_t i = 0; i < snap->n_processes; i++)
			if (snap->processes[i].state != 'Z' && snap->processes[i].state != 'X')
				see(o, &snap->processes[i], ops, ctx);
	} while (o->has_late && o->n_seen > n_seen);
	map_clear(&o->index_of);
	for (size_t i = 0; i < o->n; i++) {
		if (o->items[i].look != o->look && !o->items[i].is_new) {
			if (o->items[i].is_found && !o->items[i].is_dead && !o->items[i].is_taken)
				ops->gone(ctx, &o->items[i]);
			free((char *)o->items[i].job_id);
			continue;
		}
		o->items[kept] = o->items[i];
		o->items[kept].is_new = false;
		if (map_put(&o->index_of, (uint64_t)(uint32_t)o->items[kept].key.pid, kept) < 0)
			r = -ENOMEM;
		kept++;
	}
	o->n = kept;
	return r;
}

struct orphan *orphans_find(struct orphans *o, pid_t pid)
{
	struct orphan *orphan = find(o, pid);

	return orphan && orphan->is_found ? orphan : NULL;
}

struct orphan *orphans_next(struct orphans *o, const struct orphan *after)
{
	for (size_t i = after ? (size_t)(after - o->items) + 1 : 0; i < o->n; i++)
		if (o->items[i].is_found)
			return &o->items[i];
	return NULL;
}

size_t orphans_count(const struct orphans *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n; i++)
		n += o->items[i].is_found;
	return n;
}
