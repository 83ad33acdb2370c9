#include "model/headcount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unknown.h"

#define PID_LIMIT (1 << 22) /* no kernel hands out this pid or a larger one */
#define PIDS_PER_WORD 64

/* Not seen for so many ticks, a process may be forgotten when room is short. */
#define QUIET_TICKS 16

/* The latest process that had a pid. */
struct followed {
	struct proc_key key;
	uint64_t cpu_ns; /* the most that was seen */
	uint64_t tick;	 /* when it was seen last */
};

int headcount_init(struct headcount *h)
{
	*h = (struct headcount){ .by_pid = MAP_INIT, .forgotten_ticks = U64_UNKNOWN };
	h->pids = calloc(PID_LIMIT / PIDS_PER_WORD, sizeof(*h->pids));
	return h->pids ? 0 : -ENOMEM;
}

void headcount_release(struct headcount *h)
{
	free(h->pids);
	free(h->followed);
	map_release(&h->by_pid);
	*h = (struct headcount){ .by_pid = MAP_INIT, .forgotten_ticks = U64_UNKNOWN };
}

static void forget_all(struct headcount *h)
{
	map_clear(&h->by_pid);
	h->n_followed = 0;
	h->forgotten_ticks = U64_UNKNOWN;
}

void headcount_begin_tick(struct headcount *h, const char *boot_id)
{
	h->tick++;
	if (!boot_id || !boot_id[0] || strncmp(h->boot_id, boot_id, BOOT_ID_BYTES - 1) == 0)
		return;
	if (h->boot_id[0])
		forget_all(h);
	snprintf(h->boot_id, sizeof(h->boot_id), "%s", boot_id);
}

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

static void note_pid(struct headcount *h, pid_t pid)
{
	uint64_t bit = UINT64_C(1) << (pid % PIDS_PER_WORD);
	uint64_t *word = &h->pids[pid / PIDS_PER_WORD];

	h->n_pids += !(*word & bit);
	*word |= bit;
}

/* Without a start time it could not be recognised when it comes back. */
static bool may_forget(const struct headcount *h, const struct followed *f)
{
	return h->tick - f->tick > QUIET_TICKS && u64_known(f->key.start_ticks);
}

/* Once per tick at most: else a host with too many processes would do nothing else. */
static int sweep(struct headcount *h)
{
	size_t n = 0;

	if (h->swept_tick == h->tick)
		return -ENOSPC;
	h->swept_tick = h->tick;
	for (size_t i = 0; i < h->n_followed; i++) {
		struct followed f = h->followed[i];

		if (may_forget(h, &f))
			h->forgotten_ticks = u64_max_known(h->forgotten_ticks, f.key.start_ticks);
		else
			h->followed[n++] = f;
	}
	if (n == h->n_followed)
		return -ENOSPC;
	h->n_followed = n;
	map_clear(&h->by_pid);
	for (size_t i = 0; i < n; i++) /* cannot fail: it held more */
		map_put(&h->by_pid, pid_key(h->followed[i].key.pid), i);
	return 0;
}

static int make_room(struct headcount *h)
{
	size_t cap = h->cap_followed ? h->cap_followed * 2 : 64;
	struct followed *grown;

	if (h->n_followed < h->cap_followed)
		return 0;
	if (cap > HEADCOUNT_MAX)
		return sweep(h);
	grown = reallocarray(h->followed, cap, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	h->followed = grown;
	h->cap_followed = cap;
	return 0;
}

/* One that started before some that were forgotten may have been counted already. */
static bool may_be_forgotten(const struct headcount *h, struct proc_key key)
{
	if (!u64_known(h->forgotten_ticks))
		return false;
	return !u64_known(key.start_ticks) || key.start_ticks <= h->forgotten_ticks;
}

/* -ENOSPC: it cannot be followed, or told from one that was. */
static int follow_new(struct headcount *h, struct proc_key key, struct followed **ret)
{
	int r = make_room(h);

	if (r < 0)
		return r;
	if (may_be_forgotten(h, key))
		return -ENOSPC;
	r = map_put(&h->by_pid, pid_key(key.pid), h->n_followed);
	if (r < 0)
		return r;
	*ret = &h->followed[h->n_followed++];
	**ret = (struct followed){ .key = key };
	h->n_processes++;
	return 0;
}

/* -ESTALE: the pid has gone to a younger process since. */
static int follow(struct headcount *h, struct proc_key key, struct followed **ret)
{
	struct followed *f;
	uint64_t i;

	if (!map_get(&h->by_pid, pid_key(key.pid), &i))
		return follow_new(h, key, ret);
	f = &h->followed[i];
	if (u64_known(key.start_ticks) && u64_known(f->key.start_ticks)) {
		if (key.start_ticks < f->key.start_ticks)
			return -ESTALE;
		if (key.start_ticks > f->key.start_ticks) {
			f->cpu_ns = 0;
			h->n_processes++;
		}
	}
	if (u64_known(key.start_ticks))
		f->key = key;
	*ret = f;
	return 0;
}

static void note_cpu(struct headcount *h, struct followed *f, uint64_t cpu_ns)
{
	if (!u64_known(cpu_ns))
		return;
	h->has_cpu = true;
	if (cpu_ns <= f->cpu_ns)
		return;
	h->cpu_ns = u64_add(h->cpu_ns, cpu_ns - f->cpu_ns);
	f->cpu_ns = cpu_ns;
}

int headcount_add(struct headcount *h, struct proc_key key, uint64_t cpu_ns)
{
	struct followed *f;
	int r;

	if (key.pid < 0 || key.pid >= PID_LIMIT)
		return 0;
	note_pid(h, key.pid);
	r = follow(h, key, &f);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	f->tick = h->tick;
	note_cpu(h, f, cpu_ns);
	return 0;
}

uint64_t headcount_cpu_ns(const struct headcount *h)
{
	return h->has_cpu ? h->cpu_ns : U64_UNKNOWN;
}
