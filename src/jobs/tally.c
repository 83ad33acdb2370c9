#include "jobs/tally.h"

#include <signal.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/unknown.h"
#include "jobs/account.h"

#define CPU_MARKS 8

/* A proc_record and what only the tally wants to know about it. */
struct entry {
	struct proc_record record;
	struct gpu_time gpu;
	unsigned serial; /* of the try that it belongs to */
	bool is_root;
	bool fork_was_told; /* by the kernel; a root is announced by the runner first */
	bool has_children;
	unsigned n_execs; /* its mark is of the last program alone */
	bool ignores_sigchld;
	bool by_daemon;	      /* it has reported the end */
	uint64_t start_ticks; /* as reported with the end; the record's own may be unknown */
	size_t before;	      /* the one before it with the same pid: its index + 1; 0: none */
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
	struct map last;  /* pid -> index of the last that had it, dead or alive */
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
	size_t calls_bytes; /* of failed_calls of all */
	double unshared;    /* 1 less the share of memory that is counted once; 0: none is shared */
	size_t n_events, cap_events, n_stored, n_notable;
	uint64_t n_events_unlisted;
	uint64_t n_lost;

	struct map commands;	    /* hash -> string */
	struct proc_record *listed; /* what tally_processes() hands out */
	struct arena arena;
};

/* In the map of the living: counted, without an entry; the second kind has died and may be seen
 * again. */
#define UNLISTED UINT64_MAX
#define UNLISTED_DEAD (UINT64_MAX - 1)

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
	map_release(&t->last);
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
static struct account *tally_try_account(struct tally *t, const struct entry *e)
{
	return !e || e->serial == t->serial ? &t->sheet : NULL;
}

/* The same command line is kept once. NULL: too many different ones, or no memory. */
static const char *tally_keep_command(struct tally *t, const char *command)
{
	uint64_t hash = hash_bytes(HASH_INIT, command, strlen(command)), found;
	const char *kept;

	if (map_get(&t->commands, hash, &found)) {
		kept = (const char *)(uintptr_t)found;
		return strcmp(kept, command) == 0 ? kept : NULL; /* never another's */
	}
	if (t->commands.len >= TALLY_MAX_COMMANDS)
		return NULL;
	kept = arena_strdup(&t->arena, command);
	if (kept)
		map_put(&t->commands, hash, (uint64_t)(uintptr_t)kept);
	return kept;
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

/* ev is copied, its details are not; is_root: of a process that the runner started itself. */
static void tally_add_event(struct tally *t, const struct proc_event *ev, bool is_root)
{
	if (!has_room(t, ev, is_root) ||
	    ARRAY_RESERVE(t->events, t->cap_events, t->n_events + 1) < 0) {
		t->n_events_unlisted++;
		return;
	}
	t->events[t->n_events] = *ev;
	t->events[t->n_events++].job_id = t->job_id;
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
static struct entry *tally_find_alive(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i < UNLISTED_DEAD ? &t->entries[i] : NULL;
}

/* The last that had this pid: it may have been waited for by now. */
static struct entry *find_last(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->last, pid_key(pid), &i) ? &t->entries[i] : NULL;
}

/* It is counted, and has no entry. */
static bool tally_is_unlisted(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i >= UNLISTED_DEAD;
}

static void note_unlisted_death(struct tally *t, pid_t pid)
{
	uint64_t i;

	if (!map_get(&t->alive, pid_key(pid), &i) || i != UNLISTED)
		return;
	map_put(&t->alive, pid_key(pid), UNLISTED_DEAD);
	count_death(t);
}

/*
 * Counts the process, and lists it while there is room (NULL: there is none). It
 * is of its parent's try, if that is known. Entries may move.
 */
static struct entry *tally_add_entry(struct tally *t, pid_t pid, pid_t ppid, int sheet_num,
				     int rank)
{
	struct entry *e = tally_find_alive(t, ppid);
	unsigned serial = e ? e->serial : t->serial;
	/* Without news of deaths nobody knows how many live; the samples tell. */
	uint64_t n_living = t->sees_births ? ++t->n_living : U64_UNKNOWN, before;

	account_add_spawn(&t->attempt, n_living);
	if (serial == t->serial) /* what else lives is not this try's */
		account_add_spawn(&t->sheet, t->sheet_is_alone ? n_living : U64_UNKNOWN);
	if (t->n >= TALLY_MAX_PROCESSES || ARRAY_RESERVE(t->entries, t->cap, t->n + 1) < 0 ||
	    map_put(&t->alive, pid_key(pid), t->n) < 0) {
		t->n_unlisted++;
		map_put(&t->alive, pid_key(pid), UNLISTED);
		return NULL;
	}
	e = &t->entries[t->n];
	*e = (struct entry){ .serial = serial, .start_ticks = U64_UNKNOWN };
	if (map_get(&t->last, pid_key(pid), &before))
		e->before = before + 1;
	(void)map_put(&t->last, pid_key(pid), t->n++); /* without memory it is never merged */
	proc_record_init(&e->record);
	e->record.key.pid = pid;
	e->record.ppid = ppid;
	e->record.sheet_num = sheet_num;
	e->record.rank = rank;
	return e;
}

static void tally_note_birth(struct tally *t, struct entry *e, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_SPAWN,
		.status = { -1, -1 },
		.sheet_num = e->record.sheet_num,
	};

	e->record.born_wall_ns = wall_ns;
	tally_add_event(t, &ev, e->is_root);
}

/*
 * A parent that ignores SIGCHLD has its children waited for by the kernel, which
 * adds what they used to nobody's account. NULL: it is not known to live.
 */
static struct entry *tally_note_parent(struct tally *t, pid_t pid)
{
	struct entry *parent = tally_find_alive(t, pid);

	if (!parent)
		return NULL;
	parent->has_children = true;
	if (parent->ignores_sigchld)
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	return parent;
}

void tally_birth(struct tally *t, const struct birth *b, bool is_root)
{
	struct entry *e = is_root ? NULL : tally_find_alive(t, b->pid);
	struct entry *parent;

	if (e && !e->fork_was_told && !u64_known(e->record.died_wall_ns)) {
		e->fork_was_told = true; /* known already, from the runner or from a sample */
		tally_note_parent(t, b->ppid);
		return;
	}
	e = tally_add_entry(t, b->pid, b->ppid, b->sheet_num, b->rank);
	parent = tally_note_parent(
		t, b->ppid); /* after tally_add_entry(), which may move the entries */
	if (!e)
		return;
	e->is_root = is_root;
	e->fork_was_told = !is_root;
	/* Until it execs, a child runs its parent's program. */
	e->record.command = b->command ? tally_keep_command(t, b->command)
			    : parent   ? parent->record.command
				       : NULL;
	e->record.uid = !u64_known(b->uid) && parent ? parent->record.uid : b->uid;
	e->ignores_sigchld = parent && parent->ignores_sigchld;
	tally_note_birth(t, e, b->wall_ns);
}

void tally_exec(struct tally *t, pid_t pid, const char *command)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e)
		e->n_execs++;
	/* Of the command itself we know what was asked for, even if it is gone already. */
	if (e && (command || !e->is_root))
		e->record.command = command ? tally_keep_command(t, command) : NULL;
}

void tally_lost(struct tally *t, uint64_t n)
{
	t->n_lost += n;
	if (n > 0)
		t->sees_births = false;
}

/* ---- deaths ---- */

static void note_death(struct tally *t, struct entry *e, struct exit_status status,
		       uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = e->record.key,
		.type = EVENT_EXIT,
		.status = status,
		.sheet_num = e->record.sheet_num,
		.details = e->record.command,
	};

	count_death(t);
	e->record.died_wall_ns = wall_ns;
	e->record.status = ev.status;
	tally_add_event(t, &ev, e->is_root);
}

/* Two sources report one end: between the two a pid is not used again. */
#define SAME_END_NS UINT64_C(500000000)

/* The start time tells, where both know it; else when it ended. One that lives as far as we know is
 * the only one with its pid. */
static bool is_same_life(const struct entry *e, const struct proc_record *end)
{
	uint64_t start =
		u64_known(e->record.key.start_ticks) ? e->record.key.start_ticks : e->start_ticks;
	uint64_t died = e->record.died_wall_ns, ended = end->died_wall_ns;

	if (u64_known(start) && u64_known(end->key.start_ticks))
		return start == end->key.start_ticks;
	if (!u64_known(died))
		return u64_known(ended) && (!u64_known(e->record.born_wall_ns) ||
					    e->record.born_wall_ns <= ended + SAME_END_NS);
	return u64_known(ended) && died < ended + SAME_END_NS && ended < died + SAME_END_NS;
}

static const char *keep_bounded(struct tally *t, const char *had, const char *text)
{
	if (had || !text || t->calls_bytes >= TALLY_MAX_CALLS_BYTES)
		return had;
	t->calls_bytes += strlen(text);
	return arena_strdup(&t->arena, text);
}

void tally_merge_end(struct tally *t, const struct proc_record *end, bool by_daemon)
{
	struct entry *e = find_last(t, end->key.pid);
	const char *command, *calls, *tail;

	while (e && !is_same_life(e, end))
		e = e->before ? &t->entries[e->before - 1] : NULL;
	if (!e) {
		note_unlisted_death(t, end->key.pid);
		return;
	}
	command = e->record.command || !end->command ? e->record.command
						     : tally_keep_command(t, end->command);
	e->record.command = command;
	if (!u64_known(e->record.died_wall_ns) && u64_known(end->died_wall_ns))
		note_death(t, e, end->status, end->died_wall_ns);
	calls = keep_bounded(t, e->record.failed_calls, end->failed_calls);
	tail = keep_bounded(t, e->record.stderr_tail, end->stderr_tail);
	proc_record_merge_end(&e->record, end);
	e->record.command = command;
	e->record.failed_calls = calls;
	e->record.stderr_tail = tail;
	if (u64_known(end->key.start_ticks))
		e->start_ticks = end->key.start_ticks;
	e->by_daemon |= by_daemon;
}

size_t tally_count_inexact(const struct tally *t, bool by_daemon)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->entries[i].record.cpu_evidence != EVIDENCE_EXACT &&
		     (t->entries[i].by_daemon || !by_daemon);
	return n;
}

static void finish_entry(const struct tally *t, struct entry *e, const struct reaped *reaped,
			 const struct proc_sample *zombie)
{
	/* With that of children that it has waited for, as everywhere. */
	if (u64_known(zombie->rchar)) {
		e->record.rchar = zombie->rchar;
		e->record.wchar = zombie->wchar;
		e->record.read_bytes = zombie->read_bytes;
		e->record.write_bytes = zombie->write_bytes;
	}
	if (t->sees_births && !e->has_children) {
		uint64_t rss = (uint64_t)reaped->usage.ru_maxrss * 1024;

		/* Of a process without children, what wait4 told is its own: ru_maxrss is of its
		 * whole tree. */
		e->record.user_ns = account_timeval_ns(reaped->usage.ru_utime);
		e->record.system_ns = account_timeval_ns(reaped->usage.ru_stime);
		e->record.cpu_evidence = EVIDENCE_EXACT;
		e->record.major_faults = (uint64_t)reaped->usage.ru_majflt;
		if (account_is_own_peak(reaped)) {
			e->record.max_rss_bytes = u64_max_known(e->record.max_rss_bytes, rss);
			e->record.evidence = EVIDENCE_EXACT;
		} else if (!u64_known(e->record.max_rss_bytes)) {
			e->record.max_rss_bytes = rss;
			e->record.evidence = EVIDENCE_UPPER_BOUND;
		}
	} else if (u64_known(zombie->user_ns) && e->record.cpu_evidence != EVIDENCE_LOWER_BOUND &&
		   e->record.cpu_evidence != EVIDENCE_EXACT) {
		/* It tells clock ticks, and an account nanoseconds. */
		e->record.user_ns = zombie->user_ns;
		e->record.system_ns = zombie->system_ns;
	}
}

uint64_t tally_reap(struct tally *t, const struct reaped *reaped, const struct proc_sample *zombie,
		    uint64_t wall_ns, uint64_t boot_ns)
{
	struct entry *e = tally_find_alive(t, reaped->pid);
	bool was_unlisted = tally_is_unlisted(t, reaped->pid);
	struct account *sheet;

	if (!e && !was_unlisted) /* an orphan that neither events nor samples have shown */
		e = tally_add_entry(t, reaped->pid, zombie->ppid, zombie->sheet_num, RANK_NONE);
	account_add_reaped(&t->attempt, reaped, zombie);
	sheet = tally_try_account(t, e);
	t->attempt.last_reap_boot_ns = boot_ns;
	if (sheet) {
		account_add_reaped(sheet, reaped, zombie);
		sheet->last_reap_boot_ns = boot_ns;
	}
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
		note_death(t, e, exit_status_from_wait(reaped->wait_status), wall_ns);
	finish_entry(t, e, reaped, zombie);
	return e->record.died_wall_ns;
}

/* ---- what happened to processes ---- */

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

static void add_special(struct tally *t, enum event_type type, struct proc_key key, int sheet_num,
			int sig, const char *details, uint64_t wall_ns)
{
	struct proc_event ev = {
		.wall_ns = wall_ns,
		.key = key,
		.type = type,
		.status = { -1, sig },
		.sheet_num = sheet_num,
		.details = details,
	};

	tally_add_event(t, &ev, false);
}

void tally_signal(struct tally *t, pid_t pid, int sheet_num, int sig, const char *details,
		  uint64_t wall_ns)
{
	add_special(t, sig == SIGKILL ? EVENT_KILL : EVENT_SIGNAL,
		    (struct proc_key){ pid, U64_UNKNOWN }, sheet_num, sig,
		    arena_strdup(&t->arena, details), wall_ns);
}

/* A shell whose command was killed tells that by its exit code: it is who of its try was killed
 * last. */
static struct proc_key find_victim(const struct tally *t, pid_t pid)
{
	const struct entry *e = find_last(t, pid), *killed = NULL;

	for (size_t i = 0; e && e->record.status.exit_code >= 0 && i < t->n; i++) {
		const struct entry *other = &t->entries[i];

		if (other->serial == t->serial && other->record.status.signal == SIGKILL &&
		    (!killed || other->record.died_wall_ns >= killed->record.died_wall_ns))
			killed = other;
	}
	if (killed)
		return killed->record.key;
	return (struct proc_key){ pid, e ? e->record.key.start_ticks : U64_UNKNOWN };
}

void tally_orphan(struct tally *t, const struct proc_key *key, uint64_t wall_ns)
{
	const struct entry *e = find_last(t, key->pid);

	add_special(t, EVENT_ORPHAN, *key, e ? e->record.sheet_num : SHEET_NONE, -1,
		    EVENT_ORPHAN_WORDS, wall_ns);
}

void tally_oom(struct tally *t, pid_t pid, int sheet_num, const char *details, uint64_t wall_ns)
{
	add_special(t, EVENT_OOM, find_victim(t, pid), sheet_num, SIGKILL,
		    arena_strdup(&t->arena, details), wall_ns);
}

const char *tally_find_oom(const struct tally *t, pid_t pid)
{
	const pid_t victim = find_victim(t, pid).pid;

	for (size_t i = t->n_events; i > 0; i--) {
		const struct proc_event *ev = &t->events[i - 1];

		if (ev->type == EVENT_OOM && (ev->key.pid == pid || ev->key.pid == victim))
			return ev->details;
	}
	return NULL;
}

void tally_merge_signal(struct tally *t, const struct proc_event *told)
{
	const struct entry *e = find_last(t, told->key.pid);
	struct proc_event ev = *told;

	for (size_t i = 0; ev.type == EVENT_OOM && i < t->n_events; i++)
		if (t->events[i].type == EVENT_OOM && t->events[i].key.pid == ev.key.pid)
			return;
	if (e)
		ev.sheet_num = e->record.sheet_num;
	ev.details = arena_strdup(&t->arena, told->details);
	tally_add_event(t, &ev, false);
}

/* ---- the accounts, settled ---- */

/* Of this try, or of all (serial 0). U64_UNKNOWN: not all have a mark of all that they were. */
static uint64_t largest_mark(const struct tally *t, unsigned serial)
{
	uint64_t largest = U64_UNKNOWN;

	if (!t->sees_births || t->n_unlisted > 0)
		return U64_UNKNOWN;
	for (size_t i = 0; i < t->n; i++) {
		const struct entry *e = &t->entries[i];

		if (serial != 0 && e->serial != serial)
			continue;
		if (e->record.evidence != EVIDENCE_EXACT || e->n_execs > 1)
			return U64_UNKNOWN;
		largest = u64_max_known(largest, e->record.max_rss_bytes);
	}
	return largest;
}

/*
 * What a small process had at most, as wait4 cannot tell it from the runner's own mark before exec,
 * the kernel may have told at its end.
 */
static void settle_marks(const struct tally *t, unsigned serial, struct usage *u)
{
	uint64_t largest = largest_mark(t, serial);

	if (!u64_known(largest) || u->max_process_rss_evidence == EVIDENCE_EXACT)
		return;
	if (u->max_process_rss_evidence == EVIDENCE_LOWER_BOUND)
		largest = u64_max_known(largest, u->max_process_rss_bytes);
	if (u->spawn_count == 1) {
		u->peak_rss_bytes = largest;
		u->peak_rss_evidence = EVIDENCE_EXACT;
	}
	u->max_process_rss_bytes = largest;
	u->max_process_rss_evidence = EVIDENCE_EXACT;
}

/* Of this try, or of all (serial 0). */
static void settle(const struct tally *t, struct account a, unsigned serial, uint64_t boot_ns,
		   bool is_complete, struct usage *ret)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct entry *e = &t->entries[i];

		if (serial != 0 && e->serial != serial)
			continue;
		a.parts_user_ns = u64_add_known(a.parts_user_ns, e->record.user_ns);
		a.parts_system_ns = u64_add_known(a.parts_system_ns, e->record.system_ns);
	}
	account_settle(&a, boot_ns, t->sees_births, is_complete, ret);
	settle_marks(t, serial, ret);
}

void tally_end_sheet(struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	settle(t, t->sheet, t->serial, boot_ns, is_complete, ret);
	peaks_add(&t->ended_peaks, ret->peak_rss_bytes, ret->peak_rss_evidence);
	t->sheet_is_open = false;
}

void tally_total(const struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	settle(t, t->attempt, 0, boot_ns, is_complete, ret);
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

struct tally_gaps tally_gaps(const struct tally *t)
{
	return (struct tally_gaps){
		.gpu_ns = t->attempt.gpu.blind_ns[0],
		.gpu_idle_ns = t->attempt.gpu.idle_untold_ns,
		.n_processes = t->n_unlisted,
		.n_events = t->n_events_unlisted,
		.n_lost = t->n_lost,
	};
}

/*
 * A percentage is taken over at least this long: counters come in clock ticks of
 * 10 ms at worst, and over 20 ms such a tick would be half a core.
 */
#define CPU_WINDOW_NS UINT64_C(90000000)

/* A sample knows it to a clock tick, rounded down: but nobody is born before its parent. */
static uint64_t birth_by_sample(const struct tally *t, const struct proc_sample *p)
{
	const struct entry *parent = tally_find_alive(t, p->ppid);

	if (!parent || !u64_known(p->start_wall_ns))
		return p->start_wall_ns;
	return u64_max_known(p->start_wall_ns, parent->record.born_wall_ns);
}

static struct entry *entry_for_sample(struct tally *t, const struct proc_sample *p)
{
	struct entry *e = tally_find_alive(t, p->key.pid);

	if (tally_is_unlisted(t, p->key.pid))
		return NULL;
	if (e && (!u64_known(e->record.key.start_ticks) ||
		  e->record.key.start_ticks == p->key.start_ticks))
		return e;
	e = tally_add_entry(t, p->key.pid, p->ppid, p->sheet_num, p->rank);
	if (e)
		tally_note_birth(t, e, birth_by_sample(t, p));
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
		kept = tally_keep_command(t, p->command);
		rec->command = kept ? kept : rec->command;
	}
}

static void take_sample(struct tally *t, const struct proc_sample *p)
{
	const struct gpu_use gpu = gpu_use_of(p);
	struct entry *e = entry_for_sample(t, p);

	if (!e)
		return;
	update_identity(t, e, p);
	e->record.user_ns = u64_max_known(e->record.user_ns, p->user_ns);
	e->record.system_ns = u64_max_known(e->record.system_ns, p->system_ns);
	e->record.max_rss_bytes = u64_max_known(e->record.max_rss_bytes, p->rss_bytes);
	e->record.max_rss_bytes = u64_max_known(e->record.max_rss_bytes, p->hwm_bytes);
	e->record.rchar = u64_max_known(e->record.rchar, p->rchar);
	e->record.wchar = u64_max_known(e->record.wchar, p->wchar);
	e->record.read_bytes = u64_max_known(e->record.read_bytes, p->read_bytes);
	e->record.write_bytes = u64_max_known(e->record.write_bytes, p->write_bytes);
	e->record.major_faults = u64_max_known(e->record.major_faults, p->major_faults);
	e->record.max_threads = u64_max_known(e->record.max_threads, p->threads);
	e->record.max_fds = u64_max_known(e->record.max_fds, p->open_fds);
	e->record.max_gpu_bytes = u64_max_known(e->record.max_gpu_bytes, p->gpu_memory_bytes);
	e->record.n_samples++;
	if (e->record.evidence !=
	    EVIDENCE_EXACT) /* of a zombie the kernel may have told the mark */
		e->record.evidence = EVIDENCE_SAMPLED;
	gpu_time_add(&e->gpu, &gpu, t->since_tick_ns);
	e->record.gpu_busy_ns = gpu_time_busy_ns(&e->gpu);
	e->record.gpu_idle_ns = gpu_time_idle_ns(&e->gpu);
	tally_note_parent(t, p->ppid);
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
	const struct cpu_mark *before = NULL;
	double percent = F64_UNKNOWN;

	/* The latest mark that is a window or more ago; NULL: none yet. */
	for (size_t i = 0; i < t->n_marks; i++)
		if (t->marks[i].boot_ns + CPU_WINDOW_NS <= boot_ns)
			before = &t->marks[i];
	if (!u64_known(total))
		return F64_UNKNOWN;
	if (t->n_marks > 0 && total < t->marks[t->n_marks - 1].total_ns)
		total = t->marks[t->n_marks - 1].total_ns;
	if (before)
		percent = 100.0 * (double)(total - before->total_ns) /
			  (double)(boot_ns - before->boot_ns);
	if (t->n_marks == CPU_MARKS) {
		memmove(t->marks, t->marks + 1, (CPU_MARKS - 1) * sizeof(t->marks[0]));
		t->n_marks--;
	}
	t->marks[t->n_marks++] = (struct cpu_mark){ boot_ns, total };
	return percent;
}

/* What the processes of a tick add up to: of the whole job, and of the try that runs. */
struct tick_sum {
	uint64_t n_processes, rss_bytes, hwm_bytes;
	struct gpu_use gpu;    /* of those that told */
	bool has_untold_share; /* of one that may use a GPU: then the sum says nothing */
};

static void tick_sum_add(struct tick_sum *sum, const struct proc_sample *p)
{
	const struct gpu_use use = gpu_use_of(p);

	sum->n_processes++;
	sum->rss_bytes = u64_add_known(sum->rss_bytes, p->rss_bytes);
	sum->hwm_bytes = u64_max_known(sum->hwm_bytes, p->hwm_bytes);
	sum->gpu.held_bytes = u64_add_known(sum->gpu.held_bytes, use.held_bytes);
	if (f64_known(use.idle_devices))
		sum->gpu.idle_devices += use.idle_devices;
	else
		sum->gpu.idle_is_least = true;
	if (f64_known(use.percent))
		sum->gpu.percent =
			f64_known(sum->gpu.percent) ? sum->gpu.percent + use.percent : use.percent;
	else if (use.held_bytes > 0) /* or unknown, which is more */
		sum->has_untold_share = true;
}

static void add_tick(struct account *a, const struct tick_sum *sum, struct series_point point,
		     double unshared, uint64_t since_ns)
{
	struct gpu_use gpu = sum->gpu;

	point.n_processes = sum->n_processes;
	point.rss_bytes = sum->rss_bytes;
	if (sum->has_untold_share)
		gpu.percent = F64_UNKNOWN;
	account_add_tick(a, &point, sum->hwm_bytes, &gpu, since_ns);
	if (!u64_known(sum->rss_bytes) || isnan(unshared))
		return;
	a->has_shared |= unshared > 0;
	a->sampled_peak_memory_bytes = u64_max_known(
		a->sampled_peak_memory_bytes, (uint64_t)((double)sum->rss_bytes * (1 - unshared)));
}

void tally_set_share(struct tally *t, double share)
{
	t->unshared = 1 - share;
}

void tally_snapshot(struct tally *t, const struct snapshot *snap, int sheet_num,
		    struct series_point *ret)
{
	struct tick_sum all = { .rss_bytes = U64_UNKNOWN,
				.hwm_bytes = U64_UNKNOWN,
				.gpu = { .held_bytes = U64_UNKNOWN, .percent = F64_UNKNOWN } };
	struct tick_sum of_try = all;
	struct series_point point = { .wall_ns = snap->wall_ns, .sheet_num = sheet_num };
	uint64_t cpu_ns = 0;
	double most;

	t->since_tick_ns = u64_delta(snap->boot_ns, t->tick_boot_ns);
	t->tick_boot_ns = snap->boot_ns;
	for (size_t i = 0; i < snap->n_processes; i++) {
		const struct proc_sample *p = &snap->processes[i];
		const struct entry *e;

		if (!p->job_id)
			continue;
		cpu_ns = u64_add_known(cpu_ns,
				       u64_max_known(p->cpu_ns, u64_add(p->user_ns, p->system_ns)));
		cpu_ns = u64_add_known(cpu_ns, u64_add_known(p->child_user_ns, p->child_system_ns));
		/* A zombie whose exit was reported: all else is for the process that waits for it.
		 */
		if (p->state == 'Z' && t->sees_births && !tally_find_alive(t, p->key.pid))
			continue;
		take_sample(t, p);
		/* Who has died, and was counted so, is not counted again because nobody waits for
		 * it. */
		e = p->state == 'Z' ? tally_find_alive(t, p->key.pid) : NULL;
		if (e && u64_known(e->record.died_wall_ns))
			continue;
		tick_sum_add(&all, p);
		if (tally_try_account(t, tally_find_alive(t, p->key.pid)))
			tick_sum_add(&of_try, p);
	}
	point.n_processes = all.n_processes;
	point.rss_bytes = all.rss_bytes;
	point.cpu_percent = tree_cpu_percent(t, cpu_ns, snap->boot_ns);
	most = 100.0 * snap->system.cpu_count; /* rounding to ticks can give a little more */
	if (most > 0 && point.cpu_percent > most)
		point.cpu_percent = most;
	add_tick(&t->attempt, &all, point, t->unshared, t->since_tick_ns);
	*ret = point;
	if (!t->sheet_is_alone)
		point.cpu_percent = F64_UNKNOWN; /* whose CPU is it? */
	add_tick(&t->sheet, &of_try, point, t->unshared, t->since_tick_ns);
}
