#include "jobs/assign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"

/* What is known of a process while a snapshot is gone through. */
enum { UNSEEN = -1, NOBODY = -2, LOOKING = -3 }; /* else the number of the root */

/* Whose a process was at the snapshot before. */
struct belonging {
	struct proc_key key;
	const char *job_id;
	int sheet_num;
};

struct assigner {
	struct belonging *members;
	size_t n_members, cap_members;
	size_t next_member;   /* behind the one that was found last */
	bool are_as_shown;    /* members are those of the last snapshot, in its order */
	struct map member_of; /* pid -> index in members */
	struct map index_of;  /* pid -> index in the snapshot */
	pid_t *indexed;	      /* the pids that this is made of, as they stood */
	size_t n_indexed;
	struct map root_of;	/* pid -> index of the root */
	struct map root_by_job; /* address of the job's id -> the same */
	int *owners;		/* of each process of the snapshot */
	size_t *path;		/* from a process up to an ancestor that is known */
	size_t cap;		/* of the three */
};

struct assigner *assigner_new(void)
{
	return calloc(1, sizeof(struct assigner));
}

struct assigner *assigner_free(struct assigner *a)
{
	if (!a)
		return NULL;
	free(a->members);
	map_release(&a->member_of);
	map_release(&a->index_of);
	map_release(&a->root_of);
	map_release(&a->root_by_job);
	free(a->owners);
	free(a->path);
	free(a->indexed);
	free(a);
	return NULL;
}

static bool is_same(const struct proc_key *a, const struct proc_key *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks && u64_known(a->start_ticks);
}

/* ---- one snapshot ---- */

struct round {
	struct assigner *a;
	struct snapshot *s;
	const struct assign_root *roots;
	size_t n_roots;
};

static int reserve(struct assigner *a, size_t n)
{
	int *owners;
	size_t *path;
	pid_t *indexed;

	if (n <= a->cap)
		return 0;
	owners = reallocarray(a->owners, n, sizeof(*owners));
	if (owners)
		a->owners = owners;
	path = reallocarray(a->path, n, sizeof(*path));
	if (path)
		a->path = path;
	indexed = reallocarray(a->indexed, n, sizeof(*indexed));
	if (indexed)
		a->indexed = indexed;
	if (!owners || !path || !indexed)
		return -ENOMEM;
	a->cap = n;
	return 0;
}

static bool is_indexed(const struct round *r)
{
	const struct assigner *a = r->a;

	if (a->n_indexed != r->s->n_processes)
		return false;
	for (size_t i = 0; i < a->n_indexed; i++)
		if (a->indexed[i] != r->s->processes[i].key.pid)
			return false;
	return true;
}

/*
 * Mostly nobody was born or has died since the last snapshot, and every pid stands where it stood:
 * to compare a row of them is much less than to fill the map, which is in no cache any more.
 */
static int index_processes(struct round *r)
{
	struct assigner *a = r->a;

	if (is_indexed(r))
		return 0;
	a->n_indexed = 0;
	map_clear(&a->index_of);
	for (size_t i = 0; i < r->s->n_processes; i++) {
		a->indexed[i] = r->s->processes[i].key.pid;
		if (map_put(&a->index_of, (uint64_t)a->indexed[i], i) < 0) {
			map_clear(&a->index_of);
			return -ENOMEM;
		}
	}
	a->n_indexed = r->s->n_processes;
	return 0;
}

static int begin_round(struct round *r)
{
	struct assigner *a = r->a;

	map_clear(&a->root_of);
	map_clear(&a->root_by_job);
	if (reserve(a, r->s->n_processes) < 0 || index_processes(r) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < r->s->n_processes; i++)
		a->owners[i] = UNSEEN;
	for (size_t i = 0; i < r->n_roots; i++)
		if (map_put(&a->root_of, (uint64_t)r->roots[i].key.pid, i) < 0 ||
		    map_put(&a->root_by_job, (uint64_t)(uintptr_t)r->roots[i].job_id, i) < 0)
			return -ENOMEM;
	return 0;
}

/* The root that a job has now; UNSEEN: it is not watched any more. */
static int find_job(const struct round *r, const char *job_id)
{
	uint64_t i;

	return map_get(&r->a->root_by_job, (uint64_t)(uintptr_t)job_id, &i) ? (int)i : UNSEEN;
}

/* Members stand as the last snapshot had them: it is the one behind the last, as a rule. */
static const struct belonging *find_member(struct assigner *a, const struct proc_key *key)
{
	uint64_t i = a->next_member;

	if ((i >= a->n_members || !is_same(&a->members[i].key, key)) &&
	    (!map_get(&a->member_of, (uint64_t)key->pid, &i) || !is_same(&a->members[i].key, key)))
		return NULL;
	a->next_member = i + 1;
	return &a->members[i];
}

/* The root that this process is, or -1. */
static int find_root(const struct round *r, const struct proc_key *key)
{
	uint64_t i;

	return map_get(&r->a->root_of, (uint64_t)key->pid, &i) && is_same(&r->roots[i].key, key)
		       ? (int)i
		       : -1;
}

/* Whose children process number i has: as a root those of its job, else as it belongs. */
static int owner_of_children(const struct round *r, size_t i)
{
	int root = find_root(r, &r->s->processes[i].key);

	return root >= 0 ? root : r->a->owners[i];
}

/* What is known of it without its parent; UNSEEN: nothing. */
static int owner_by_itself(const struct round *r, size_t i)
{
	const struct proc_sample *p = &r->s->processes[i];
	int root = find_root(r, &p->key);
	const struct belonging *member;

	if (root >= 0 && !r->roots[root].is_runner)
		return root;
	member = find_member(r->a, &p->key);
	return member ? find_job(r, member->job_id) : UNSEEN;
}

/* The parent's place in the snapshot; false: it is not there. */
static bool find_parent(const struct round *r, size_t i, size_t *ret)
{
	uint64_t parent;

	if (!map_get(&r->a->index_of, (uint64_t)r->s->processes[i].ppid, &parent))
		return false;
	*ret = parent;
	return true;
}

/*
 * Up to an ancestor that is known, and down again with that. Pids wrap around,
 * so a parent may come later than its child; a circle (the table was read while
 * it changed) belongs to nobody.
 */
static void settle(const struct round *r, size_t i)
{
	int *owners = r->a->owners, owner = NOBODY;
	size_t *path = r->a->path, n = 0;

	while (owners[i] == UNSEEN) {
		owners[i] = owner_by_itself(r, i);
		if (owners[i] != UNSEEN)
			break;
		owners[i] = LOOKING;
		path[n++] = i;
		if (!find_parent(r, i, &i))
			break;
	}
	if (owners[i] != LOOKING)
		owner = owner_of_children(r, i);
	while (n > 0) {
		i = path[--n];
		owners[i] = owner;
		owner = owner_of_children(r, i);
	}
}

/* ---- what stays ---- */

static int reserve_members(struct assigner *a)
{
	size_t cap = a->cap_members ? a->cap_members * 2 : 64;
	struct belonging *members;

	if (a->n_members < a->cap_members)
		return 0;
	members = reallocarray(a->members, cap, sizeof(*members));
	if (!members)
		return -ENOMEM;
	a->members = members;
	a->cap_members = cap;
	return 0;
}

static int add_member(struct assigner *a, const struct belonging *member)
{
	if (reserve_members(a) < 0 ||
	    map_put(&a->member_of, (uint64_t)member->key.pid, a->n_members) < 0)
		return -ENOMEM;
	a->members[a->n_members++] = *member;
	return 0;
}

/* In the place of what was known of its pid: each has one place, whichever way it is found. */
int assign_remember(struct assigner *a, const struct proc_key *key, const char *job_id,
		    int sheet_num)
{
	const struct belonging member = { *key, job_id, sheet_num };
	uint64_t i;

	a->are_as_shown = false;
	if (!map_get(&a->member_of, (uint64_t)key->pid, &i))
		return add_member(a, &member);
	a->members[i] = member;
	return 0;
}

/* With the sheet that it was first seen in. */
static void tell(const struct round *r, size_t i, size_t *n_of)
{
	struct proc_sample *p = &r->s->processes[i];
	int owner = r->a->owners[i];
	const struct belonging *member = find_member(r->a, &p->key);

	p->job_id = NULL;
	p->attempt_id = 0;
	p->sheet_num = SHEET_NONE;
	if (owner < 0)
		return;
	p->job_id = r->roots[owner].job_id;
	p->attempt_id = r->roots[owner].attempt_id;
	p->sheet_num = member ? member->sheet_num : r->roots[owner].sheet_num;
	n_of[owner]++;
}

/* Brings members up to date where they are; false: they are others than those of the snapshot. */
static bool renew_all(const struct round *r)
{
	struct assigner *a = r->a;
	size_t n = 0;

	for (size_t i = 0; a->are_as_shown && i < r->s->n_processes; i++) {
		const struct proc_sample *p = &r->s->processes[i];

		if (!p->job_id)
			continue;
		if (n == a->n_members || !is_same(&a->members[n].key, &p->key))
			return false;
		a->members[n++] = (struct belonging){ p->key, p->job_id, p->sheet_num };
	}
	return a->are_as_shown && n == a->n_members;
}

static int remember_all(const struct round *r)
{
	struct assigner *a = r->a;

	if (renew_all(r))
		return 0;
	a->are_as_shown = false;
	a->n_members = 0;
	map_clear(&a->member_of);
	for (size_t i = 0; i < r->s->n_processes; i++) {
		const struct proc_sample *p = &r->s->processes[i];
		const struct belonging member = { p->key, p->job_id, p->sheet_num };

		if (p->job_id && add_member(a, &member) < 0)
			return -ENOMEM;
	}
	a->are_as_shown = true;
	return 0;
}

int assign_processes(struct assigner *a, struct snapshot *s, const struct assign_root *roots,
		     size_t n_roots, size_t *n_of)
{
	struct round r = { a, s, roots, n_roots };

	for (size_t i = 0; i < n_roots; i++)
		n_of[i] = 0;
	if (begin_round(&r) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_processes; i++)
		settle(&r, i);
	for (size_t i = 0; i < s->n_processes; i++)
		tell(&r, i, n_of);
	return remember_all(&r);
}

void assigner_forget_job(struct assigner *a, const char *job_id)
{
	a->are_as_shown = false;
	for (size_t i = 0; i < a->n_members; i++) {
		struct belonging *member = &a->members[i];

		if (member->job_id != job_id)
			continue;
		map_remove(&a->member_of, (uint64_t)member->key.pid);
		*member = (struct belonging){ { 0, U64_UNKNOWN }, NULL, SHEET_NONE };
	}
}

/* Deeper than any tree that grows within a moment; and a circle ends. */
#define MAX_ANCESTORS 64

static int sheet_of_ancestors(const struct assigner *a, const struct snapshot *s, size_t i)
{
	int owner = a->owners[i];
	uint64_t parent;

	for (int n = 0; n < MAX_ANCESTORS; n++) {
		if (!map_get(&a->index_of, (uint64_t)s->processes[i].ppid, &parent) ||
		    a->owners[parent] != owner)
			return SHEET_NONE;
		i = parent;
		if (s->processes[i].sheet_num != SHEET_NONE)
			return s->processes[i].sheet_num;
	}
	return SHEET_NONE;
}

void assign_inherit_sheets(const struct assigner *a, struct snapshot *s)
{
	for (size_t i = 0; i < s->n_processes; i++)
		if (a->owners[i] >= 0 && s->processes[i].sheet_num == SHEET_NONE)
			s->processes[i].sheet_num = sheet_of_ancestors(a, s, i);
}

int assign_find(const struct assigner *a, pid_t pid)
{
	uint64_t i;

	return map_get(&a->index_of, (uint64_t)pid, &i) ? (int)i : -1;
}

int assign_owner(const struct assigner *a, size_t i)
{
	return a->owners[i] >= 0 ? a->owners[i] : -1;
}
