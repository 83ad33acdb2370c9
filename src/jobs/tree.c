#include "jobs/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/unknown.h"

struct tree {
	const char *job_id;
	pid_t runner_pid;
	int sheet_num;
	unsigned long round;
	struct tree_member *members; /* dense: the last one fills a hole */
	size_t n, cap;
	struct map strangers;	     /* pid -> start_ticks */
	struct map by_pid;	     /* pid -> index into members */
	struct map scan;	     /* pid -> index into the snapshot being assigned */
	unsigned char *known;	     /* per process of that snapshot: enum verdict */
	pid_t *pids;		     /* what tree_pids() hands out */
	pid_t ended[TREE_MAX_ENDED]; /* whom perhaps nobody has waited for yet */
	size_t n_ended;
	size_t *chain; /* the way up from one process */
	size_t cap_scan;
};

enum verdict { UNDECIDED, ON_THE_WAY, OUTSIDE, MEMBER };

struct tree *tree_new(const char *job_id, pid_t runner_pid)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	tree->job_id = job_id;
	tree->runner_pid = runner_pid;
	tree->sheet_num = SHEET_NONE;
	return tree;
}

struct tree *tree_free(struct tree *tree)
{
	if (!tree)
		return NULL;
	free(tree->members);
	free(tree->known);
	free(tree->chain);
	free(tree->pids);
	map_release(&tree->strangers);
	map_release(&tree->by_pid);
	map_release(&tree->scan);
	free(tree);
	return NULL;
}

void tree_set_sheet(struct tree *tree, int sheet_num)
{
	tree->sheet_num = sheet_num;
}

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

static struct tree_member *find_member(const struct tree *tree, pid_t pid)
{
	uint64_t i;

	return map_get(&tree->by_pid, pid_key(pid), &i) ? &tree->members[i] : NULL;
}

const struct tree_member *tree_find(const struct tree *tree, pid_t pid)
{
	return find_member(tree, pid);
}

static bool is_seen(const struct tree *tree, const struct tree_member *m)
{
	return m->round == tree->round && u64_known(m->key.start_ticks);
}

size_t tree_count(const struct tree *tree)
{
	return tree->n;
}

/* Its pid is a new process's: nobody is to look at it twice. */
static void forget_ended(struct tree *tree, pid_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < tree->n_ended; i++)
		if (tree->ended[i] != pid)
			tree->ended[n++] = tree->ended[i];
	tree->n_ended = n;
}

static int add_member(struct tree *tree, struct proc_key key, int sheet_num, int rank)
{
	struct tree_member *m = find_member(tree, key.pid);

	if (!m && tree->n == tree->cap) {
		size_t cap = tree->cap ? tree->cap * 2 : 32;
		struct tree_member *grown = reallocarray(tree->members, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		tree->members = grown;
		tree->cap = cap;
	}
	if (!m) {
		if (map_put(&tree->by_pid, pid_key(key.pid), tree->n) < 0)
			return -ENOMEM;
		m = &tree->members[tree->n++];
		forget_ended(tree, key.pid);
	}
	*m = (struct tree_member){
		.key = key, .sheet_num = sheet_num, .rank = rank, .round = tree->round
	};
	return 0;
}

static void remove_member(struct tree *tree, struct tree_member *m)
{
	struct tree_member *last = &tree->members[tree->n - 1];

	map_remove(&tree->by_pid, pid_key(m->key.pid));
	if (m != last) {
		*m = *last;
		/* The key exists already, so this cannot run out of memory. */
		map_put(&tree->by_pid, pid_key(m->key.pid), (uint64_t)(m - tree->members));
	}
	tree->n--;
}

int tree_add_root(struct tree *tree, pid_t pid, int sheet_num, int rank)
{
	map_remove(&tree->strangers, pid_key(pid)); /* whoever had that pid is gone */
	return add_member(tree, (struct proc_key){ pid, U64_UNKNOWN }, sheet_num, rank);
}

size_t tree_count_seen(const struct tree *tree)
{
	size_t n = 0;

	for (size_t i = 0; i < tree->n; i++)
		n += is_seen(tree, &tree->members[i]);
	return n;
}

const pid_t *tree_pids(struct tree *tree, size_t *ret_n)
{
	size_t n = tree->n + tree->n_ended;
	pid_t *pids = tree->n ? reallocarray(tree->pids, n, sizeof(*pids)) : NULL;

	*ret_n = 0;
	if (!pids)
		return NULL;
	tree->pids = pids;
	for (size_t i = 0; i < tree->n; i++)
		pids[i] = tree->members[i].key.pid;
	if (tree->n_ended > 0)
		memcpy(pids + tree->n, tree->ended, tree->n_ended * sizeof(*pids));
	*ret_n = n;
	return pids;
}

int tree_add_stranger(struct tree *tree, pid_t pid)
{
	struct tree_member *m = find_member(tree, pid);

	if (m)
		remove_member(tree, m); /* whoever had that pid is gone */
	return map_put(&tree->strangers, pid_key(pid), U64_UNKNOWN);
}

bool tree_is_stranger(const struct tree *tree, pid_t pid)
{
	return map_get(&tree->strangers, pid_key(pid), NULL);
}

bool tree_has_strangers(const struct tree *tree)
{
	return tree->strangers.len > 0;
}

void tree_forget_stranger(struct tree *tree, pid_t pid)
{
	map_remove(&tree->strangers, pid_key(pid));
}

/* tree_add_stranger() was quicker than the news of its birth. */
static bool is_announced(const struct tree *tree, pid_t pid)
{
	uint64_t start_ticks;

	return map_get(&tree->strangers, pid_key(pid), &start_ticks) && !u64_known(start_ticks);
}

bool tree_on_fork(struct tree *tree, pid_t parent, pid_t child)
{
	struct tree_member *m = find_member(tree, parent);
	struct proc_key key = { child, U64_UNKNOWN };

	if (tree_is_stranger(tree, parent)) {
		map_put(&tree->strangers, pid_key(child), U64_UNKNOWN);
		return false;
	}
	if (parent == tree->runner_pid && is_announced(tree, child))
		return false;
	map_remove(&tree->strangers, pid_key(child)); /* its pid is somebody else's now */
	if (parent == tree->runner_pid) {
		/* A root that tree_add_root() was quicker to announce keeps its sheet and rank. */
		if (find_member(tree, child))
			return true;
		return add_member(tree, key, tree->sheet_num, RANK_NONE) == 0;
	}
	if (m)
		return add_member(tree, key, m->sheet_num, m->rank) == 0;
	m = find_member(tree, child);
	if (m)
		remove_member(tree, m); /* the same: it was born to somebody else */
	return false;
}

bool tree_on_exit(struct tree *tree, pid_t pid, pid_t parent)
{
	struct tree_member *m = find_member(tree, pid);

	/* One that is ours to wait for stays until then. */
	if (parent != tree->runner_pid)
		map_remove(&tree->strangers, pid_key(pid));
	if (!m)
		return false;
	remove_member(tree, m);
	if (parent != tree->runner_pid && tree->n_ended < TREE_MAX_ENDED)
		tree->ended[tree->n_ended++] = pid;
	return true;
}

/* Those that are still there, as zombies of the job. */
static void keep_zombies(struct tree *tree, const struct snapshot *snap)
{
	size_t n = 0;
	uint64_t i;

	for (size_t k = 0; k < tree->n_ended; k++)
		if (map_get(&tree->scan, pid_key(tree->ended[k]), &i) &&
		    snap->processes[i].state == 'Z' && snap->processes[i].job_id)
			tree->ended[n++] = tree->ended[k];
	tree->n_ended = n;
}

static int reserve_scan(struct tree *tree, size_t n)
{
	unsigned char *known;
	size_t *chain;

	if (n <= tree->cap_scan)
		return 0;
	known = realloc(tree->known, n);
	if (!known)
		return -ENOMEM;
	tree->known = known;
	chain = reallocarray(tree->chain, n, sizeof(*chain));
	if (!chain)
		return -ENOMEM;
	tree->chain = chain;
	tree->cap_scan = n;
	return 0;
}

static bool is_known_stranger(struct tree *tree, const struct proc_sample *p)
{
	uint64_t start_ticks;

	if (!map_get(&tree->strangers, pid_key(p->key.pid), &start_ticks))
		return false;
	if (!u64_known(start_ticks))
		map_put(&tree->strangers, pid_key(p->key.pid), p->key.start_ticks);
	return !u64_known(start_ticks) || start_ticks == p->key.start_ticks;
}

/* What is known of a process without looking at its parents. */
static enum verdict judge_alone(struct tree *tree, const struct proc_sample *p)
{
	struct tree_member *m = find_member(tree, p->key.pid);

	if (is_known_stranger(tree, p))
		return OUTSIDE;
	if (m && !u64_known(m->key.start_ticks))
		m->key.start_ticks = p->key.start_ticks;
	if (m && m->key.start_ticks == p->key.start_ticks) {
		m->round = tree->round;
		return MEMBER;
	}
	if (m)
		remove_member(tree, m); /* the pid was reused */
	if (p->key.pid == tree->runner_pid)
		return OUTSIDE;
	return UNDECIDED;
}

/* Index of the parent in the snapshot; false if it is not there, or younger than its child. */
static bool find_parent(const struct tree *tree, const struct snapshot *snap, size_t child,
			size_t *ret)
{
	const struct proc_sample *p = &snap->processes[child];
	uint64_t i;

	if (!map_get(&tree->scan, pid_key(p->ppid), &i))
		return false;
	if (snap->processes[i].key.start_ticks > p->key.start_ticks)
		return false;
	*ret = (size_t)i;
	return true;
}

static int adopt(struct tree *tree, struct proc_sample *p, const struct tree_member *parent)
{
	int sheet_num = parent ? parent->sheet_num : tree->sheet_num;
	int rank = parent ? parent->rank : RANK_NONE;

	if (p->state != 'Z' && p->state != 'X')
		return add_member(tree, p->key, sheet_num, rank);
	p->job_id = tree->job_id;
	p->sheet_num = sheet_num;
	p->rank = rank;
	return 0;
}

/*
 * Walks up from process i until somebody's verdict is known, then hands it
 * down the way. Every process is walked over once, so all calls together are
 * linear.
 */
static int judge(struct tree *tree, struct snapshot *snap, size_t i)
{
	size_t depth = 0;
	enum verdict verdict;
	int r;

	while (tree->known[i] == UNDECIDED) {
		tree->known[i] = (unsigned char)judge_alone(tree, &snap->processes[i]);
		if (tree->known[i] != UNDECIDED)
			break;
		tree->known[i] = ON_THE_WAY; /* a loop of parents, which cannot be, ends here */
		tree->chain[depth++] = i;
		if (snap->processes[i].ppid == tree->runner_pid) {
			r = adopt(tree, &snap->processes[i], NULL);
			if (r < 0)
				return r;
			tree->known[i] = MEMBER;
			depth--;
			break;
		}
		if (!find_parent(tree, snap, i, &i))
			break;
	}
	verdict = tree->known[i] == MEMBER ? MEMBER : OUTSIDE;
	while (depth > 0) {
		struct proc_sample *p = &snap->processes[tree->chain[--depth]];

		if (verdict == MEMBER) {
			r = adopt(tree, p, find_member(tree, p->ppid));
			if (r < 0)
				return r;
		}
		tree->known[tree->chain[depth]] = (unsigned char)verdict;
	}
	return 0;
}

/* Those not seen for so many rounds: 1, not in this one; 2, nor in the one before. */
static void forget_missing(struct tree *tree, unsigned long rounds)
{
	for (size_t i = 0; i < tree->n;) {
		if (tree->members[i].round + rounds <= tree->round)
			remove_member(tree, &tree->members[i]);
		else
			i++;
	}
}

static void mark(const struct tree *tree, struct proc_sample *p)
{
	const struct tree_member *m = find_member(tree, p->key.pid);

	if (!m)
		return;
	p->job_id = tree->job_id;
	p->sheet_num = m->sheet_num;
	p->rank = m->rank;
}

int tree_assign(struct tree *tree, struct snapshot *snap, enum tree_missing missing)
{
	int r = reserve_scan(tree, snap->n_processes);

	if (r < 0)
		return r;
	tree->round++;
	map_clear(&tree->scan);
	for (size_t i = 0; i < snap->n_processes; i++) {
		r = map_put(&tree->scan, pid_key(snap->processes[i].key.pid), i);
		if (r < 0)
			return r;
		tree->known[i] = UNDECIDED;
	}
	for (size_t i = 0; i < snap->n_processes; i++) {
		r = judge(tree, snap, i);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < snap->n_processes; i++)
		if (tree->known[i] == MEMBER)
			mark(tree, &snap->processes[i]);
	forget_missing(tree, missing == TREE_FORGET_MISSING ? 1 : 2);
	keep_zombies(tree, snap);
	return 0;
}

void tree_for_each_seen(const struct tree *tree, tree_fn *fn, void *ctx)
{
	for (size_t i = 0; i < tree->n; i++)
		if (is_seen(tree, &tree->members[i]))
			fn(ctx, &tree->members[i]);
}

int tree_note_strangers(struct tree *tree, struct snapshot *snap)
{
	size_t n;
	int r = tree_assign(tree, snap, TREE_FORGET_MISSING);

	if (r < 0)
		return r;
	n = tree->n;
	while (tree->n > 0) {
		struct proc_key key = tree->members[tree->n - 1].key;

		if (map_put(&tree->strangers, pid_key(key.pid), key.start_ticks) < 0)
			return -ENOMEM;
		remove_member(tree, &tree->members[tree->n - 1]);
	}
	return (int)n;
}
