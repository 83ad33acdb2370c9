#include "daemon/rank_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

struct rank_member {
	struct proc_key key;
	pid_t ppid;
	int rank, sheet_num;
	uint64_t rss_bytes, anon_bytes, file_bytes, shmem_bytes, hwm_bytes, gpu_bytes;
	uint64_t command; /* its hash; 0: it has none */
	size_t fork;	  /* its number among the forks */
};

#define NO_PARENT SIZE_MAX
#define HWM_ROUNDING 8 /* one part in so many: counters of many CPUs are added up lazily */

struct rank_fork {
	size_t parent;		  /* the number of who forked it; NO_PARENT */
	uint64_t inherited_bytes; /* what it may still share with that one */
	uint64_t hwm_bytes;
	/* At the tick of this number. */
	uint64_t tick;
	uint64_t held_bytes; /* of what its children share, so much is counted already */
};

void rank_memory_release(struct rank_memory *m)
{
	free(m->members);
	free(m->forks);
	map_release(&m->by_process);
	*m = (struct rank_memory)RANK_MEMORY_INIT;
}

static int reserve(void *array_ptr, size_t n, size_t *cap, size_t size)
{
	void **array = array_ptr, *grown;
	size_t more = *cap ? *cap * 2 : 64;

	if (n < *cap)
		return 0;
	grown = reallocarray(*array, more, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*cap = more;
	return 0;
}

/* Of one that holds nothing, such as a zombie, the kernel does not tell the parts. */
static uint64_t part_of(const struct proc_sample *p, uint64_t bytes)
{
	return p->rss_bytes == 0 ? 0 : bytes;
}

int rank_memory_add(struct rank_memory *m, const struct proc_sample *p)
{
	if (reserve(&m->members, m->n_members, &m->cap_members, sizeof(*m->members)) < 0)
		return -ENOMEM;
	m->members[m->n_members++] = (struct rank_member){
		.key = p->key,
		.ppid = p->ppid,
		.rank = p->rank,
		.sheet_num = p->sheet_num,
		.rss_bytes = p->rss_bytes,
		.anon_bytes = part_of(p, p->rss_anon_bytes),
		.file_bytes = part_of(p, p->rss_file_bytes),
		.shmem_bytes = part_of(p, p->rss_shmem_bytes),
		.hwm_bytes = p->hwm_bytes,
		.gpu_bytes = p->gpu_memory_bytes,
		.command = p->command ? hash_bytes(HASH_INIT, p->command, strlen(p->command)) : 0,
	};
	return 0;
}

/* ---- who is a fork of whom ---- */

static int compare_members(const void *left, const void *right)
{
	const struct rank_member *l = left, *r = right;

	if (l->rank != r->rank)
		return l->rank < r->rank ? -1 : 1;
	if (l->sheet_num != r->sheet_num)
		return l->sheet_num < r->sheet_num ? -1 : 1;
	return (l->key.pid > r->key.pid) - (l->key.pid < r->key.pid);
}

static struct rank_member *find_pid(struct rank_member *members, size_t n, pid_t pid)
{
	struct rank_member key = { .key.pid = pid,
				   .rank = members->rank,
				   .sheet_num = members->sheet_num };

	return bsearch(&key, members, n, sizeof(*members), compare_members);
}

/* One that runs what its parent runs has not executed anything since it was forked. */
static const struct rank_member *find_parent(struct rank_member *members, size_t n,
					     const struct rank_member *child)
{
	const struct rank_member *parent = find_pid(members, n, child->ppid);

	if (!parent || parent == child || child->command == 0 ||
	    parent->command != child->command || parent->key.start_ticks > child->key.start_ticks)
		return NULL;
	return parent;
}

static uint64_t process_key(const struct proc_key *key)
{
	uint64_t h = hash_bytes(HASH_INIT, &key->pid, sizeof(key->pid));

	return hash_bytes(h, &key->start_ticks, sizeof(key->start_ticks));
}

/* Numbers each member, and returns whether it was never seen before. -ENOMEM. */
static int number_member(struct rank_memory *m, struct rank_member *member)
{
	uint64_t number;

	if (map_get(&m->by_process, process_key(&member->key), &number)) {
		member->fork = number;
		return 0;
	}
	if (reserve(&m->forks, m->n_forks, &m->cap_forks, sizeof(*m->forks)) < 0 ||
	    map_put(&m->by_process, process_key(&member->key), m->n_forks) < 0)
		return -ENOMEM;
	m->forks[m->n_forks] = (struct rank_fork){ .parent = NO_PARENT, .hwm_bytes = U64_UNKNOWN };
	member->fork = m->n_forks++;
	return 1;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The high-water mark begins anew with another program, and else falls by the kernel's rounding. */
static bool has_executed(const struct rank_fork *fork, const struct rank_member *member)
{
	return u64_known(fork->hwm_bytes) && u64_known(member->hwm_bytes) &&
	       member->hwm_bytes < fork->hwm_bytes - fork->hwm_bytes / HWM_ROUNDING;
}

/* What it has given back or left behind it does not share again. */
static void follow_fork(struct rank_fork *fork, const struct rank_member *member)
{
	fork->inherited_bytes =
		has_executed(fork, member) ? 0 : lesser(fork->inherited_bytes, member->anon_bytes);
	fork->hwm_bytes = member->hwm_bytes;
}

/* ---- one rank at one tick ---- */

static int number_members(struct rank_memory *m, struct rank_member *members, size_t n)
{
	size_t first_new = m->n_forks;

	for (size_t i = 0; i < n; i++)
		if (number_member(m, &members[i]) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct rank_fork *fork = &m->forks[members[i].fork];
		const struct rank_member *parent =
			members[i].fork < first_new ? NULL : find_parent(members, n, &members[i]);

		if (parent) {
			fork->parent = parent->fork;
			fork->inherited_bytes = lesser(members[i].anon_bytes, parent->anon_bytes);
		}
		follow_fork(fork, &members[i]);
		fork->tick = m->n_ticks;
		fork->held_bytes = members[i].anon_bytes;
	}
	return 0;
}

/*
 * How much of what a fork has is counted already: by its parent, if that has not given it back, or
 * by another fork of the same one.
 */
static uint64_t counted_already(struct rank_memory *m, const struct rank_member *member)
{
	const struct rank_fork *fork = &m->forks[member->fork];
	struct rank_fork *parent = fork->parent == NO_PARENT ? NULL : &m->forks[fork->parent];
	uint64_t counted;

	if (!parent)
		return 0;
	if (parent->tick != m->n_ticks) {
		parent->tick = m->n_ticks;
		parent->held_bytes = 0;
	}
	counted = lesser(fork->inherited_bytes, parent->held_bytes);
	parent->held_bytes += fork->inherited_bytes - counted;
	return counted;
}

static bool has_parts(const struct rank_member *member)
{
	return u64_known(member->anon_bytes) && u64_known(member->file_bytes) &&
	       u64_known(member->shmem_bytes);
}

static size_t count_with_parts(const struct rank_member *members, size_t n)
{
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++)
		n_known += has_parts(&members[i]);
	return n_known;
}

static uint64_t add_once(struct rank_memory *m, const struct rank_member *members, size_t n)
{
	uint64_t bytes = 0, file = 0, shmem = 0;

	for (size_t i = 0; i < n; i++) {
		bytes = u64_add(bytes, members[i].anon_bytes - counted_already(m, &members[i]));
		file = members[i].file_bytes > file ? members[i].file_bytes : file;
		shmem = members[i].shmem_bytes > shmem ? members[i].shmem_bytes : shmem;
	}
	return u64_add(bytes, u64_add(file, shmem));
}

static int sum_rank(struct rank_memory *m, struct rank_member *members, size_t n,
		    struct rank_holding *ret)
{
	struct rank_holding sum = { .rank = members->rank, .sheet_num = members->sheet_num };
	size_t n_known = count_with_parts(members, n);

	for (size_t i = 0; i < n; i++) {
		sum.bytes = u64_add(sum.bytes, members[i].rss_bytes);
		sum.gpu_bytes = u64_add(sum.gpu_bytes, members[i].gpu_bytes);
		sum.uses_gpu |= u64_known(members[i].gpu_bytes) && members[i].gpu_bytes > 0;
	}
	*ret = sum;
	if (n_known == 0) /* a kernel that does not tell them apart */
		return 0;
	if (n_known < n) { /* one is going: what it still has cannot be told from what it shares */
		ret->bytes = n > 1 ? U64_UNKNOWN : sum.bytes;
		return 0;
	}
	if (number_members(m, members, n) < 0)
		return -ENOMEM;
	if (n > 1)
		ret->bytes = add_once(m, members, n);
	return 0;
}

int rank_memory_end_tick(struct rank_memory *m, rank_memory_fn *fn, void *ctx)
{
	struct rank_holding holding;
	int r = 0;

	m->n_ticks++;
	if (m->n_members > 0)
		qsort(m->members, m->n_members, sizeof(*m->members), compare_members);
	for (size_t from = 0, to; r == 0 && from < m->n_members; from = to) {
		for (to = from; to < m->n_members && m->members[to].rank == m->members[from].rank &&
				m->members[to].sheet_num == m->members[from].sheet_num;)
			to++;
		r = sum_rank(m, m->members + from, to - from, &holding);
		if (r == 0)
			r = fn(ctx, &holding);
	}
	m->n_members = 0;
	return r;
}
