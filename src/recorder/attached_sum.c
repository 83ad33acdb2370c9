#include "recorder/attached_sum.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/unknown.h"
#include "base/utf8.h"

/* ---- ends ---- */

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

/* ---- sums ---- */

/* The last one that had the pid. */
static struct proc_record *find_process(const struct attempt *a, const struct map *index_of,
					const struct proc_key *key)
{
	struct proc_record *p;
	uint64_t i;

	if (!map_get(index_of, (uint64_t)(uint32_t)key->pid, &i))
		return NULL;
	p = &a->processes[i];
	return u64_known(key->start_ticks) && key->start_ticks != p->key.start_ticks ? NULL : p;
}

static void take_event(const struct attempt *a, const struct map *index_of,
		       const struct proc_event *ev, uint64_t *n_births)
{
	struct proc_record *p;

	*n_births += ev->type == EVENT_SPAWN;
	p = ev->type == EVENT_EXIT ? find_process(a, index_of, &ev->key) : NULL;
	if (!p)
		return;
	p->died_wall_ns = ev->wall_ns;
	p->status = ev->status;
}

/* Returns how many births there were. */
static uint64_t take_events(const struct attempt *a)
{
	CLEANUP(map_release) struct map index_of = MAP_INIT;
	uint64_t n_births = 0;

	for (size_t i = 0; i < a->n_processes; i++)
		map_put(&index_of, (uint64_t)(uint32_t)a->processes[i].key.pid, i);
	for (size_t i = 0; i < a->n_events; i++)
		take_event(a, &index_of, &a->events[i], &n_births);
	return n_births;
}

/*
 * Those that had ended before it was attached are in none of these, and whether there were any
 * nobody knows: what it used is certainly not less, and never exact.
 */
static void judge_processes(struct usage *u)
{
	if (u64_known(u->user_ns))
		u->cpu_evidence = EVIDENCE_LOWER_BOUND;
	if (u64_known(u->max_process_rss_bytes))
		u->max_process_rss_evidence = EVIDENCE_LOWER_BOUND;
}

static void add_processes(struct attempt *a)
{
	struct usage *u = &a->usage;

	for (size_t i = 0; i < a->n_processes; i++) {
		const struct proc_record *p = &a->processes[i];

		u->user_ns = u64_add_known(u->user_ns, p->user_ns);
		u->system_ns = u64_add_known(u->system_ns, p->system_ns);
		u->max_process_rss_bytes =
			u64_max_known(u->max_process_rss_bytes, p->max_rss_bytes);
	}
}

static void add_io(struct usage *u, const struct proc_record *p)
{
	u->rchar = u64_add_known(u->rchar, p->rchar);
	u->wchar = u64_add_known(u->wchar, p->wchar);
	u->read_bytes = u64_add_known(u->read_bytes, p->read_bytes);
	u->write_bytes = u64_add_known(u->write_bytes, p->write_bytes);
}

/*
 * What a process did has what its children did that it has waited for: so those are added whom
 * none of the job could wait for. Of the others nobody knows whether that was done.
 */
static void add_counts(struct attempt *a)
{
	CLEANUP(map_release) struct map pids = MAP_INIT;
	struct usage *u = &a->usage;
	int r = 0;

	for (size_t i = 0; i < a->n_processes && r == 0; i++)
		r = map_put(&pids, (uint64_t)(uint32_t)a->processes[i].key.pid, 0);
	for (size_t i = 0; i < a->n_processes && r == 0; i++) {
		const struct proc_record *p = &a->processes[i];
		uint64_t ignored;

		u->major_faults = u64_add_known(u->major_faults, p->major_faults);
		if (!map_get(&pids, (uint64_t)(uint32_t)p->ppid, &ignored))
			add_io(u, p);
	}
	if (u64_known(u->rchar))
		u->io_evidence = EVIDENCE_LOWER_BOUND;
}

/* The sum over the tree was never less than its largest process. */
static void raise_peak(struct usage *u)
{
	if (!u64_known(u->max_process_rss_bytes) ||
	    (u64_known(u->peak_rss_bytes) && u->peak_rss_bytes >= u->max_process_rss_bytes))
		return;
	u->peak_rss_bytes = u->max_process_rss_bytes;
	u->peak_rss_evidence = EVIDENCE_LOWER_BOUND;
}

static void add_series(struct attempt *a)
{
	struct usage *u = &a->usage;

	for (size_t i = 0; i < a->n_series; i++) {
		const struct series_point *p = &a->series[i];

		u->peak_rss_bytes = u64_max_known(u->peak_rss_bytes, p->rss_bytes);
		u->peak_processes = u64_max_known(u->peak_processes, p->n_processes);
		u->peak_cpu_percent = f64_max_known(p->cpu_percent, u->peak_cpu_percent);
	}
	if (u64_known(u->peak_rss_bytes))
		u->peak_rss_evidence = EVIDENCE_SAMPLED;
	raise_peak(u);
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

bool attached_has_all_ends(const struct attempt *a, bool births_are_told)
{
	bool has_all = births_are_told;

	for (size_t i = 0; i < a->n_processes; i++)
		has_all = has_all && a->processes[i].cpu_evidence == EVIDENCE_EXACT;
	return has_all;
}

void attached_sum_up(struct attempt *a, bool births_are_told)
{
	uint64_t n_births = take_events(a);

	usage_init(&a->usage);
	add_processes(a);
	judge_processes(&a->usage);
	if (births_are_told) /* else it may be counted twice */
		add_counts(a);
	add_series(a);
	a->usage.wall_ns = u64_delta(a->ended_wall_ns, a->started_wall_ns);
	raise_peak_cpu(a);
	if (n_births == 0)
		return;
	a->usage.spawn_count = n_births;
	a->usage.spawn_evidence = EVIDENCE_LOWER_BOUND; /* as above */
}
