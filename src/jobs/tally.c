#include "jobs/tally.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/unknown.h"
#include "jobs/account.h"
#include "model/peaks.h"

/*
 * A percentage is taken over at least this long: counters come in clock ticks of
 * 10 ms at worst, and over 20 ms such a tick would be half a core.
 */
#define CPU_WINDOW_NS UINT64_C(90000000)
#define CPU_MARKS 8

/* In the map of the living: counted, without an entry; the second kind has died and may be seen
 * again. */
#define UNLISTED UINT64_MAX
#define UNLISTED_DEAD (UINT64_MAX - 1)

/* A proc_record and what only the tally wants to know about it. */
struct entry {
	struct proc_record record;
	struct gpu_time gpu;
	unsigned serial; /* of the try that it belongs to */
	bool is_root;
	bool fork_was_told; /* by the kernel; a root is announced by the runner first */
	bool has_children;
	bool ignores_sigchld;
};

/* How much CPU time the tree had used at a moment. */
struct cpu_mark {
	uint64_t boot_ns;
	uint64_t total_ns;
};

struct tally {
	const char *job_id;
	bool sees_births;
	struct entry *entries;
	size_t n, cap;
	uint64_t n_unlisted;
	struct map alive; /* pid -> index into entries, or UNLISTED */
	uint64_t n_living;

	unsigned serial; /* of the try that runs; a sheet may be tried more than once */
	bool sheet_is_open;
	bool sheet_is_alone; /* nothing of an earlier try runs beside it */
	struct account attempt, sheet;
	uint64_t tick_boot_ns;	  /* of the last snapshot; U64_UNKNOWN: none yet */
	uint64_t since_tick_ns;	  /* between it and the one before */
	struct peaks ended_peaks; /* of the sheets that are over; they come one after the other */

	struct cpu_mark marks[CPU_MARKS]; /* oldest first */
	size_t n_marks;
	uint64_t reaped_cpu_ns; /* of all that was waited for by us */

	struct proc_event *events;
	size_t n_events, cap_events, n_stored, n_notable;
	uint64_t n_events_unlisted;
	uint64_t n_lost;

	struct map commands;	    /* hash -> string */
	struct proc_record *listed; /* what tally_processes() hands out */
	struct arena arena;
};

struct tally *tally_new(const char *job_id, bool sees_births)
{
	struct tally *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->job_id = job_id;
	t->sees_births = sees_births;
	peaks_init(&t->ended_peaks);
	t->tick_boot_ns = t->since_tick_ns = U64_UNKNOWN;
	account_begin(&t->attempt, U64_UNKNOWN);
	account_begin(&t->sheet, U64_UNKNOWN);
	return t;
}

struct tally *tally_free(struct tally *t)
{
	if (!t)
		return NULL;
	free(t->entries);
	free(t->events);
	free(t->listed);
	map_release(&t->alive);
	map_release(&t->commands);
	arena_release(&t->arena);
	free(t);
	return NULL;
}

void tally_begin_sheet(struct tally *t, uint64_t boot_ns, bool is_clean)
{
	if (!u64_known(t->attempt.started_boot_ns))
		t->attempt.started_boot_ns = boot_ns;
	account_begin(&t->sheet, boot_ns);
	t->serial++;
	t->sheet_is_open = true;
	t->sheet_is_alone = is_clean;
	t->n_marks = 0;
	if (is_clean)
		t->marks[t->n_marks++] = (struct cpu_mark){ boot_ns, t->reaped_cpu_ns };
}

/* The account of the try that runs, if this is of it; what an earlier one left running is not. */
static struct account *try_account(struct tally *t, const struct entry *e)
{
	return !e || e->serial == t->serial ? &t->sheet : NULL;
}

/* The same command line is kept once. NULL: too many different ones, or no memory. */
static const char *keep_command(struct tally *t, const char *command)
{
	uint64_t hash = hash_bytes(HASH_INIT, command, strlen(command)), kept;
	const char *copy;

	if (map_get(&t->commands, hash, &kept))
		return (const char *)(uintptr_t)kept;
	if (t->commands.len >= TALLY_MAX_COMMANDS)
		return NULL;
	copy = arena_strdup(&t->arena, command);
	if (copy)
		map_put(&t->commands, hash, (uint64_t)(uintptr_t)copy);
	return copy;
}

/* ---- events ---- */

static bool is_notable(const struct proc_event *ev, bool is_root)
{
	if (ev->type == EVENT_SPAWN)
		return is_root;
	return is_root || ev->type != EVENT_EXIT || ev->status.exit_code != 0;
}

/* A flood of births must not keep out the one event that tells why the job ended. */
static bool has_room(struct tally *t, const struct proc_event *ev, bool is_root)
{
	if (t->n_events - t->n_notable < TALLY_MAX_EVENTS)
		return true;
	if (!is_notable(ev, is_root) || t->n_notable >= TALLY_MAX_NOTABLE_EVENTS)
		return false;
	t->n_notable++;
	return true;
}

static bool grow_events(struct tally *t)
{
	size_t cap = t->cap_events ? t->cap_events * 2 : 64;
	struct proc_event *grown;

	if (t->n_events < t->cap_events)
		return true;
	grown = reallocarray(t->events, cap, sizeof(*grown));
	if (!grown)
		return false;
	t->events = grown;
	t->cap_events = cap;
	return true;
}

static void add_event(struct tally *t, const struct proc_event *ev, bool is_root)
{
	if (!has_room(t, ev, is_root) || !grow_events(t)) {
		t->n_events_unlisted++;
		return;
	}
	t->events[t->n_events] = *ev;
	t->events[t->n_events++].job_id = t->job_id;
}

const struct proc_event *tally_events(const struct tally *t, size_t *ret_n)
{
	*ret_n = t->n_events;
	return t->events;
}

const struct proc_event *tally_pending_events(const struct tally *t, size_t *ret_n)
{
	*ret_n = t->n_events - t->n_stored;
	return t->events ? t->events + t->n_stored : NULL;
}

void tally_events_stored(struct tally *t)
{
	t->n_stored = t->n_events;
}

/* ---- births ---- */

static uint64_t pid_key(pid_t pid)
{
	return (uint64_t)(uint32_t)pid;
}

static void count_death(struct tally *t)
{
	if (t->n_living > 0)
		t->n_living--;
}

/* NULL: not known to live, or counted without an entry. */
static struct entry *find_alive(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i < UNLISTED_DEAD ? &t->entries[i] : NULL;
}

static bool is_unlisted(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i >= UNLISTED_DEAD;
}

/* True if it lived. */
static bool note_unlisted_death(struct tally *t, pid_t pid)
{
	uint64_t i;

	if (!map_get(&t->alive, pid_key(pid), &i) || i != UNLISTED)
		return false;
	map_put(&t->alive, pid_key(pid), UNLISTED_DEAD);
	count_death(t);
	return true;
}

static void count_birth(struct tally *t, unsigned serial)
{
	/* Without news of deaths nobody knows how many live; the samples tell. */
	uint64_t n_living = t->sees_births ? ++t->n_living : U64_UNKNOWN;

	account_add_spawn(&t->attempt, n_living);
	if (serial == t->serial) /* what else lives is not this try's */
		account_add_spawn(&t->sheet, t->sheet_is_alone ? n_living : U64_UNKNOWN);
}

static struct entry *grow_entries(struct tally *t)
{
	size_t cap = t->cap ? t->cap * 2 : 64;
	struct entry *grown;

	if (t->n >= TALLY_MAX_PROCESSES)
		return NULL;
	if (t->n < t->cap)
		return t->entries;
	grown = reallocarray(t->entries, cap, sizeof(*grown));
	if (!grown)
		return NULL;
	t->entries = grown;
	t->cap = cap;
	return grown;
}

/* Counts the process, and lists it while there is room. It is of its parent's try, if that is
 * known. */
static struct entry *add_entry(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank)
{
	struct entry *e = find_alive(t, ppid);
	unsigned serial = e ? e->serial : t->serial;

	count_birth(t, serial);
	if (!grow_entries(t) || map_put(&t->alive, pid_key(pid), t->n) < 0) {
		t->n_unlisted++;
		map_put(&t->alive, pid_key(pid), UNLISTED);
		return NULL;
	}
	e = &t->entries[t->n++];
	*e = (struct entry){ .serial = serial };
	proc_record_init(&e->record);
	e->record.key.pid = pid;
	e->record.ppid = ppid;
	e->record.sheet_num = sheet_num;
	e->record.rank = rank;
	return e;
}

static void note_birth(struct tally *t, struct entry *e, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_SPAWN,
		.status = { -1, -1 },
		.sheet_num = e->record.sheet_num,
	};

	e->record.born_wall_ns = wall_ns;
	add_event(t, &ev, e->is_root);
}

void tally_root(struct tally *t, const struct birth *b)
{
	struct entry *e = add_entry(t, b->pid, b->ppid, b->sheet_num, b->rank);

	if (!e)
		return;
	e->is_root = true;
	e->record.command = b->command ? keep_command(t, b->command) : NULL;
	e->record.uid = b->uid;
	note_birth(t, e, b->wall_ns);
}

/*
 * A parent that ignores SIGCHLD has its children waited for by the kernel, which
 * adds what they used to nobody's account.
 */
static struct entry *note_parent(struct tally *t, pid_t pid)
{
	struct entry *parent = find_alive(t, pid);

	if (!parent)
		return NULL;
	parent->has_children = true;
	if (parent->ignores_sigchld)
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	return parent;
}

void tally_fork(struct tally *t, const struct birth *b)
{
	struct entry *e = find_alive(t, b->pid);
	struct entry *parent;

	if (e && !e->fork_was_told && !u64_known(e->record.died_wall_ns)) {
		e->fork_was_told = true; /* known already, from the runner or from a sample */
		note_parent(t, b->ppid);
		return;
	}
	e = add_entry(t, b->pid, b->ppid, b->sheet_num, b->rank);
	parent = note_parent(t, b->ppid); /* after add_entry(), which may move the entries */
	if (!e)
		return;
	e->fork_was_told = true;
	/* Until it execs, a child runs its parent's program. */
	e->record.command = parent ? parent->record.command : NULL;
	e->record.uid = parent ? parent->record.uid : U64_UNKNOWN;
	e->ignores_sigchld = parent && parent->ignores_sigchld;
	note_birth(t, e, b->wall_ns);
}

void tally_exec(struct tally *t, pid_t pid, const char *command)
{
	struct entry *e = find_alive(t, pid);

	/* Of the command itself we know what was asked for, even if it is gone already. */
	if (e && (command || !e->is_root))
		e->record.command = command ? keep_command(t, command) : NULL;
}

void tally_name(struct tally *t, pid_t pid, const char *name)
{
	struct entry *e = find_alive(t, pid);

	if (e && !e->record.command)
		e->record.command = keep_command(t, name);
}

void tally_lost(struct tally *t, uint64_t n)
{
	t->n_lost += n;
	if (n > 0)
		t->sees_births = false;
}

void tally_signal(struct tally *t, pid_t pid, int sheet_num, int sig, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = { .pid = pid, .start_ticks = U64_UNKNOWN },
		.type = sig == SIGKILL ? EVENT_KILL : EVENT_SIGNAL,
		.status = { -1, sig },
		.sheet_num = sheet_num,
		.details = "sent by proctor",
	};

	add_event(t, &ev, false);
}

/* The last that had this pid: it may have been waited for by now. */
static const struct entry *find_last(const struct tally *t, pid_t pid)
{
	for (size_t i = t->n; i > 0; i--)
		if (t->entries[i - 1].record.key.pid == pid)
			return &t->entries[i - 1];
	return NULL;
}

/* A shell whose command was killed tells that by its exit code. NULL: of none it is known. */
static const struct entry *find_killed(const struct tally *t)
{
	const struct entry *killed = NULL;

	for (size_t i = 0; i < t->n; i++) {
		const struct entry *e = &t->entries[i];

		if (e->serial == t->serial && e->record.status.signal == SIGKILL &&
		    (!killed || e->record.died_wall_ns >= killed->record.died_wall_ns))
			killed = e;
	}
	return killed;
}

static struct proc_key find_victim(const struct tally *t, pid_t pid)
{
	const struct entry *e = find_last(t, pid), *killed = NULL;

	if (e && e->record.status.exit_code >= 0)
		killed = find_killed(t);
	if (killed)
		return killed->record.key;
	return (struct proc_key){ pid, e ? e->record.key.start_ticks : U64_UNKNOWN };
}

void tally_orphan(struct tally *t, const struct proc_key *key, uint64_t wall_ns)
{
	const struct entry *e = find_last(t, key->pid);
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = *key,
		.type = EVENT_ORPHAN,
		.status = { -1, -1 },
		.sheet_num = e ? e->record.sheet_num : SHEET_NONE,
		.details = EVENT_ORPHAN_WORDS,
	};

	add_event(t, &ev, false);
}

void tally_oom(struct tally *t, pid_t pid, int sheet_num, const char *details, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = find_victim(t, pid),
		.type = EVENT_OOM,
		.status = { -1, SIGKILL },
		.sheet_num = sheet_num,
		.details = arena_strdup(&t->arena, details),
	};

	add_event(t, &ev, false);
}

static bool has_oom(const struct tally *t, pid_t pid)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (t->events[i].type == EVENT_OOM && t->events[i].key.pid == pid)
			return true;
	return false;
}

void tally_told_signal(struct tally *t, const struct proc_event *told)
{
	struct proc_event ev = *told;

	if (ev.type == EVENT_OOM && has_oom(t, ev.key.pid))
		return;
	ev.details = arena_strdup(&t->arena, told->details);
	add_event(t, &ev, false);
}

/* ---- deaths ---- */

static void note_death(struct tally *t, struct entry *e, int wait_status, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_EXIT,
		.status = exit_status_from_wait(wait_status),
		.sheet_num = e->record.sheet_num,
		.details = e->record.command,
	};

	count_death(t);
	e->record.died_wall_ns = wall_ns;
	e->record.status = ev.status;
	add_event(t, &ev, e->is_root);
}

void tally_exit(struct tally *t, pid_t pid, int wait_status, uint64_t wall_ns)
{
	struct entry *e = find_alive(t, pid);

	if (e && !u64_known(e->record.died_wall_ns))
		note_death(t, e, wait_status, wall_ns);
	else
		note_unlisted_death(t, pid);
}

/* Of a process that lived between two samples, and that we did not wait for, there is nothing else.
 */
void tally_account(struct tally *t, pid_t pid, const struct exit_account *account)
{
	struct entry *e = find_alive(t, pid);

	if (e)
		proc_record_account(&e->record, account);
}

/* Of a process without children, what wait4 told is its own: ru_maxrss and I/O are of its whole
 * tree. */
static void finish_leaf(struct entry *e, const struct reaped *reaped,
			const struct proc_sample *zombie)
{
	uint64_t rss = (uint64_t)reaped->usage.ru_maxrss * 1024;

	e->record.user_ns = account_timeval_ns(reaped->usage.ru_utime);
	e->record.system_ns = account_timeval_ns(reaped->usage.ru_stime);
	e->record.cpu_evidence = EVIDENCE_EXACT;
	e->record.major_faults = (uint64_t)reaped->usage.ru_majflt;
	e->record.rchar = zombie->rchar;
	e->record.wchar = zombie->wchar;
	e->record.read_bytes = zombie->read_bytes;
	e->record.write_bytes = zombie->write_bytes;
	if (account_is_own_peak(reaped)) {
		e->record.max_rss_bytes = u64_max_known(e->record.max_rss_bytes, rss);
		e->record.evidence = EVIDENCE_EXACT;
	} else if (!u64_known(e->record.max_rss_bytes)) {
		e->record.max_rss_bytes = rss;
		e->record.evidence = EVIDENCE_UPPER_BOUND;
	}
}

/* By its account, in nanoseconds, where a zombie tells clock ticks. */
static bool has_account(const struct entry *e)
{
	return e->record.cpu_evidence == EVIDENCE_LOWER_BOUND;
}

static void finish_entry(const struct tally *t, struct entry *e, const struct reaped *reaped,
			 const struct proc_sample *zombie)
{
	if (t->sees_births && !e->has_children) {
		finish_leaf(e, reaped, zombie);
	} else if (u64_known(zombie->user_ns) && !has_account(e)) {
		e->record.user_ns = zombie->user_ns;
		e->record.system_ns = zombie->system_ns;
	}
}

static void note_reap_time(struct tally *t, struct account *sheet, uint64_t boot_ns)
{
	t->attempt.last_reap_boot_ns = boot_ns;
	if (sheet)
		sheet->last_reap_boot_ns = boot_ns;
}

uint64_t tally_reap(struct tally *t, const struct reaped *reaped, const struct proc_sample *zombie,
		    uint64_t wall_ns, uint64_t boot_ns)
{
	struct entry *e = find_alive(t, reaped->pid);
	bool was_unlisted = is_unlisted(t, reaped->pid);
	struct account *sheet;

	if (!e && !was_unlisted) /* an orphan that neither events nor samples have shown */
		e = add_entry(t, reaped->pid, zombie->ppid, zombie->sheet_num, RANK_NONE);
	account_add_reaped(&t->attempt, reaped, zombie);
	sheet = try_account(t, e);
	if (sheet)
		account_add_reaped(sheet, reaped, zombie);
	note_reap_time(t, sheet, boot_ns);
	if (zombie->ignores_sigchld > 0 && (!e || e->has_children))
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	t->reaped_cpu_ns += account_timeval_ns(reaped->usage.ru_utime) +
			    account_timeval_ns(reaped->usage.ru_stime);
	note_unlisted_death(t, reaped->pid);
	map_remove(&t->alive, pid_key(reaped->pid));
	if (!e)
		return U64_UNKNOWN;
	/* wait4 knows better about threads that exit one by one. */
	if (u64_known(e->record.died_wall_ns))
		e->record.status = exit_status_from_wait(reaped->wait_status);
	else
		note_death(t, e, reaped->wait_status, wall_ns);
	finish_entry(t, e, reaped, zombie);
	return e->record.died_wall_ns;
}

/* ---- samples ---- */

static bool is_same_process(const struct entry *e, const struct proc_sample *p)
{
	return !u64_known(e->record.key.start_ticks) ||
	       e->record.key.start_ticks == p->key.start_ticks;
}

static struct entry *entry_for_sample(struct tally *t, const struct proc_sample *p)
{
	struct entry *e = find_alive(t, p->key.pid);

	if (is_unlisted(t, p->key.pid))
		return NULL;
	if (e && is_same_process(e, p))
		return e;
	e = add_entry(t, p->key.pid, p->ppid, p->sheet_num, p->rank);
	if (e)
		note_birth(t, e, p->start_wall_ns);
	return e;
}

static void update_identity(struct tally *t, struct entry *e, const struct proc_sample *p)
{
	struct proc_record *rec = &e->record;
	const char *kept;

	rec->key.start_ticks = p->key.start_ticks;
	rec->uid = u64_known(p->uid) ? p->uid : rec->uid;
	if (rec->rank == RANK_NONE)
		rec->rank = p->rank;
	if (rec->rank == p->rank) {
		rec->local_rank = p->local_rank;
		rec->world_size = p->world_size;
	}
	if (p->state == 'Z')
		return;
	e->ignores_sigchld = p->ignores_sigchld > 0;
	if (p->command && (!rec->command || strcmp(rec->command, p->command) != 0)) {
		kept = keep_command(t, p->command);
		rec->command = kept ? kept : rec->command;
	}
}

static void update_numbers(struct proc_record *rec, const struct proc_sample *p)
{
	rec->user_ns = u64_max_known(rec->user_ns, p->user_ns);
	rec->system_ns = u64_max_known(rec->system_ns, p->system_ns);
	rec->max_rss_bytes = u64_max_known(rec->max_rss_bytes, p->rss_bytes);
	rec->max_rss_bytes = u64_max_known(rec->max_rss_bytes, p->hwm_bytes);
	rec->rchar = u64_max_known(rec->rchar, p->rchar);
	rec->wchar = u64_max_known(rec->wchar, p->wchar);
	rec->read_bytes = u64_max_known(rec->read_bytes, p->read_bytes);
	rec->write_bytes = u64_max_known(rec->write_bytes, p->write_bytes);
	rec->major_faults = u64_max_known(rec->major_faults, p->major_faults);
	rec->max_threads = u64_max_known(rec->max_threads, p->threads);
	rec->max_fds = u64_max_known(rec->max_fds, p->open_fds);
	rec->max_gpu_bytes = u64_max_known(rec->max_gpu_bytes, p->gpu_memory_bytes);
	rec->n_samples++;
	rec->evidence = EVIDENCE_SAMPLED;
}

static void take_sample(struct tally *t, const struct proc_sample *p)
{
	struct entry *e = entry_for_sample(t, p);
	struct account *sheet;

	if (!e)
		return;
	update_identity(t, e, p);
	account_add_sampled_cpu(&t->attempt, &e->record, p);
	sheet = try_account(t, e);
	if (sheet)
		account_add_sampled_cpu(sheet, &e->record, p);
	update_numbers(&e->record, p);
	gpu_time_add(&e->gpu, p->gpu_memory_bytes, p->gpu_percent, t->since_tick_ns);
	e->record.gpu_busy_ns = gpu_time_busy_ns(&e->gpu);
	note_parent(t, p->ppid);
}

static void add_mark(struct tally *t, struct cpu_mark mark)
{
	if (t->n_marks == CPU_MARKS) {
		memmove(t->marks, t->marks + 1, (CPU_MARKS - 1) * sizeof(t->marks[0]));
		t->n_marks--;
	}
	t->marks[t->n_marks++] = mark;
}

/* The latest mark that is a window or more ago; NULL: none yet. */
static const struct cpu_mark *mark_before(const struct tally *t, uint64_t boot_ns)
{
	const struct cpu_mark *found = NULL;

	for (size_t i = 0; i < t->n_marks; i++)
		if (t->marks[i].boot_ns + CPU_WINDOW_NS <= boot_ns)
			found = &t->marks[i];
	return found;
}

/*
 * The CPU time that the tree has used since its beginning: of the living with
 * all they have waited for, and of those that we have waited for. Unlike the
 * sum of cpu_percent it holds the short-lived children too. It never falls: a
 * child that was waited for between the reading of its parent and its own is
 * missing once, and that is not to be billed again when it is back.
 */
static double tree_cpu_percent(struct tally *t, uint64_t living_cpu_ns, uint64_t boot_ns)
{
	uint64_t total = u64_add(living_cpu_ns, t->reaped_cpu_ns);
	const struct cpu_mark *before = mark_before(t, boot_ns);
	double percent = F64_UNKNOWN;

	if (!u64_known(total))
		return F64_UNKNOWN;
	if (t->n_marks > 0 && total < t->marks[t->n_marks - 1].total_ns)
		total = t->marks[t->n_marks - 1].total_ns;
	if (before)
		percent = 100.0 * (double)(total - before->total_ns) /
			  (double)(boot_ns - before->boot_ns);
	add_mark(t, (struct cpu_mark){ boot_ns, total });
	return percent;
}

static uint64_t sample_cpu_ns(const struct proc_sample *p)
{
	uint64_t own = u64_max_known(p->cpu_ns, u64_add(p->user_ns, p->system_ns));

	return u64_add_known(own, u64_add_known(p->child_user_ns, p->child_system_ns));
}

/* What the processes of a tick add up to: of the whole job, and of the try that runs. */
struct tick_sum {
	uint64_t n_processes, rss_bytes, hwm_bytes, gpu_bytes;
	double gpu_percent;    /* of those that told */
	bool has_untold_share; /* of one that may use a GPU: then the sum says nothing */
};

static void tick_sum_add(struct tick_sum *sum, const struct proc_sample *p)
{
	sum->n_processes++;
	sum->rss_bytes = u64_add_known(sum->rss_bytes, p->rss_bytes);
	sum->hwm_bytes = u64_max_known(sum->hwm_bytes, p->hwm_bytes);
	sum->gpu_bytes = u64_add_known(sum->gpu_bytes, p->gpu_memory_bytes);
	if (f64_known(p->gpu_percent))
		sum->gpu_percent = f64_known(sum->gpu_percent) ? sum->gpu_percent + p->gpu_percent
							       : p->gpu_percent;
	else if (p->gpu_memory_bytes > 0) /* or unknown, which is more */
		sum->has_untold_share = true;
}

static void add_tick(struct account *a, const struct tick_sum *sum, struct series_point point,
		     uint64_t since_ns)
{
	point.n_processes = sum->n_processes;
	point.rss_bytes = sum->rss_bytes;
	account_add_tick(a, &point, sum->hwm_bytes);
	account_add_gpu_tick(a, sum->gpu_bytes,
			     sum->has_untold_share ? F64_UNKNOWN : sum->gpu_percent, since_ns);
}

/* Rounding to ticks can give a little more than the machine has. */
static double cap_percent(double percent, unsigned cpu_count)
{
	return cpu_count > 0 && percent > 100.0 * cpu_count ? 100.0 * cpu_count : percent;
}

/* A zombie whose death was told: all that it will ever add is in the account of who waits for it.
 */
static bool is_settled_zombie(const struct tally *t, const struct proc_sample *p)
{
	return p->state == 'Z' && t->sees_births && !find_alive(t, p->key.pid);
}

/* Who has died, and was counted so, is not counted again because nobody waits for it. */
static bool is_told_dead(const struct tally *t, const struct proc_sample *p)
{
	const struct entry *e = p->state == 'Z' ? find_alive(t, p->key.pid) : NULL;

	return e && u64_known(e->record.died_wall_ns);
}

void tally_snapshot(struct tally *t, const struct snapshot *snap, int sheet_num,
		    struct series_point *ret)
{
	struct tick_sum all = { 0, U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN, F64_UNKNOWN, false };
	struct tick_sum of_try = all;
	struct series_point point = { .wall_ns = snap->wall_ns, .sheet_num = sheet_num };
	uint64_t cpu_ns = 0;

	t->since_tick_ns = u64_delta(snap->boot_ns, t->tick_boot_ns);
	t->tick_boot_ns = snap->boot_ns;
	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];

		if (!p->job_id)
			continue;
		cpu_ns = u64_add_known(cpu_ns, sample_cpu_ns(p));
		if (is_settled_zombie(t, p))
			continue;
		take_sample(t, p);
		if (is_told_dead(t, p))
			continue;
		tick_sum_add(&all, p);
		if (try_account(t, find_alive(t, p->key.pid)))
			tick_sum_add(&of_try, p);
	}
	point.n_processes = all.n_processes;
	point.rss_bytes = all.rss_bytes;
	point.cpu_percent =
		cap_percent(tree_cpu_percent(t, cpu_ns, snap->boot_ns), snap->system.cpu_count);
	add_tick(&t->attempt, &all, point, t->since_tick_ns);
	*ret = point;
	if (!t->sheet_is_alone)
		point.cpu_percent = F64_UNKNOWN; /* whose CPU is it? */
	add_tick(&t->sheet, &of_try, point, t->since_tick_ns);
}

/* ---- results ---- */

void tally_end_sheet(struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->sheet, boot_ns, t->sees_births, is_complete, ret);
	peaks_add(&t->ended_peaks, ret->peak_rss_bytes, ret->peak_rss_evidence);
	t->sheet_is_open = false;
}

void tally_total(const struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->attempt, boot_ns, t->sees_births, is_complete, ret);
	/* What was left running in the background makes sheets overlap: then the sums stand. */
	if (!t->sheet_is_open && is_complete)
		peaks_settle(&t->ended_peaks, &ret->peak_rss_bytes, &ret->peak_rss_evidence);
}

const struct proc_record *tally_processes(struct tally *t, size_t *ret_n)
{
	struct proc_record *listed = reallocarray(t->listed, t->n ? t->n : 1, sizeof(*listed));

	*ret_n = 0;
	if (!listed)
		return NULL;
	t->listed = listed;
	for (size_t i = 0; i < t->n; i++)
		listed[i] = t->entries[i].record;
	*ret_n = t->n;
	return listed;
}

uint64_t tally_unlisted_processes(const struct tally *t)
{
	return t->n_unlisted;
}

uint64_t tally_unlisted_events(const struct tally *t)
{
	return t->n_events_unlisted;
}

uint64_t tally_lost_events(const struct tally *t)
{
	return t->n_lost;
}
