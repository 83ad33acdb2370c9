#include "recorder/deaths.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"

void deaths_release(struct deaths *d)
{
	free(d->items);
	free(d->minor_faults);
	map_release(&d->last_of);
	arena_release(&d->arena);
	*d = (struct deaths){ 0 };
}

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

/* ---- as they come ---- */

static bool grow(struct deaths *d)
{
	size_t cap = d->cap ? 2 * d->cap : 64;
	struct proc_record *items;
	uint64_t *faults;

	if (d->n < d->cap)
		return true;
	items = d->n < DEATHS_MAX ? reallocarray(d->items, cap, sizeof(*items)) : NULL;
	if (!items)
		return false;
	d->items = items;
	faults = reallocarray(d->minor_faults, cap, sizeof(*faults));
	if (!faults)
		return false;
	d->minor_faults = faults;
	d->cap = cap;
	return true;
}

/* Nobody could ask for its command line any more: the name that the kernel had for it. */
static const char *keep_name(struct deaths *d, const char *comm)
{
	CLEANUP(buf_release) struct buf shown = BUF_INIT;
	size_t n = strlen(comm);

	for (size_t i = 0; i < n;)
		i += utf8_add_shown(&shown, comm + i, n - i);
	return shown.len > 0 ? arena_strndup(&d->arena, shown.data, shown.len) : NULL;
}

static void fill(struct deaths *d, const struct member *member, const struct life_event *ev,
		 struct proc_record *p)
{
	proc_record_init(p);
	p->key = member->key;
	if (u64_known(ev->start_ticks))
		p->key.start_ticks = ev->start_ticks;
	p->ppid = ev->parent_pid;
	p->command = keep_name(d, ev->comm);
	p->born_wall_ns = member->born_wall_ns;
	p->died_wall_ns = ev->wall_ns;
	p->status = exit_status_from_wait(ev->wait_status);
	proc_record_account(p, &ev->account);
}

void deaths_note(struct deaths *d, const struct member *member, const struct life_event *ev)
{
	if (d->n == DEATHS_MAX || !grow(d) || map_put(&d->last_of, pid_key(ev->pid), d->n) < 0) {
		d->n_unlisted++;
		return;
	}
	d->minor_faults[d->n] = ev->account.minor_faults;
	fill(d, member, ev, &d->items[d->n++]);
}

uint64_t deaths_minor_faults(const struct deaths *d)
{
	uint64_t sum = U64_UNKNOWN;

	for (size_t i = 0; i < d->n; i++)
		sum = u64_add_known(sum, d->minor_faults[i]);
	return sum;
}

void deaths_leave_out(struct deaths *d)
{
	d->n_unlisted++;
}

/*
 * At its end the scheduler had not counted all of its CPU time, and threads that died at the same
 * moment may have been in no sum; now all is counted.
 */
void deaths_complete(struct deaths *d, const struct life_event *ev)
{
	struct proc_record *p;
	uint64_t i;

	if (!map_get(&d->last_of, pid_key(ev->pid), &i) || !u64_known(ev->account.cpu_ns))
		return;
	p = &d->items[i];
	if (p->key.start_ticks != ev->start_ticks)
		return;
	proc_record_account(p, &ev->account);
	d->minor_faults[i] = u64_max_known(d->minor_faults[i], ev->account.minor_faults);
	p->user_ns = ev->account.user_ns;
	p->system_ns = ev->account.system_ns;
	p->cpu_evidence = EVIDENCE_EXACT;
}

/* Whoever has the pid by now: that counts too few at worst, and costs no file. */
static bool is_gone(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

size_t deaths_count_unaccounted(const struct deaths *d, uint64_t before_wall_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++) {
		const struct proc_record *p = &d->items[i];

		n += p->cpu_evidence != EVIDENCE_EXACT && p->died_wall_ns < before_wall_ns &&
		     is_gone(p->key.pid);
	}
	return n;
}

/* ---- into the record ---- */

/* Where the processes of an attempt are: a pid may have been used again. */
struct listing {
	struct map by_key; /* hash of pid and start time -> index */
	struct map by_pid; /* -> index of the last that had it */
};

static void listing_release(struct listing *l)
{
	map_release(&l->by_key);
	map_release(&l->by_pid);
}

static uint64_t hash_key(const struct proc_key *key)
{
	const uint64_t parts[] = { pid_key(key->pid), key->start_ticks };

	return hash_bytes(HASH_INIT, parts, sizeof(parts));
}

static int list_all(const struct attempt *a, struct listing *l)
{
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_key *key = &a->processes[i].key;

		if (map_put(&l->by_key, hash_key(key), i) < 0 ||
		    map_put(&l->by_pid, pid_key(key->pid), i) < 0)
			return -ENOMEM;
	}
	return 0;
}

static struct proc_record *find_listed(const struct attempt *a, const struct listing *l,
				       const struct proc_key *key)
{
	bool is_whole = u64_known(key->start_ticks);
	uint64_t i;

	if (!map_get(is_whole ? &l->by_key : &l->by_pid,
		     is_whole ? hash_key(key) : pid_key(key->pid), &i))
		return NULL;
	return &a->processes[i];
}

static void append(struct attempt *a, const struct proc_record *dead)
{
	struct proc_record *p = &a->processes[a->n_processes++];

	*p = *dead;
	p->command = arena_strdup(&a->arena, dead->command);
}

int deaths_merge(const struct deaths *d, struct attempt *a)
{
	CLEANUP(listing_release) struct listing listing = { MAP_INIT, MAP_INIT };
	struct proc_record *all =
		arena_alloc(&a->arena, (a->n_processes + d->n + 1) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	if (a->n_processes > 0)
		memcpy(all, a->processes, a->n_processes * sizeof(*all));
	a->processes = all;
	if (list_all(a, &listing) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < d->n; i++) {
		struct proc_record *listed = find_listed(a, &listing, &d->items[i].key);

		if (listed)
			proc_record_merge_end(listed, &d->items[i]);
		else
			append(a, &d->items[i]);
	}
	return 0;
}

void deaths_note_withheld(struct attempt *a, uint64_t n)
{
	char why[200];

	if (n == 0)
		return;
	snprintf(why, sizeof(why),
		 "%llu ended that were not this user's alone, as programs that are set-user-ID, or "
		 "may not have been: what they used in the end is not told, and kept nowhere",
		 (unsigned long long)n);
	attempt_note(a, "processes", why);
}
