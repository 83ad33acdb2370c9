#include "recorder/attached_sum.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "base/utf8.h"

/* ---- ends ---- */

void deaths_release(struct deaths *d)
{
	free(d->items);
	map_release(&d->last_of);
	arena_release(&d->arena);
	*d = (struct deaths){ 0 };
}

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

/* ---- as they come ---- */

void death_read(const struct life_event *ev, const struct mask *mask, struct arena *arena,
		struct proc_record *ret)
{
	CLEANUP(buf_release) struct buf name = BUF_INIT, calls = BUF_INIT, said = BUF_INIT;

	proc_record_init(ret);
	ret->key = (struct proc_key){ ev->pid, ev->start_ticks };
	ret->ppid = ev->parent_pid;
	if (ev->type == LIFE_EXIT) {
		ret->died_wall_ns = ev->wall_ns;
		ret->status = exit_status_from_wait(ev->wait_status);
	}
	utf8_add_text(&name, ev->comm, strlen(ev->comm));
	ret->command = name.len > 0 ? arena_strndup(arena, name.data, name.len) : NULL;
	life_add_calls(&calls, ev, mask);
	ret->failed_calls = calls.len > 0 ? arena_strndup(arena, calls.data, calls.len) : NULL;
	life_add_said(&said, ev, mask);
	ret->stderr_tail = said.len > 0 ? arena_strndup(arena, said.data, said.len) : NULL;
	proc_record_account(ret, &ev->account);
}

void death_complete(struct proc_record *p, const struct life_event *ev)
{
	proc_record_account(p, &ev->account);
	p->user_ns = ev->account.user_ns;
	p->system_ns = ev->account.system_ns;
	p->cpu_evidence = EVIDENCE_EXACT;
}

void deaths_note(struct deaths *d, const struct job_member *member, const struct life_event *ev,
		 const struct mask *mask)
{
	struct proc_record *p;

	if (d->n == DEATHS_MAX || ARRAY_RESERVE(d->items, d->cap, d->n + 1) < 0 ||
	    map_put(&d->last_of, pid_key(ev->pid), d->n) < 0) {
		d->n_unlisted++;
		return;
	}
	d->items[d->n].minor_faults = ev->account.minor_faults;
	p = &d->items[d->n++].record;
	death_read(ev, mask, &d->arena, p);
	if (!u64_known(ev->start_ticks))
		p->key = member->key;
	p->born_wall_ns = member->born_wall_ns;
}

void deaths_complete(struct deaths *d, const struct life_event *ev)
{
	struct death *death;
	uint64_t i;

	if (!map_get(&d->last_of, pid_key(ev->pid), &i) || !u64_known(ev->account.cpu_ns))
		return;
	death = &d->items[i];
	if (death->record.key.start_ticks != ev->start_ticks)
		return;
	death->minor_faults = u64_max_known(death->minor_faults, ev->account.minor_faults);
	death_complete(&death->record, ev);
}

size_t deaths_count_unaccounted(const struct deaths *d, uint64_t before_wall_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++) {
		const struct proc_record *p = &d->items[i].record;

		/* Whoever has the pid by now: that counts too few at worst, and costs no file. */
		n += p->cpu_evidence != EVIDENCE_EXACT && p->died_wall_ns < before_wall_ns &&
		     kill(p->key.pid, 0) < 0 && errno == ESRCH;
	}
	return n;
}

/* ---- into the record ---- */

/* A pid may have been used again: its last process is found without a start time. */
static uint64_t key_of(const struct proc_key *key)
{
	const uint64_t parts[] = { pid_key(key->pid), key->start_ticks };

	return u64_known(key->start_ticks)
		       ? hash_bytes(HASH_INIT, parts, sizeof(parts)) | UINT64_C(1) << 63
		       : parts[0];
}

/* Where the processes of an attempt are from this one on, by both keys. */
static int list_from(const struct attempt *a, size_t i, struct map *ret)
{
	for (; i < a->n_processes; i++)
		if (map_put(ret, key_of(&a->processes[i].key), i) < 0 ||
		    map_put(ret, pid_key(a->processes[i].key.pid), i) < 0)
			return -ENOMEM;
	return 0;
}

static struct proc_record *find_listed(const struct attempt *a, const struct map *listing,
				       const struct proc_key *key)
{
	uint64_t i;

	return map_get(listing, key_of(key), &i) ? &a->processes[i] : NULL;
}

static int merge(const struct deaths *d, struct attempt *a, struct map *listing)
{
	const size_t n = a->n_processes;
	struct proc_record *all = arena_alloc(&a->arena, (n + d->n + 1) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	if (n > 0)
		memcpy(all, a->processes, n * sizeof(*all));
	a->processes = all;
	if (list_from(a, 0, listing) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < d->n; i++) {
		const struct proc_record *end = &d->items[i].record;
		struct proc_record *listed = find_listed(a, listing, &end->key);

		if (listed) {
			proc_record_merge_end(listed, end);
			continue;
		}
		all[a->n_processes] = *end;
		all[a->n_processes++].command = arena_strdup(&a->arena, end->command);
	}
	return list_from(a, n, listing);
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

/* ---- sums ---- */

/* Returns how many births there were. */
static uint64_t take_events(const struct attempt *a, const struct map *listing)
{
	uint64_t n_births = 0;

	for (size_t i = 0; i < a->n_events; i++) {
		const struct proc_event *ev = &a->events[i];
		struct proc_record *p =
			ev->type == EVENT_EXIT ? find_listed(a, listing, &ev->key) : NULL;

		n_births += ev->type == EVENT_SPAWN;
		if (p) {
			p->died_wall_ns = ev->wall_ns;
			p->status = ev->status;
		}
	}
	return n_births;
}

/*
 * What a process did has what its children did that it has waited for: so those are added whom
 * none of the job could wait for. Of the others nobody knows whether that was done.
 */
static void add_counts(const struct attempt *a, struct usage *u)
{
	CLEANUP(map_release) struct map pids = MAP_INIT;
	int r = 0;

	for (size_t i = 0; i < a->n_processes && r == 0; i++)
		r = map_put(&pids, pid_key(a->processes[i].key.pid), 0);
	for (size_t i = 0; i < a->n_processes && r == 0; i++) {
		const struct proc_record *p = &a->processes[i];

		u->major_faults = u64_add_known(u->major_faults, p->major_faults);
		if (map_get(&pids, pid_key(p->ppid), NULL))
			continue;
		u->rchar = u64_add_known(u->rchar, p->rchar);
		u->wchar = u64_add_known(u->wchar, p->wchar);
		u->read_bytes = u64_add_known(u->read_bytes, p->read_bytes);
		u->write_bytes = u64_add_known(u->write_bytes, p->write_bytes);
	}
}

/* Over less than this an average is no peak. */
#define AVERAGE_MIN_NS UINT64_C(100000000)

/* The job began with its first process, and that moment is reckoned twice, from two clocks. */
#define SAME_MOMENT_NS UINT64_C(10000000)

/*
 * The highest cannot have been below the average of those who lived within its time: most of what
 * short ones used no sample has seen.
 */
static void raise_peak_cpu(struct attempt *a)
{
	struct usage *u = &a->usage;
	uint64_t cpu_ns = 0;

	if (!u64_known(u->wall_ns) || u->wall_ns < AVERAGE_MIN_NS)
		return;
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		if (u64_known(p->born_wall_ns) &&
		    p->born_wall_ns + SAME_MOMENT_NS >= a->started_wall_ns)
			cpu_ns = u64_add_known(cpu_ns, u64_add(p->user_ns, p->system_ns));
	}
	u->peak_cpu_percent =
		f64_max_known(u->peak_cpu_percent, 100.0 * (double)cpu_ns / (double)u->wall_ns);
}

/*
 * By the rules of a run's account of which nothing was waited for. Processes that had ended before
 * it was attached are in none of these, and whether there were any nobody knows: what it used is
 * certainly not less, and never exact.
 */
int attached_sum_up(const struct deaths *d, struct attempt *a, bool births_are_told)
{
	const struct gpu_use no_gpu = { .held_bytes = U64_UNKNOWN, .percent = F64_UNKNOWN };
	CLEANUP(map_release) struct map listing = MAP_INIT;
	struct account sums;
	uint64_t n_births;

	if (merge(d, a, &listing) < 0)
		return -ENOMEM;
	n_births = take_events(a, &listing);
	account_begin(&sums, U64_UNKNOWN);
	sums.usage.spawn_count = n_births > 0 ? n_births : U64_UNKNOWN;
	sums.parts_user_ns = sums.parts_system_ns = U64_UNKNOWN;
	for (size_t i = 0; i < d->n; i++)
		sums.usage.minor_faults =
			u64_add_known(sums.usage.minor_faults, d->items[i].minor_faults);
	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		sums.parts_user_ns = u64_add_known(sums.parts_user_ns, p->user_ns);
		sums.parts_system_ns = u64_add_known(sums.parts_system_ns, p->system_ns);
		sums.sampled_hwm_bytes = u64_max_known(sums.sampled_hwm_bytes, p->max_rss_bytes);
	}
	if (births_are_told) /* else it may be counted twice */
		add_counts(a, &sums.usage);
	for (size_t i = 0; i < a->details.n_series; i++)
		account_add_tick(&sums, &a->details.series[i], U64_UNKNOWN, &no_gpu, U64_UNKNOWN);
	account_settle(&sums, U64_UNKNOWN, false, false, &a->usage);
	if (n_births == 0)
		a->usage.spawn_evidence = EVIDENCE_UNKNOWN;
	a->usage.wall_ns = u64_delta(a->ended_wall_ns, a->started_wall_ns);
	raise_peak_cpu(a);
	return 0;
}
