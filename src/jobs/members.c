#include "jobs/members.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"

struct members {
	struct member *items;
	size_t n, cap;
	struct map index_of; /* pid -> index in items */
	size_t next;	     /* behind the one that was seen last */
	unsigned look;
};

/* Beyond so many the dead are forgotten at once: a flood of births fills no memory. */
#define MANY_MEMBERS 65536

struct members *members_new(void)
{
	return calloc(1, sizeof(struct members));
}

struct members *members_free(struct members *m)
{
	if (!m)
		return NULL;
	free(m->items);
	map_release(&m->index_of);
	free(m);
	return NULL;
}

void members_clear(struct members *m)
{
	m->n = 0;
	map_clear(&m->index_of);
}

static struct member *find(const struct members *m, pid_t pid)
{
	uint64_t i;

	return map_get(&m->index_of, (uint64_t)(uint32_t)pid, &i) ? &m->items[i] : NULL;
}

/*
 * A look shows them in the same order as the last as a rule. A look into the map for each would
 * wait for memory, as what was there at the last tick is in no cache any more.
 */
static struct member *find_in_turn(struct members *m, pid_t pid)
{
	struct member *found;

	if (m->next < m->n && m->items[m->next].key.pid == pid)
		return &m->items[m->next++];
	found = find(m, pid);
	if (found)
		m->next = (size_t)(found - m->items) + 1;
	return found;
}

typedef bool keep_fn(const struct members *m, const struct member *member);

/* Whom keep() is true for stay, in their order. */
static void sift(struct members *m, keep_fn *keep)
{
	size_t kept = 0;

	while (kept < m->n && keep(m, &m->items[kept]))
		kept++;
	if (kept == m->n)
		return;
	kept = 0;
	map_clear(&m->index_of);
	for (size_t i = 0; i < m->n; i++) {
		if (!keep(m, &m->items[i]))
			continue;
		m->items[kept] = m->items[i];
		/* There was room for as many a moment ago. */
		map_put(&m->index_of, (uint64_t)(uint32_t)m->items[kept].key.pid, kept);
		kept++;
	}
	m->n = kept;
}

static bool lives(const struct members *m, const struct member *member)
{
	(void)m;
	return !member->is_dead;
}

static bool was_shown(const struct members *m, const struct member *member)
{
	return m->look - member->look <= 1;
}

static int make_room(struct members *m)
{
	if (m->n < m->cap)
		return 0;
	if (m->n >= MANY_MEMBERS)
		sift(m, lives);
	return m->n < m->cap / 2 ? 0 : ARRAY_RESERVE(m->items, m->cap, m->cap + 1);
}

/* In the place of whoever had its pid before. */
static struct member *put(struct members *m, const struct member *member)
{
	struct member *old = find(m, member->key.pid);

	if (!old) {
		if (make_room(m) < 0)
			return NULL;
		if (map_put(&m->index_of, (uint64_t)(uint32_t)member->key.pid, m->n) < 0)
			return NULL;
		m->items[m->n] = *member;
		return &m->items[m->n++];
	}
	*old = *member;
	return old;
}

static bool is_same(const struct member *known, const struct proc_key *key)
{
	return !u64_known(known->key.start_ticks) || !u64_known(key->start_ticks) ||
	       known->key.start_ticks == key->start_ticks;
}

void members_begin_look(struct members *m)
{
	m->look++;
}

int members_see(struct members *m, const struct member *seen)
{
	struct member *known = find_in_turn(m, seen->key.pid), now = *seen;

	if (known && is_same(known, &seen->key)) {
		known->key = seen->key;
		known->look = m->look;
		known->attempt_id = seen->attempt_id;
		known->is_runner = seen->is_runner;
		known->is_told |= seen->is_told;
		if (seen->sheet_num != SHEET_NONE)
			known->sheet_num = seen->sheet_num;
		return 0;
	}
	now.look = m->look;
	now.is_dead = false;
	return put(m, &now) ? 1 : -ENOMEM;
}

void members_end_look(struct members *m, members_fn *gone, void *ctx)
{
	for (size_t i = 0; gone && i < m->n; i++)
		if (!was_shown(m, &m->items[i]) && !m->items[i].is_dead)
			gone(ctx, &m->items[i]);
	sift(m, was_shown);
}

/* News of a birth that a look was quicker to show: without its start it is known by the time. */
#define SAME_BIRTH_NS UINT64_C(1000000000)

static bool is_same_birth(const struct member *known, uint64_t start_ticks, uint64_t wall_ns)
{
	uint64_t shown_ns = known->born_wall_ns;

	if (known->is_dead)
		return false;
	if (u64_known(known->key.start_ticks) && u64_known(start_ticks))
		return known->key.start_ticks == start_ticks;
	return u64_known(shown_ns) && u64_known(wall_ns) &&
	       (shown_ns > wall_ns ? shown_ns - wall_ns : wall_ns - shown_ns) < SAME_BIRTH_NS;
}

const struct member *members_fork(struct members *m, pid_t parent, const struct proc_key *child,
				  uint64_t wall_ns)
{
	const struct member *of = find(m, parent);
	struct member *old = find(m, child->pid);
	struct member born;

	if (old && old->is_told && is_same_birth(old, child->start_ticks, wall_ns))
		return old;
	if (!of || of->is_replaced) {
		if (old)
			old->is_dead = old->is_replaced = true;
		return NULL;
	}
	born = (struct member){
		.key = { child->pid, U64_UNKNOWN },
		.attempt_id = of->attempt_id,
		.born_wall_ns = wall_ns,
		.sheet_num = of->sheet_num,
		.look = m->look,
	};
	return put(m, &born);
}

const struct member *members_exit(struct members *m, pid_t pid)
{
	struct member *member = find(m, pid);

	if (!member || member->is_dead)
		return NULL;
	member->is_dead = true;
	return member;
}

const struct member *members_find(const struct members *m, pid_t pid)
{
	const struct member *member = find(m, pid);

	return member && !member->is_dead ? member : NULL;
}

void members_each(const struct members *m, int64_t attempt_id, members_fn *fn, void *ctx)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].attempt_id == attempt_id && !m->items[i].is_dead &&
		    !m->items[i].is_runner)
			fn(ctx, &m->items[i]);
}

size_t members_count(const struct members *m)
{
	return m->n;
}
