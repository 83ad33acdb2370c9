#include "jobs/membership.h"

#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"

/* What is known of a process while a snapshot is gone through; else the number of its job. */
enum { UNDECIDED = -1, OUTSIDE = -2, ON_THE_WAY = -3 };

/* A process of the last scan. */
struct scanned {
	pid_t pid;
	int owner;
	int root; /* of which job it is; -1: of none */
};

/* Members below which holes are not worth closing. */
#define SIFT_MIN 64

struct membership {
	struct membership_job *jobs;
	size_t n_jobs, cap_jobs;
	struct map job_of;  /* attempt -> index into jobs */
	struct map root_of; /* pid of a root -> the same */
	int self;	    /* the job that this process runs; -1: none */

	/* As the scans show them, as a rule; what is removed leaves a hole (pid 0) until the next.
	 */
	struct job_member *members;
	size_t n, cap;
	size_t next;	   /* behind the one that was found last */
	struct map by_pid; /* pid -> index into members */
	size_t n_dead;	   /* of these */
	unsigned long round;
	membership_fn *on_missing;
	void *missing_ctx;

	struct map strangers;		   /* pid -> start_ticks */
	pid_t ended[MEMBERSHIP_MAX_ENDED]; /* whom perhaps nobody has waited for yet */
	size_t n_ended;
	pid_t *pids; /* that membership_pids() hands out */
	size_t cap_pids;

	struct scanned *scan;
	size_t n_scan, cap_scan;
	struct map index_of; /* pid -> index into the snapshot */
	size_t *path;	     /* from a process up to an ancestor that is decided */
	size_t cap_path;
};

struct membership *membership_new(void)
{
	struct membership *m = calloc(1, sizeof(*m));

	if (m)
		m->self = -1;
	return m;
}

struct membership *membership_new_own(const char *job_id, pid_t runner_pid)
{
	const struct membership_job job = { .kind = MEMBERSHIP_SELF,
					    .root = { runner_pid, U64_UNKNOWN },
					    .job_id = job_id,
					    .sheet_num = SHEET_NONE };
	struct membership *m = membership_new();

	return m && membership_set_jobs(m, &job, 1) < 0 ? membership_free(m) : m;
}

struct membership *membership_free(struct membership *m)
{
	if (!m)
		return NULL;
	free(m->jobs);
	free(m->members);
	free(m->pids);
	free(m->scan);
	free(m->path);
	map_release(&m->job_of);
	map_release(&m->root_of);
	map_release(&m->by_pid);
	map_release(&m->strangers);
	map_release(&m->index_of);
	free(m);
	return NULL;
}

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

/* ---- jobs ---- */

static void forget_jobs(struct membership *m)
{
	m->n_jobs = 0;
	m->self = -1;
	map_clear(&m->job_of);
	map_clear(&m->root_of);
}

int membership_add_job(struct membership *m, const struct membership_job *job)
{
	size_t i = m->n_jobs;

	if (ARRAY_RESERVE(m->jobs, m->cap_jobs, i + 1) < 0 ||
	    map_put(&m->job_of, (uint64_t)job->attempt_id, i) < 0 ||
	    map_put(&m->root_of, pid_key(job->root.pid), i) < 0) {
		forget_jobs(m);
		return -ENOMEM;
	}
	m->jobs[m->n_jobs++] = *job;
	if (job->kind == MEMBERSHIP_SELF)
		m->self = (int)i;
	return 0;
}

int membership_set_jobs(struct membership *m, const struct membership_job *jobs, size_t n)
{
	int r = 0;

	forget_jobs(m);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = membership_add_job(m, &jobs[i]);
	return r;
}

void membership_set_sheet(struct membership *m, int sheet_num)
{
	if (m->n_jobs > 0)
		m->jobs[0].sheet_num = sheet_num;
}

/* Whether this process, the runner of a job, has that pid. */
static bool is_self(const struct membership *m, pid_t pid)
{
	return m->self >= 0 && m->jobs[m->self].root.pid == pid;
}

/* ---- members ---- */

static struct job_member *find_member(const struct membership *m, pid_t pid)
{
	uint64_t i;

	return map_get(&m->by_pid, pid_key(pid), &i) ? &m->members[i] : NULL;
}

/*
 * Scans show them in the same order as the last one, as a rule: a look into the map for each would
 * wait for memory, as what was there at the last tick is in no cache any more.
 */
static struct job_member *find_in_turn(struct membership *m, pid_t pid)
{
	struct job_member *found;

	if (m->next < m->n && m->members[m->next].key.pid == pid)
		return &m->members[m->next++];
	found = find_member(m, pid);
	if (found)
		m->next = (size_t)(found - m->members) + 1;
	return found;
}

const struct job_member *membership_find(const struct membership *m, pid_t pid)
{
	const struct job_member *member = find_member(m, pid);

	return member && !member->is_dead ? member : NULL;
}

int64_t membership_attempt_of(const struct membership *m, pid_t pid)
{
	const struct job_member *member = membership_find(m, pid);
	uint64_t i;

	if (map_get(&m->root_of, pid_key(pid), &i))
		return m->jobs[i].attempt_id;
	return member ? member->attempt_id : 0;
}

static void remove_member(struct membership *m, struct job_member *member)
{
	m->n_dead -= member->is_dead;
	map_remove(&m->by_pid, pid_key(member->key.pid));
	*member = (struct job_member){ .key = { 0, U64_UNKNOWN } };
}

/* Holes, and members that have not been shown for so many scans, are no more; the rest keep order.
 */
static void sift(struct membership *m, unsigned long rounds, bool keeps_dead)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->n; i++) {
		struct job_member *member = &m->members[i];
		bool is_missing = member->round + rounds <= m->round;

		if (member->key.pid != 0 && is_missing && !member->is_dead && m->on_missing)
			m->on_missing(m->missing_ctx, member);
		if (member->key.pid != 0 && (is_missing || (member->is_dead && !keeps_dead)))
			remove_member(m, member);
		if (member->key.pid == 0)
			continue;
		if (kept != i) {
			m->members[kept] = *member;
			/* The key exists already, so this cannot run out of memory. */
			map_put(&m->by_pid, pid_key(member->key.pid), kept);
		}
		kept++;
	}
	m->n = kept;
}

/* In the place of who had its pid before: each has one place, whichever way it is found. */
int membership_add(struct membership *m, const struct job_member *member)
{
	struct job_member *place = find_member(m, member->key.pid);

	if (m->strangers.len > 0) /* whoever had that pid is gone */
		map_remove(&m->strangers, pid_key(member->key.pid));
	if (!place) {
		size_t n_ended = 0;

		if (ARRAY_RESERVE(m->members, m->cap, m->n + 1) < 0 ||
		    map_put(&m->by_pid, pid_key(member->key.pid), m->n) < 0)
			return -ENOMEM;
		place = &m->members[m->n++];
		for (size_t i = 0; i < m->n_ended; i++) /* it is not to be looked at twice */
			if (m->ended[i] != member->key.pid)
				m->ended[n_ended++] = m->ended[i];
		m->n_ended = n_ended;
	} else {
		m->n_dead -= place->is_dead;
	}
	m->n_dead += member->is_dead;
	*place = *member;
	place->round = m->round;
	return 0;
}

void membership_forget_job(struct membership *m, int64_t attempt_id)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->members[i].key.pid != 0 && m->members[i].attempt_id == attempt_id)
			remove_member(m, &m->members[i]);
}

/* News of a start that a scan was quicker to show: without its start_ticks it is known by the time.
 */
#define SAME_START_NS UINT64_C(1000000000)

static bool is_same_start(const struct job_member *known, const struct proc_key *key,
			  uint64_t wall_ns)
{
	uint64_t born_ns = known->born_wall_ns;

	if (known->is_dead)
		return false;
	if (u64_known(known->key.start_ticks) && u64_known(key->start_ticks))
		return known->key.start_ticks == key->start_ticks;
	return u64_known(born_ns) && u64_known(wall_ns) &&
	       (born_ns > wall_ns ? born_ns - wall_ns : wall_ns - born_ns) < SAME_START_NS;
}

const struct job_member *membership_start(struct membership *m, pid_t parent,
					  const struct proc_key *child, uint64_t wall_ns,
					  bool *ret_is_new)
{
	const struct membership_job *job;
	struct job_member *of, *old, born;
	uint64_t start_ticks = 0;
	uint64_t i;

	if (ret_is_new)
		*ret_is_new = false;
	/* The job whose root has this pid, which is all that starts and exits name; NULL: none. */
	job = map_get(&m->root_of, pid_key(parent), &i) ? &m->jobs[i] : NULL;

	/* Between two scans thousands may start and end. */
	if ((m->n >= SIFT_MIN && m->by_pid.len < m->n / 2) || m->n_dead > MEMBERSHIP_MAX_DEAD)
		sift(m, m->round + 1, m->n_dead <= MEMBERSHIP_MAX_DEAD);
	of = find_member(m, parent);
	old = find_member(m, child->pid);
	if (membership_is_stranger(m, parent)) {
		map_put(&m->strangers, pid_key(child->pid), U64_UNKNOWN);
		return NULL;
	}
	/* membership_add_stranger() was quicker than the news of its start. */
	if (job && map_get(&m->strangers, pid_key(child->pid), &start_ticks) &&
	    !u64_known(start_ticks))
		return NULL;
	map_remove(&m->strangers, pid_key(child->pid)); /* its pid is somebody else's now */
	if (!job && !of) {
		if (old)
			remove_member(m, old); /* it was born to somebody else */
		return NULL;
	}
	/* One that membership_add() or a scan was quicker to announce. */
	if (old && ((job && m->self >= 0) || is_same_start(old, child, wall_ns))) {
		if (ret_is_new)
			*ret_is_new = !old->is_told;
		old->is_told = true;
		return old;
	}
	born = job ? (struct job_member){ .attempt_id = job->attempt_id,
					  .sheet_num = job->sheet_num,
					  .rank = RANK_NONE }
		   : *of;
	born.key = *child;
	born.born_wall_ns = wall_ns;
	born.is_told = true;
	born.is_dead = false;
	if (membership_add(m, &born) < 0)
		return NULL;
	if (ret_is_new)
		*ret_is_new = true;
	return find_member(m, child->pid);
}

bool membership_exit(struct membership *m, pid_t pid, pid_t parent)
{
	struct job_member *member = find_member(m, pid);
	bool is_ours = is_self(m, parent); /* to wait for */

	if (!is_ours)
		map_remove(&m->strangers, pid_key(pid));
	if (!member || member->is_dead)
		return false;
	if (m->self < 0) {
		member->is_dead = true;
		m->n_dead++;
		return true;
	}
	remove_member(m, member);
	if (!is_ours && m->n_ended < MEMBERSHIP_MAX_ENDED)
		m->ended[m->n_ended++] = pid;
	return true;
}

const pid_t *membership_pids(struct membership *m, size_t *ret_n)
{
	size_t n = 0;

	*ret_n = 0;
	if (m->by_pid.len == 0 || ARRAY_RESERVE(m->pids, m->cap_pids, m->n + m->n_ended) < 0)
		return NULL;
	for (size_t i = 0; i < m->n; i++)
		if (m->members[i].key.pid != 0)
			m->pids[n++] = m->members[i].key.pid;
	for (size_t i = 0; i < m->n_ended; i++)
		m->pids[n++] = m->ended[i];
	*ret_n = n;
	return m->pids;
}

/* ---- strangers ---- */

int membership_note_strangers(struct membership *m, struct snapshot *snap)
{
	size_t n = 0;
	int r = membership_scan(m, snap, MEMBERSHIP_FORGET_MISSING, NULL);

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct proc_key key = m->members[i].key;

		if (map_put(&m->strangers, pid_key(key.pid), key.start_ticks) < 0)
			return -ENOMEM;
		remove_member(m, &m->members[i]);
		n++;
	}
	return r < 0 ? r : (int)n;
}

int membership_add_stranger(struct membership *m, pid_t pid)
{
	struct job_member *member = find_member(m, pid);

	if (member)
		remove_member(m, member); /* whoever had that pid is gone */
	return map_put(&m->strangers, pid_key(pid), U64_UNKNOWN);
}

bool membership_is_stranger(const struct membership *m, pid_t pid)
{
	return map_get(&m->strangers, pid_key(pid), NULL);
}

bool membership_has_strangers(const struct membership *m)
{
	return m->strangers.len > 0;
}

void membership_forget_stranger(struct membership *m, pid_t pid)
{
	map_remove(&m->strangers, pid_key(pid));
}

/* ---- scans ---- */

/*
 * Mostly nobody was born or has ended since the last scan, and every pid stands where it stood: to
 * compare a row of them is much less than to fill the map.
 */
static int begin_scan(struct membership *m, struct snapshot *snap)
{
	bool is_indexed = m->n_scan == snap->n_processes;
	uint64_t k;

	if (ARRAY_RESERVE(m->scan, m->cap_scan, snap->n_processes) < 0 ||
	    ARRAY_RESERVE(m->path, m->cap_path, snap->n_processes) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < snap->n_processes; i++) {
		struct proc_sample *p = &snap->processes[i];

		if (p->job_id) { /* as a rule it is a new one */
			p->job_id = NULL;
			p->attempt_id = 0;
			p->sheet_num = SHEET_NONE;
		}
		is_indexed = is_indexed && m->scan[i].pid == p->key.pid;
		m->scan[i] = (struct scanned){ p->key.pid, UNDECIDED, -1 };
	}
	if (!is_indexed) {
		m->n_scan = 0;
		map_clear(&m->index_of);
	}
	for (size_t i = 0; !is_indexed && i < snap->n_processes; i++)
		if (map_put(&m->index_of, pid_key(m->scan[i].pid), i) < 0) {
			map_clear(&m->index_of);
			return -ENOMEM;
		}
	m->n_scan = snap->n_processes;
	m->round++;
	m->next = 0;
	for (size_t i = 0; i < m->n_jobs; i++) {
		const struct proc_key *root = &m->jobs[i].root;

		if (map_get(&m->index_of, pid_key(root->pid), &k) &&
		    ((int)i == m->self ||
		     (u64_known(root->start_ticks) &&
		      root->start_ticks == snap->processes[k].key.start_ticks)))
			m->scan[k].root = (int)i;
	}
	return 0;
}

static void mark(const struct membership *m, size_t i, const struct job_member *member,
		 struct proc_sample *p)
{
	const struct membership_job *job = &m->jobs[m->scan[i].owner];

	p->job_id = job->job_id;
	p->attempt_id = job->attempt_id;
	p->sheet_num = member->sheet_num;
	if (job->kind == MEMBERSHIP_SELF) /* who else runs it says it in the environment */
		p->rank = member->rank;
}

/* The job whose root process i of the scan is; NULL: none. */
static const struct membership_job *find_root(const struct membership *m, size_t i)
{
	return m->scan[i].root >= 0 ? &m->jobs[m->scan[i].root] : NULL;
}

static bool is_known_stranger(struct membership *m, const struct proc_key *key)
{
	uint64_t start_ticks;

	if (m->strangers.len == 0 || !map_get(&m->strangers, pid_key(key->pid), &start_ticks))
		return false;
	if (!u64_known(start_ticks))
		map_put(&m->strangers, pid_key(key->pid), key->start_ticks);
	return !u64_known(start_ticks) || start_ticks == key->start_ticks;
}

/* It belongs to this job, with this sheet and rank. -ENOMEM. */
static int adopt(struct membership *m, size_t i, const struct membership_job *job, int sheet_num,
		 int rank, struct proc_sample *p)
{
	/* The exit of a zombie was told. */
	const bool is_over = p->state == 'Z' || p->state == 'X';
	const struct job_member member = { .key = p->key,
					   .attempt_id = job->attempt_id,
					   .sheet_num = sheet_num,
					   .rank = rank,
					   .born_wall_ns = p->start_wall_ns,
					   .is_told = is_over,
					   .is_dead = is_over };

	m->scan[i].owner = (int)(job - m->jobs);
	mark(m, i, &member, p);
	/* Of its own job the runner has had the exit; other jobs' processes stay until they are
	 * gone. */
	if (job->kind == MEMBERSHIP_SELF && is_over)
		return 0;
	return membership_add(m, &member);
}

/* Decides what needs no look at parents, and whether anything is decided. -ENOMEM. */
static int decide_alone(struct membership *m, size_t i, struct proc_sample *p)
{
	const struct membership_job *root = find_root(m, i);
	struct job_member *member = find_in_turn(m, p->key.pid);
	uint64_t job;

	if (is_known_stranger(m, &p->key)) {
		m->scan[i].owner = OUTSIDE;
		return 0;
	}
	if (member && !u64_known(member->key.start_ticks))
		member->key.start_ticks = p->key.start_ticks;
	if (member && member->key.start_ticks != p->key.start_ticks) {
		remove_member(m, member); /* the pid was reused */
		member = NULL;
	}
	if (root && root->kind == MEMBERSHIP_ATTACHED &&
	    !(member && member->attempt_id == root->attempt_id))
		return adopt(m, i, root, root->sheet_num, RANK_NONE, p);
	if (member && map_get(&m->job_of, (uint64_t)member->attempt_id, &job)) {
		if (m->self >= 0 || p->state != 'Z') /* else it has ended */
			member->round = m->round;
		m->scan[i].owner = (int)job;
		mark(m, i, member, p);
		return 0;
	}
	if (!is_self(m, p->ppid)) /* which need not be in the snapshot */
		return 0;
	return adopt(m, i, &m->jobs[m->self], m->jobs[m->self].sheet_num, RANK_NONE, p);
}

/* The parent's place in the snapshot; false: it is not there, or younger than its child. */
static bool find_parent(const struct membership *m, const struct snapshot *snap, size_t child,
			size_t *ret)
{
	const struct proc_sample *p = &snap->processes[child];
	uint64_t i;

	if (!map_get(&m->index_of, pid_key(p->ppid), &i) ||
	    snap->processes[i].key.start_ticks > p->key.start_ticks)
		return false;
	*ret = (size_t)i;
	return true;
}

/*
 * Walks up from process i until an ancestor is decided, then hands that down the way. Every process
 * is walked over once, so all calls together are linear. Pids wrap around, so a parent may come
 * later than its child; a circle of parents (the table was read while it changed) is outside.
 */
static int decide(struct membership *m, struct snapshot *snap, size_t i)
{
	size_t depth = 0, child;
	bool has_parent = true;
	int r;

	while (m->scan[i].owner == UNDECIDED) {
		r = decide_alone(m, i, &snap->processes[i]);
		if (r < 0)
			return r;
		if (m->scan[i].owner != UNDECIDED)
			break;
		m->scan[i].owner = ON_THE_WAY;
		m->path[depth++] = i;
		has_parent = find_parent(m, snap, i, &i);
		if (!has_parent)
			break;
	}
	if (m->scan[i].owner == ON_THE_WAY && has_parent) /* a circle */
		while (depth > 0)
			m->scan[m->path[--depth]].owner = OUTSIDE;
	if (!has_parent)
		m->scan[m->path[--depth]].owner = OUTSIDE;
	for (; depth > 0; i = child) {
		const struct proc_sample *parent = &snap->processes[i];
		const struct membership_job *root = find_root(m, i);
		int owner = m->scan[i].owner;

		child = m->path[--depth];
		m->scan[child].owner = OUTSIDE;
		if (root)
			r = adopt(m, child, root,
				  root->kind == MEMBERSHIP_ATTACHED ? parent->sheet_num
								    : root->sheet_num,
				  RANK_NONE, &snap->processes[child]);
		else if (owner >= 0)
			r = adopt(m, child, &m->jobs[owner], parent->sheet_num, parent->rank,
				  &snap->processes[child]);
		else
			continue;
		if (r < 0)
			return r;
	}
	return 0;
}

int membership_scan(struct membership *m, struct snapshot *snap, enum membership_missing missing,
		    size_t *n_of)
{
	int r = begin_scan(m, snap);
	size_t n_zombies = 0;
	uint64_t k;

	for (size_t i = 0; n_of && i < m->n_jobs; i++)
		n_of[i] = 0;
	for (size_t i = 0; r == 0 && i < snap->n_processes; i++)
		r = decide(m, snap, i);
	if (r < 0)
		return r;
	for (size_t i = 0; n_of && i < snap->n_processes; i++)
		if (m->scan[i].owner >= 0)
			n_of[m->scan[i].owner]++;
	sift(m, missing == MEMBERSHIP_FORGET_MISSING ? 1 : 2, true);
	/* Of those that have ended, the ones that are still there as zombies of a job stay. */
	for (size_t i = 0; i < m->n_ended; i++)
		if (map_get(&m->index_of, pid_key(m->ended[i]), &k) &&
		    snap->processes[k].state == 'Z' && snap->processes[k].job_id)
			m->ended[n_zombies++] = m->ended[i];
	m->n_ended = n_zombies;
	return 0;
}

int membership_index(const struct membership *m, pid_t pid)
{
	uint64_t i;

	return map_get(&m->index_of, pid_key(pid), &i) ? (int)i : -1;
}

int membership_owner(const struct membership *m, size_t i)
{
	return m->scan[i].owner >= 0 ? m->scan[i].owner : -1;
}

/* Deeper than any tree that grows within a moment; and a circle ends. */
#define MAX_ANCESTORS 64

void membership_inherit_sheets(const struct membership *m, struct snapshot *snap)
{
	for (size_t i = 0; i < snap->n_processes; i++) {
		struct proc_sample *p = &snap->processes[i];
		const struct proc_sample *up = p;
		uint64_t k;

		for (int n = 0; m->scan[i].owner >= 0 && p->sheet_num == SHEET_NONE &&
				n < MAX_ANCESTORS && map_get(&m->index_of, pid_key(up->ppid), &k) &&
				m->scan[k].owner == m->scan[i].owner;
		     n++) {
			up = &snap->processes[k];
			p->sheet_num = up->sheet_num;
		}
	}
}

static bool is_seen(const struct membership *m, const struct job_member *member)
{
	return member->key.pid != 0 && member->round == m->round &&
	       u64_known(member->key.start_ticks);
}

static bool is_wanted(const struct membership *m, const struct job_member *member,
		      enum membership_which which, int64_t of)
{
	switch (which) {
	case MEMBERSHIP_SEEN:
		return is_seen(m, member) && (of == SHEET_NONE || member->sheet_num == of);
	case MEMBERSHIP_LIVING:
		return member->key.pid != 0 && member->attempt_id == of && !member->is_dead;
	case MEMBERSHIP_UNTOLD:
		return is_seen(m, member) && !member->is_told && !member->is_dead;
	}
	return false;
}

size_t membership_each(struct membership *m, enum membership_which which, int64_t of,
		       membership_fn *fn, void *ctx)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		struct job_member *member = &m->members[i];

		if (!is_wanted(m, member, which, of))
			continue;
		member->is_told |= which == MEMBERSHIP_UNTOLD;
		n++;
		if (fn)
			fn(ctx, member);
	}
	return n;
}

void membership_on_missing(struct membership *m, membership_fn *fn, void *ctx)
{
	m->on_missing = fn;
	m->missing_ctx = ctx;
}
