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
	struct map member_of;	/* pid -> index in members */
	struct map index_of;	/* pid -> index in the snapshot */
	struct map root_of;	/* pid -> index of the root */
	struct map root_by_job; /* address of the job's id -> the same */
	int *owners;		/* of each process of the snapshot */
	size_t *path;		/* from a process up to an ancestor that is known */
	size_t cap;		/* of both */
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

	if (n <= a->cap)
		return 0;
	owners = reallocarray(a->owners, n, sizeof(*owners));
	if (owners)
		a->owners = owners;
	path = reallocarray(a->path, n, sizeof(*path));
	if (path)
		a->path = path;
	if (!owners || !path)
		return -ENOMEM;
	a->cap = n;
	return 0;
}

static int begin_round(struct round *r)
{
	struct assigner *a = r->a;

	map_clear(&a->index_of);
	map_clear(&a->root_of);
	map_clear(&a->root_by_job);
	if (reserve(a, r->s->n_processes) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < r->s->n_processes; i++) {
		a->owners[i] = UNSEEN;
		if (map_put(&a->index_of, (uint64_t)r->s->processes[i].key.pid, i) < 0)
			return -ENOMEM;
	}
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

static const struct belonging *find_member(const struct assigner *a, const struct proc_key *key)
{
	uint64_t i;

	if (!map_get(&a->member_of, (uint64_t)key->pid, &i) || !is_same(&a->members[i].key, key))
		return NULL;
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

int assign_remember(struct assigner *a, const struct proc_key *key, const char *job_id,
		    int sheet_num)
{
	if (a->n_members == a->cap_members) {
		size_t cap = a->cap_members ? a->cap_members * 2 : 64;
		struct belonging *members = reallocarray(a->members, cap, sizeof(*members));

		if (!members)
			return -ENOMEM;
		a->members = members;
		a->cap_members = cap;
	}
	a->members[a->n_members] = (struct belonging){ *key, job_id, sheet_num };
	return map_put(&a->member_of, (uint64_t)key->pid, a->n_members++);
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

static int remember_all(const struct round *r)
{
	int result = 0;

	r->a->n_members = 0;
	map_clear(&r->a->member_of);
	for (size_t i = 0; result == 0 && i < r->s->n_processes; i++) {
		const struct proc_sample *p = &r->s->processes[i];

		if (p->job_id)
			result = assign_remember(r->a, &p->key, p->job_id, p->sheet_num);
	}
	return result;
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
	for (size_t i = 0; i < a->n_members; i++)
		if (a->members[i].job_id == job_id)
			map_remove(&a->member_of, (uint64_t)a->members[i].key.pid);
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
