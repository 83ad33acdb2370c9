#include "jobs/tally.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"
#include "jobs/tally_internal.h"

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

struct account *tally_try_account(struct tally *t, const struct entry *e)
{
	return !e || e->serial == t->serial ? &t->sheet : NULL;
}

const char *tally_keep_command(struct tally *t, const char *command)
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

struct entry *tally_find_alive(const struct tally *t, pid_t pid)
{
	uint64_t i;

	return map_get(&t->alive, pid_key(pid), &i) && i < UNLISTED_DEAD ? &t->entries[i] : NULL;
}

bool tally_is_unlisted(const struct tally *t, pid_t pid)
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

struct entry *tally_add_entry(struct tally *t, pid_t pid, pid_t ppid, int sheet_num, int rank)
{
	struct entry *e = tally_find_alive(t, ppid);
	unsigned serial = e ? e->serial : t->serial;
	/* Without news of deaths nobody knows how many live; the samples tell. */
	uint64_t n_living = t->sees_births ? ++t->n_living : U64_UNKNOWN;

	account_add_spawn(&t->attempt, n_living);
	if (serial == t->serial) /* what else lives is not this try's */
		account_add_spawn(&t->sheet, t->sheet_is_alone ? n_living : U64_UNKNOWN);
	if (t->n >= TALLY_MAX_PROCESSES || ARRAY_RESERVE(t->entries, t->cap, t->n + 1) < 0 ||
	    map_put(&t->alive, pid_key(pid), t->n) < 0) {
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

void tally_note_birth(struct tally *t, struct entry *e, uint64_t wall_ns)
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

void tally_root(struct tally *t, const struct birth *b)
{
	struct entry *e = tally_add_entry(t, b->pid, b->ppid, b->sheet_num, b->rank);

	if (!e)
		return;
	e->is_root = true;
	e->record.command = b->command ? tally_keep_command(t, b->command) : NULL;
	e->record.uid = b->uid;
	tally_note_birth(t, e, b->wall_ns);
}

struct entry *tally_note_parent(struct tally *t, pid_t pid)
{
	struct entry *parent = tally_find_alive(t, pid);

	if (!parent)
		return NULL;
	parent->has_children = true;
	if (parent->ignores_sigchld)
		t->attempt.has_unwaited = t->sheet.has_unwaited = true;
	return parent;
}

void tally_fork(struct tally *t, const struct birth *b)
{
	struct entry *e = tally_find_alive(t, b->pid);
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
	e->fork_was_told = true;
	/* Until it execs, a child runs its parent's program. */
	e->record.command = parent ? parent->record.command : NULL;
	e->record.uid = parent ? parent->record.uid : U64_UNKNOWN;
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

void tally_name(struct tally *t, pid_t pid, const char *name)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e && !e->record.command)
		e->record.command = tally_keep_command(t, name);
}

void tally_lost(struct tally *t, uint64_t n)
{
	t->n_lost += n;
	if (n > 0)
		t->sees_births = false;
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
	tally_add_event(t, &ev, e->is_root);
}

void tally_exit(struct tally *t, pid_t pid, int wait_status, uint64_t wall_ns)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e && !u64_known(e->record.died_wall_ns))
		note_death(t, e, wait_status, wall_ns);
	else
		note_unlisted_death(t, pid);
}

/* Of a process that lived between two samples, and that we did not wait for, there is nothing else.
 */
void tally_account(struct tally *t, pid_t pid, const struct exit_account *account)
{
	struct entry *e = tally_find_alive(t, pid);

	if (e)
		proc_record_account(&e->record, account);
}

/* With that of children that it has waited for, as everywhere. */
static void take_io(struct proc_record *p, const struct proc_sample *zombie)
{
	if (!u64_known(zombie->rchar))
		return;
	p->rchar = zombie->rchar;
	p->wchar = zombie->wchar;
	p->read_bytes = zombie->read_bytes;
	p->write_bytes = zombie->write_bytes;
}

/* By its account, in nanoseconds, where a zombie tells clock ticks. */
static bool has_account(const struct entry *e)
{
	return e->record.cpu_evidence == EVIDENCE_LOWER_BOUND;
}

static void finish_entry(const struct tally *t, struct entry *e, const struct reaped *reaped,
			 const struct proc_sample *zombie)
{
	take_io(&e->record, zombie);
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
	} else if (u64_known(zombie->user_ns) && !has_account(e)) {
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
		note_death(t, e, reaped->wait_status, wall_ns);
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

	tally_add_event(t, &ev, false);
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

	tally_add_event(t, &ev, false);
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

	tally_add_event(t, &ev, false);
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

void tally_end_sheet(struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->sheet, boot_ns, t->sees_births, is_complete, ret);
	settle_marks(t, t->serial, ret);
	peaks_add(&t->ended_peaks, ret->peak_rss_bytes, ret->peak_rss_evidence);
	t->sheet_is_open = false;
}

void tally_total(const struct tally *t, uint64_t boot_ns, bool is_complete, struct usage *ret)
{
	account_settle(&t->attempt, boot_ns, t->sees_births, is_complete, ret);
	settle_marks(t, 0, ret);
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

uint64_t tally_untold_gpu_ns(const struct tally *t)
{
	return gpu_time_untold_ns(&t->attempt.gpu);
}

uint64_t tally_untold_gpu_idle_ns(const struct tally *t)
{
	return gpu_time_idle_untold_ns(&t->attempt.gpu);
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
