#include "model/rank_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/macros.h"
#include "base/unknown.h"

struct rank_member {
	struct proc_key key;
	pid_t ppid;
	int rank, sheet_num;
	uint64_t rss_bytes, anon_bytes, file_bytes, shmem_bytes, hwm_bytes, gpu_bytes, cpu_ns;
	double gpu_percent;
	uint64_t command; /* its hash; 0: it has none */
	size_t fork;	  /* its number among the forks */
};

#define NO_PARENT SIZE_MAX
#define HWM_ROUNDING 8 /* one part in so many: counters of many CPUs are added up lazily */

struct rank_fork {
	size_t parent;		  /* the number of the fork that forked it; NO_PARENT */
	uint64_t inherited_bytes; /* at most so much is still shared with that one */
	uint64_t hwm_bytes;
	/* At the tick of this number. */
	uint64_t tick;
	uint64_t held_bytes; /* so much of the memory shared by its children is counted already */
};

void rank_memory_release(struct rank_memory *m)
{
	free(m->members);
	free(m->forks);
	map_release(&m->by_process);
	*m = (struct rank_memory)RANK_MEMORY_INIT;
}

/* A process without memory, such as a zombie, has no parts in /proc/PID/status. */
static uint64_t part_of(const struct proc_sample *p, uint64_t bytes)
{
	return p->rss_bytes == 0 ? 0 : bytes;
}

int rank_memory_add(struct rank_memory *m, const struct proc_sample *p)
{
	if (ARRAY_RESERVE(m->members, m->cap_members, m->n_members + 1) < 0)
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
		.gpu_percent = p->gpu_percent,
		.cpu_ns = u64_add(p->cpu_ns, u64_add(p->child_user_ns, p->child_system_ns)),
		.command = p->command ? hash_bytes(HASH_INIT, p->command, strlen(p->command)) : 0,
	};
	return 0;
}

/* ---- forks and their parents ---- */

static int compare_members(const void *left, const void *right)
{
	const struct rank_member *l = left, *r = right;

	return COMPARE(l->rank, r->rank) ?: COMPARE(l->sheet_num, r->sheet_num) ?: COMPARE(l->key.pid, r->key.pid);
}

/* A child that runs the command of its parent has not executed anything since it was forked. */
static const struct rank_member *find_parent(const struct rank_member *members, size_t n,
					     const struct rank_member *child)
{
	const struct rank_member key = { .key.pid = child->ppid,
					 .rank = child->rank,
					 .sheet_num = child->sheet_num };
	const struct rank_member *parent =
		bsearch(&key, members, n, sizeof(*members), compare_members);

	if (!parent || parent == child || child->command == 0 ||
	    parent->command != child->command || parent->key.start_ticks > child->key.start_ticks)
		return NULL;
	return parent;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* exec() resets the high-water mark; without it the mark falls by the kernel's rounding at most. */
static bool has_executed(const struct rank_fork *fork, const struct rank_member *member)
{
	return u64_known(fork->hwm_bytes) && u64_known(member->hwm_bytes) &&
	       member->hwm_bytes < fork->hwm_bytes - fork->hwm_bytes / HWM_ROUNDING;
}

/* ---- one rank at one tick ---- */

/* Finds the fork of each member, and follows how much it may still share with its parent. */
static int follow_members(struct rank_memory *m, struct rank_member *members, size_t n)
{
	size_t first_new = m->n_forks;

	for (size_t i = 0; i < n; i++) {
		const struct proc_key *own = &members[i].key;
		uint64_t key = hash_bytes(hash_bytes(HASH_INIT, &own->pid, sizeof(own->pid)),
					  &own->start_ticks, sizeof(own->start_ticks));
		uint64_t number;

		if (!map_get(&m->by_process, key, &number)) {
			number = m->n_forks;
			if (ARRAY_RESERVE(m->forks, m->cap_forks, m->n_forks + 1) < 0 ||
			    map_put(&m->by_process, key, number) < 0)
				return -ENOMEM;
			m->forks[m->n_forks++] =
				(struct rank_fork){ .parent = NO_PARENT, .hwm_bytes = U64_UNKNOWN };
		}
		members[i].fork = number;
	}
	for (size_t i = 0; i < n; i++) {
		const struct rank_member *member = &members[i];
		struct rank_fork *fork = &m->forks[member->fork];
		const struct rank_member *parent =
			member->fork < first_new ? NULL : find_parent(members, n, member);

		if (parent) {
			fork->parent = parent->fork;
			fork->inherited_bytes = parent->anon_bytes;
		}
		/* Memory that it has freed, or left behind by exec(), it does not share again. */
		fork->inherited_bytes = has_executed(fork, member)
						? 0
						: lesser(fork->inherited_bytes, member->anon_bytes);
		fork->hwm_bytes = member->hwm_bytes;
		fork->tick = m->n_ticks;
		fork->held_bytes = member->anon_bytes;
	}
	return 0;
}

/*
 * The part of a fork's memory that is counted already: by its parent, if that has not freed it, or
 * by another fork of the same parent.
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
	size_t n_known = 0;

	for (size_t i = 0; i < n; i++) {
		n_known += has_parts(&members[i]);
		sum.bytes = u64_add(sum.bytes, members[i].rss_bytes);
		sum.gpu_bytes = u64_add(sum.gpu_bytes, members[i].gpu_bytes);
		sum.cpu_ns = u64_add(sum.cpu_ns, members[i].cpu_ns);
		sum.gpu_percent += members[i].gpu_percent; /* NaN stays */
		sum.uses_gpu |= u64_known(members[i].gpu_bytes) && members[i].gpu_bytes > 0;
	}
	*ret = sum;
	if (n_known == 0) /* a kernel that does not report the parts */
		return 0;
	if (n_known <
	    n) { /* one is exiting: its own memory cannot be separated from shared pages */
		ret->bytes = n > 1 ? U64_UNKNOWN : sum.bytes;
		return 0;
	}
	if (follow_members(m, members, n) < 0)
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
